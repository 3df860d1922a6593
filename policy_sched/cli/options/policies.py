"""The options that name the policies of a scheduler: ``--config``, ``--policies`` and a limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from policy_sched.cli.input.values import MaxCostLimit, policy_paths
from policy_sched.cli.output.diagnostics import require_files
from policy_sched.errors import PolicySchedError
from policy_sched.language.diagnostics import MAX_ANNOTATED_COST
from policy_sched.profiles.models import gates_of
from policy_sched.profiles.reload import PolicyFiles


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class PolicyFlags:
    """The configuration and the policies that decide.

    Parameters
    ----------
    config
        A KubeSchedulerConfiguration; without it the default profile decides.
    policies
        Policy files, directories of them, or names of shipped policies (gang). Without --config
        each is enabled with weight 1.
    feature_gates
        Feature gates to turn on or off, before those of the configuration:
        GenericWorkload=true,GangScheduling=true.
    max_cost_limit
        The most nanoseconds for each node that the annotation policysched.dev/cost-limit of a
        policy may let its rules cost; a policy that asks for more is refused.
    """

    config: str | None = None
    policies: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = ()
    max_cost_limit: MaxCostLimit = MAX_ANNOTATED_COST
    feature_gates: str = ""

    def files(self) -> PolicyFiles:
        """Return the files. Raises PolicySchedError or OSError for what is not there."""
        policies = policy_paths(self.policies)
        require_files([self.config] if self.config else [])
        return PolicyFiles(self.config, policies, self.max_cost_limit, self._gates())

    def _gates(self) -> dict[str, bool]:
        """Return the feature gates. Raises PolicySchedError for a text that names none."""
        try:
            return gates_of(self.feature_gates)
        except ValueError as error:
            raise PolicySchedError(f"--feature-gates: {error}") from None
