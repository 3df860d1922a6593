"""Compares two policy sets: their texts, and the placements that result; text and Markdown.

The Markdown is for a comment on a pull request, and names and texts come from untrusted files. Each
is put in a code span of harmless characters, in a fenced block whose fence does not occur in it, or
in `<code>` with every other character as an entity: it cannot become markup, a link or the mention
of a user.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from policy_sched.diff import report
from policy_sched.diff.placement_diff import Cause, PlacementDiff, SeedsDiff
from policy_sched.model import counted
from policy_sched.profiles.format import ValueDifference
from policy_sched.profiles.reload import CompiledFiles
from policy_sched.report import Document
from policy_sched.simulate import applied_text

DIFFERENCES: Final = 25
NAMED: Final = 20
LONGEST: Final = 400
"""Limits of a comment: differences, pods, characters of one value. GitHub accepts 65,536
characters, and an entity is up to ten of them."""
_HARMLESS: Final = re.compile(r"[A-Za-z0-9 ./:,;()'%=+\[\]{}\"-]+")
_PLAIN: Final = re.compile(r"[A-Za-z0-9 /-]")


def code(text: str) -> str:
    """Return a text as code that cannot be read as markup."""
    shown = " ".join(_visible(text).split())
    if not shown:
        return ""
    if len(shown) > LONGEST:
        shown = f"{shown[:LONGEST]}..."
    if _HARMLESS.fullmatch(shown):
        return f"`{shown}`"
    return f"<code>{''.join(_entity(c) for c in shown)}</code>"


def _entity(character: str) -> str:
    return character if _PLAIN.match(character) else f"&#{ord(character)};"


def _visible(text: str) -> str:
    """Return a text with escapes for invisible characters."""
    return "".join(
        c if c.isprintable() or c.isspace() else c.encode("unicode_escape").decode("ascii")
        for c in text
    )


def configurations(old: CompiledFiles, new: CompiledFiles) -> Iterator[str]:
    """Yield the configuration that enables policies, if any, and the policies left out."""
    if old.config is None and new.config is None:
        return
    for name, side in (("Before", old), ("After", new)):
        yield f"- {name}: {_configuration(side)}"
    yield ""


def _configuration(side: CompiledFiles) -> str:
    if side.config is None:
        return "no KubeSchedulerConfiguration; each policy is enabled"
    text = f"{code(side.config)} decides which policies are enabled"
    idle = ", ".join(map(code, side.idle))
    return f"{text}; not enabled, and not compared on a cluster: {idle}" if idle else text


def differences(listed: Sequence[ValueDifference]) -> Iterator[str]:
    """Yield the differences between the policy sets."""
    if not listed:
        yield SAME
    for difference in listed[:DIFFERENCES]:
        yield f"- {code(difference.where)}"
        yield ""
        removed = [f"- {line}" for line in _lines(difference.old)]
        added = [f"+ {line}" for line in _lines(difference.new)]
        yield from (f"  {line}" for line in _fenced("diff", [*removed, *added]))
        yield ""
    if len(listed) > DIFFERENCES:
        yield f"- and {counted(len(listed) - DIFFERENCES, 'more difference')}"


def _lines(value: str) -> list[str]:
    if not value:
        return []
    short = value if len(value) <= LONGEST else f"{value[:LONGEST]}..."
    return _visible(short).splitlines()


def _fenced(language: str, lines: Sequence[str]) -> Iterator[str]:
    runs = re.findall(r"`+", "\n".join(lines))
    fence = "`" * max(3, 1 + max(map(len, runs), default=0))
    yield f"{fence}{language}"
    yield from lines
    yield fence


def placements(diff: PlacementDiff | SeedsDiff) -> Iterator[str]:
    """Yield the moved pods and the change of the cluster."""
    if isinstance(diff, SeedsDiff):
        yield from _with_seeds(diff)
        run, with_seed = diff.runs[0], f", with seed {diff.seeds[0]}"
    else:
        yield from _with_one_seed(diff)
        run, with_seed = diff, ""
    for name, side in (("before", run.old), ("after", run.new)):
        if side.policies:
            yield ""
            yield f"Policies {name}{with_seed}:"
            yield ""
            yield from (
                f"- {code(policy.policy)} {applied_text(policy)}" for policy in side.policies
            )


def _with_one_seed(diff: PlacementDiff) -> Iterator[str]:
    causes = report.causes_text(diff)
    yield f"**{report.totals_text(diff)}**" + (f" ({causes})" if causes else "")
    yield ""
    moves = report.worst_first(diff.moves)
    for move in moves[:NAMED]:
        where = code(move.new) if move.new is not None else f"nowhere: {code(move.message)}"
        yield f"- {code(move.pod)}: {code(move.old or '') or 'nowhere'} → {where}"
    if len(moves) > NAMED:
        yield f"- and {len(moves) - NAMED:,} more"
    if moves:
        yield ""
    rows = [(code(name), old, new) for name, old, new in report.sides(diff.old, diff.new)]
    yield from _table(("", "before", "after"), rows)
    if set(diff.causes) - {"policy"}:
        yield ""
        yield report.ONE_SEED


def _with_seeds(diff: SeedsDiff) -> Iterator[str]:
    run = diff.runs[0]
    moved, lost, won = (report.mean_text(diff.mean_of_kind(kind)) for kind in report.KINDS)
    yield (
        f"**{counted(run.pods, 'pod')} on {counted(run.nodes, 'node')},"
        f" {counted(len(diff.seeds), 'seed')} ({report.seeds_text(diff.seeds)}): {moved} move,"
        f" {lost} become unschedulable, {won} schedulable (means)**"
    )
    causes = report.means_of_causes(diff)
    if causes:
        yield ""
        yield f"Of these, {causes}."
    yield ""
    heads = ("", "before", "after", "difference", "95 % interval", "")
    rows = [(code(name), *cells) for name, *cells in map(report.measure_row, diff.measures)]
    yield from _table(heads, rows)
    fates = diff.fates
    if fates:
        yield ""
    for fate in fates[:NAMED]:
        yield f"- {code(fate.pod)}: placed with {report.fate_text(fate)}"
    if len(fates) > NAMED:
        yield f"- and {len(fates) - NAMED:,} more"
    always = diff.always
    if always:
        yield ""
        yield f"{report.always_text(diff, always)}:"
        yield ""
    for moved_pod in always[:NAMED]:
        where = (code(report.nodes_text(nodes)) for nodes in (moved_pod.old, moved_pod.new))
        yield f"- {code(moved_pod.pod)}: {' → '.join(where)}"
    if len(always) > NAMED:
        yield f"- and {len(always) - NAMED:,} more"
    few = report.too_few(diff)
    if few:
        yield ""
        yield few


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield a table; its cells are escaped already."""
    yield f"| {' | '.join(heads)} |"
    yield f"|{'|'.join(['---', *['---:'] * (len(heads) - 1)])}|"
    yield from (f"| {' | '.join(row)} |" for row in rows)


