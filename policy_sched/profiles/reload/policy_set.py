"""A policy set as one path: policies, and perhaps the configuration that enables them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path as FilePath

from policy_sched.errors import Diagnostic, PolicySchedError
from policy_sched.language.diagnostics import MAX_ANNOTATED_COST, PolicySource
from policy_sched.profiles.build import CompiledPlan, raise_errors
from policy_sched.profiles.load import (
    files_below,
    kind_of,
    load_policies,
    policy_source,
    read_documents,
)
from policy_sched.profiles.models import API_VERSION, KIND
from policy_sched.profiles.reload.inputs import PolicyFiles


@dataclass(frozen=True, slots=True)
class PolicySet:
    """A policy set, compiled.

    ``config``: the KubeSchedulerConfiguration that decides which policies are enabled; None: each
    one is. ``idle``: the policies of the set that no profile enables, by name. ``warnings``: of
    the files that were read.
    """

    config: str | None
    plans: Sequence[CompiledPlan]
    idle: dict[str, PolicySource]
    warnings: Sequence[Diagnostic] = ()


def read_policy_set(path: str, max_cost_limit: int = MAX_ANNOTATED_COST) -> PolicySet:
    """Read and compile a policy set. Raises PolicyError with every problem if one is an error.

    ``max_cost_limit``: the most that a policy's annotation may let its rules cost.
    """
    files = replace(policy_set(path), max_cost_limit=max_cost_limit)
    compilation = files.compile()
    raise_errors(compilation.problems)
    plans = compilation.plans
    enabled = {name for ready in plans for name in ready.plan.policies}
    policies, _ = load_policies(files.policies)
    idle = {one.name: policy_source(one) for one in policies if one.name not in enabled}
    config = files.config if isinstance(files.config, str) else None
    return PolicySet(config, plans, dict(sorted(idle.items())), compilation.problems)


def policy_set(path: str) -> PolicyFiles:
    """Return the files of a policy set: of a directory, or of one file.

    A KubeSchedulerConfiguration among them enables the policies; without one each is enabled
    after the default plugins. Raises PolicySchedError if there are several.
    """
    root = FilePath(path)
    found = [str(file) for file in files_below(root) if _is_configuration(file)]
    if len(found) > 1:
        message = f"{path} has several KubeSchedulerConfigurations: {', '.join(found)}"
        raise PolicySchedError(message)
    if found == [path]:
        return PolicyFiles(path)
    return PolicyFiles(found[0] if found else None, (path,))


def _is_configuration(file: FilePath) -> bool:
    documents, _ = read_documents(file)
    return any(kind_of(marked.value) == (API_VERSION, KIND) for marked in documents)
