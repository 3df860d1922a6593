"""The policies of a recording: compiled as they were in force, and the measures that they state."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from policy_sched.errors import PolicyError
from policy_sched.experiments import MeasureRules, stated_measures
from policy_sched.language.diagnostics import MAX_ANNOTATED_COST
from policy_sched.profiles.build import CompiledPlan, raise_errors
from policy_sched.profiles.reload import Compilation, PolicyFiles
from policy_sched.recording import PolicyChanged, RecordedPolicies, Recording
from policy_sched.source import write_file


@dataclass(frozen=True, slots=True)
class PolicySet:
    """Compiled policies, and the rules of the measures that they state, by name."""

    compilation: Compilation
    measures: Mapping[str, MeasureRules]

    @property
    def plans(self) -> tuple[CompiledPlan, ...]:
        """The compiled plans."""
        return self.compilation.plans


def compiled(files: PolicyFiles) -> PolicySet:
    """Compile files. Raises PolicyError with every problem."""
    compilation = files.compile()
    raise_errors(compilation.problems)
    return PolicySet(compilation, stated_measures(files.loaded()))


def compiled_recorded(
    recorded: Mapping[str, RecordedPolicies],
) -> tuple[dict[str, PolicySet], list[str]]:
    """Compile what was in force, by hash; return what cannot be, in sentences, too."""
    sets: dict[str, PolicySet] = {}
    notes: list[str] = []
    for content_hash, policies in recorded.items():
        try:
            sets[content_hash] = now = _compiled(policies)
            if now.compilation.content_hash != content_hash:
                notes.append(
                    f"the policies {content_hash[:12]} are others than those that decided: their"
                    " texts were changed, or mean something else to this version of policy-sched"
                )
        except PolicyError as error:
            first = error.diagnostics[0].message
            notes.append(f"the policies {content_hash[:12]} cannot be compiled any more: {first}")
    return sets, notes


def _compiled(policies: RecordedPolicies) -> PolicySet:
    with tempfile.TemporaryDirectory(prefix="policy-sched-") as folder:
        for name, text in policies.files.items():
            write_file(Path(folder, name), text.encode(), parents=True)
        return compiled(
            PolicyFiles(
                str(Path(folder, policies.config)) if policies.config else None,
                tuple(str(Path(folder, name)) for name in policies.policies),
                policies.max_cost_limit or MAX_ANNOTATED_COST,
                dict(policies.feature_gates),
            )
        )


def in_force_at(recording: Recording, time: int) -> str:
    """Return the hash of the policies that were in force at a time, "" if none is recorded."""
    first = next(iter(recording.events(time)), None)
    return first.hash if isinstance(first, PolicyChanged) else ""