SAME: Final = "The policy sets are the same."
IDENTICAL: Final = "nothing differs that decides"
NOT_COMPARED: Final = (
    "No profile enables a policy that differs: the placements do not show the difference."
)


@dataclass(frozen=True, slots=True)
class PolicyDiff:
    """Two policy sets, their differences, and the placements of both (None without a cluster)."""

    old: CompiledFiles
    new: CompiledFiles
    differences: Sequence[ValueDifference]
    placements: PlacementDiff | SeedsDiff | None = None
    proven: Sequence[str] | None = None
    """The policies that are proven to decide alike, if nothing else differs that decides."""

    @property
    def idle_only(self) -> bool:
        """Whether the sets differ, but in no policy that a profile enables."""
        return bool(self.differences) and not any(
            difference.enabled for difference in self.differences
        )

    def unchanged(self, show: Callable[[str], str] = str) -> str:
        """Return that no decision can change by what differs, with names as ``show`` has them.

        Empty: some may change, or nothing differs.
        """
        if self.proven is None or not self.differences:
            return ""
        which = ", ".join(map(show, self.proven))
        verb = "decides" if len(self.proven) == 1 else "decide"
        why = f"proven: {which} {verb} as before for every pod and node" if which else IDENTICAL
        return f"No decision can change ({why})."

    def text_lines(self) -> Iterator[str]:
        """Yield the differences as text."""
        lines = [*self.configuration_lines(), *filter(None, [self.unchanged()])]
        yield from lines
        if lines:
            yield ""
        if not self.differences:
            yield SAME
        for difference in self.differences:
            yield difference.where
            for mark, text in (("-", difference.old), ("+", difference.new)):
                yield from (f"  {mark} {line}" for line in text.split("\n") if text)
        if self.placements is not None:
            yield ""
            if self.idle_only:
                yield NOT_COMPARED
                yield ""
            yield from _placement_lines(self.placements)

    def configuration_lines(self) -> Iterator[str]:
        """Yield the configuration that enables policies, if any, and the policies left out."""
        if self.old.config is None and self.new.config is None:
            return
        for name, side in (("OLD", self.old), ("NEW", self.new)):
            if side.config is None:
                yield f"{name}: no KubeSchedulerConfiguration; each policy is enabled"
            else:
                yield f"{name}: {side.config} decides which policies are enabled"
            if side.idle:
                yield f"  not enabled, and not compared on a cluster: {', '.join(side.idle)}"

    def document(self) -> Document:
        """Return the differences as plain data."""
        plain_data: Document = {
            "configurations": {
                name: {"file": side.config, "notEnabled": list(side.idle)}
                for name, side in (("old", self.old), ("new", self.new))
            },
            "differences": msgspec.to_builtins(self.differences),
        }
        if self.proven is not None:
            plain_data["proof"] = {
                "claim": "no decision can change",
                "answer": "proven",
                "policies": list(self.proven),
            }
        placements = self.placements
        if isinstance(placements, SeedsDiff):
            policies = report.policies_document(placements.runs[0])
            plain_data["placements"] = {**report.seeds_document(placements), "policies": policies}
        elif placements is not None:
            policies = report.policies_document(placements)
            plain_data["placements"] = {
                **report.placement_document(placements),
                "policies": policies,
            }
        return plain_data

    def markdown_lines(self) -> Iterator[str]:
        """Yield the differences as Markdown, for a comment on a pull request."""
        yield "## What the policies change"
        yield ""
        yield from configurations(self.old, self.new)
        unchanged = self.unchanged(code)
        if unchanged:
            yield from (f"**{unchanged}**", "")
        yield from differences(self.differences)
        if self.placements is not None:
            yield from ("", "### On the cluster", "")
            if self.idle_only:
                yield from (NOT_COMPARED, "")
            yield from placements(self.placements)


def _placement_lines(diff: PlacementDiff | SeedsDiff) -> Iterator[str]:
    if isinstance(diff, SeedsDiff):
        yield from report.seeds_lines(diff)
        yield from report.applied_lines(diff.runs[0], f", with seed {diff.seeds[0]}")
        return
    yield from report.placement_lines(diff)
    yield from report.applied_lines(diff)
    if diff.causes.keys() - {Cause.POLICY}:
        yield ""
        yield report.ONE_SEED
