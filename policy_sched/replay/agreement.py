"""How far recorded decisions agree with the policies of then: numbers, and each disagreement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from policy_sched.instance.shadow import Agreement, Comparison, why
from policy_sched.model import counted
from policy_sched.recording import Decided, PolicyChanged, Recording
from policy_sched.replay.decision_logs import with_decisions
from policy_sched.replay.decisions import OthersDecisions, OwnDecisions, Plans, Tally
from policy_sched.replay.policies import PolicySet
from policy_sched.report import Document
from policy_sched.simulate import time_text

SHOWN: Final = 20
"""Disagreements that the text lists at most; JSON has all."""
WORDS: Final = {
    Agreement.AGREE: "agree",
    Agreement.DIFFER: "go elsewhere",
    Agreement.UNSCHEDULABLE: "find no node",
    Agreement.SCHEDULABLE: "find a node, and found none then",
    Agreement.UNDECIDED: "were not answered",
    Agreement.ERROR: "meet an error",
}


@dataclass(frozen=True, slots=True)
class AgreementReport:
    """Recorded decisions from ``start`` to ``end``, in ns since 1970, held against policies."""

    start: int
    end: int
    own: bool
    """Whether the policies are those of the recording."""
    tally: Tally
    notes: Sequence[str]
    """What is missing in the recording."""

    @property
    def differ(self) -> int:
        """Decisions that do not agree."""
        return len(self.tally.differences)

    def lead(self) -> str:
        """Return the result in one sentence."""
        tally = self.tally
        agree = tally.results[Agreement.AGREE]
        ties = f", {tally.ties:,} of them by a tie" if tally.ties else ""
        return f"{agree:,} of {counted(tally.decisions, 'decision')} agree{ties}"

    def source(self) -> str:
        """Return what was held against what."""
        whose = "the policies that were in force" if self.own else "the default policies"
        return f"{time_text(self.start)} to {time_text(self.end)}, held against {whose}"

    def text_lines(self) -> Iterator[str]:
        """Yield the report as text."""
        yield self.source()
        yield self.lead()
        for result, count in self.others():
            yield f"  {count:,} {WORDS[result]}"
        for reason, count in sorted(self.tally.left_out.items()):
            yield f"  {count:,} left out: {reason}"
        differences = self.tally.differences
        if differences:
            yield ""
            yield "Decisions that differ:"
        for difference in differences[:SHOWN]:
            yield f"  {difference_text(difference)}"
            if difference.cause:
                yield f"    cause: {difference.cause}"
        if len(differences) > SHOWN:
            yield f"  and {len(differences) - SHOWN:,} more"
        if self.notes:
            yield ""
        for note in self.notes:
            yield f"Note: {note}"

    def others(self) -> list[tuple[Agreement, int]]:
        """Return the results that are no agreement, with their numbers."""
        results = self.tally.results
        return [(r, results[r]) for r in Agreement if r is not Agreement.AGREE and results[r]]

    def causes(self) -> Counter[str]:
        """Return the causes of disagreements with their numbers; "" where none is known."""
        return Counter(difference.cause for difference in self.tally.differences)

    def document(self) -> Document:
        """Return the report as plain data."""
        tally = self.tally
        return {
            "agreement": {
                "since": time_text(self.start),
                "until": time_text(self.end),
                "policies": "recorded" if self.own else "default",
                "decisions": tally.decisions,
                "results": {result.value: tally.results[result] for result in Agreement},
                "ties": tally.ties,
                "leftOut": dict(sorted(tally.left_out.items())),
                "byPolicies": {
                    content_hash: {r.value: counts[r] for r in Agreement if counts[r]}
                    for content_hash, counts in sorted(tally.by_policies.items())
                },
            },
            "differences": msgspec.to_builtins(tally.differences),
            "notes": list(self.notes),
        }


def agreement(
    recording: Recording,
    sets: Mapping[str, PolicySet],
    default: PolicySet,
    span: tuple[int, int],
    notes: Sequence[str] = (),
    logged: Sequence[Decided] = (),
) -> AgreementReport:
    """Make the decisions of a recording again, from ``span``'s start until before its end.

    ``sets``: the recorded policies by hash. Decisions of other schedulers are made with
    ``default`` if the recording has no policies at all. ``notes``: what else is missing.
    ``logged``: decisions of a log, in place of those seen of the same pods.
    """
    start, end = span
    events = recording.events(start, end)
    own = bool(recording.policies or logged)
    if own:
        hashes = (event.hash for event in events if isinstance(event, PolicyChanged))
        first = next((sets[digest] for digest in hashes if digest in sets), default)
        events = with_decisions(recording.events(start, end), logged)

        def plans_of(content_hash: str) -> Plans | None:
            known = sets.get(content_hash)
            return None if known is None else known.plans

        tally = OwnDecisions(first.plans, plans_of, start).play(events)
    else:
        tally = OthersDecisions(default.plans, start).play(events)
    return AgreementReport(start, end, own, tally, [*notes, *recording.notes])


def difference_text(difference: Comparison) -> str:
    """Return one disagreement in a line."""
    then, now = difference.theirs, difference.ours
    at = time_text(round(difference.time * 1e9))
    words = f"{then.node or 'no node'} -> {now.node or 'no node'}"
    return f"{at}  {difference.pod}  {words}  ({why(difference)})"
