"""What a trial shows: the answer in a sentence, who gains and loses, every move, the measures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from policy_sched.console.pages.page import node_href, pod_href
from policy_sched.console.trials import Trial
from policy_sched.diff import (
    CAUSES,
    NOT_COMPARED,
    Cause,
    Move,
    PlacementDiff,
    PolicyDiff,
    SeedsDiff,
    causes_text,
    mean_text,
    means_of_causes,
    measure_row,
    seeds_text,
    sides,
    worst_first,
)
from policy_sched.model import counted
from policy_sched.simulate import applied_text
from policy_sched.web import (
    Badge,
    Block,
    Column,
    Fact,
    Facts,
    Problem,
    Prose,
    Section,
    Table,
    Text,
    Tone,
    Value,
)

MOST: Final = 200
"""Rows of a table of pods."""
NODES: Final = 20
"""Nodes that are shown."""
NOWHERE: Final = "-"
_TONES: Final[dict[str, Tone]] = {
    "better": "good",
    "worse": "bad",
    "noise": "dim",
    "too few seeds": "dim",
}


def sections(trial: Trial, href: str) -> list[Section]:
    """Return the result of a trial; ``href``: the address of the editor, for problems."""
    problems = [Problem.of(one, f"{href}&line={one.line}") for one in trial.problems]
    if trial.found is None:
        text = "The edited policies have errors, so nothing was decided."
        return [Section("Problems", [Prose([Text(text, tone="bad")]), *problems])]
    found = trial.found
    parts = [_differences(found)]
    if isinstance(found.placements, SeedsDiff):
        parts = [*_with_seeds(found, found.placements), *parts]
    elif found.placements is not None:
        parts = [*_with_one_seed(found, found.placements, trial.pending), *parts]
    if problems:
        parts.append(Section("Warnings", problems))
    return parts


def _differences(found: PolicyDiff) -> Section:
    rows: list[Sequence[Value]] = [
        [one.where, Text(one.old, code=True), Text(one.new, code=True)] for one in found.differences
    ]
    columns = [Column("Where"), Column("In force"), Column("Edited")]
    empty = "the edited policies mean the same as those in force"
    return Section("What is edited", [Table("Differences", columns, rows, empty=empty)])


def _notes(found: PolicyDiff, pending: int) -> list[Text]:
    notes = []
    if not pending:
        text = "The cluster has no pending pods: there is nothing to decide, with either set."
        notes.append(Text(text, tone="warn"))
    if found.idle_only:
        notes.append(Text(NOT_COMPARED, tone="warn"))
    return notes


def _with_one_seed(found: PolicyDiff, diff: PlacementDiff, pending: int) -> list[Section]:
    counts = diff.counts
    causes = causes_text(diff)
    answer = (
        f"{counted(diff.pods, 'pod')} on {counted(diff.nodes, 'node')}: {counts['moved']:,} move,"
        f" {counts['unschedulable']:,} become unschedulable,"
        f" {counts['schedulable']:,} schedulable{f' ({causes})' if causes else ''}."
    )
    notes: list[Value] = [answer, *_notes(found, pending)]
    if set(diff.causes) - {Cause.POLICY}:
        notes.append(
            Text("This is one seed: another one breaks ties otherwise. More seeds tell", tone="dim")
        )
    apart = [one for one in diff.moves if one.cause is Cause.TIE]
    rest = worst_first([one for one in diff.moves if one.cause is not Cause.TIE])
    first: list[Block] = [Prose(notes), _numbers(diff)]
    moves: list[Block] = [
        _pods("Pods that lose their node", [one for one in rest if one.new is None], lost=True),
        _pods("Pods that gain a node", [one for one in rest if one.old is None]),
        _pods("Pods that go to another node", [one for one in rest if one.new and one.old]),
    ]
    if apart:
        note = "Both nodes have the highest score; only the random choice differs."
        moves.append(_pods("Ties, set apart", apart, note=note))
    return [
        Section("Result", first),
        Section("Which pods move", [one for one in moves if not isinstance(one, Table) or one.rows])
        if diff.moves
        else Section("Which pods move", [Prose(["Every pod stays where it is."])]),
        *_gains(diff),
        _measures(diff),
        _applied(diff),
    ]


def _numbers(diff: PlacementDiff) -> Facts:
    counts, causes = diff.counts, diff.causes
    losing: Tone = "bad" if counts["unschedulable"] else ""
    gaining: Tone = "good" if counts["schedulable"] else ""
    facts = [
        Fact("lose their node", Text(f"{counts['unschedulable']:,}", tone=losing)),
        Fact("gain a node", Text(f"{counts['schedulable']:,}", tone=gaining)),
        Fact("go to another node", f"{counts['moved']:,}"),
    ]
    facts += [
        Fact(words, f"{causes[cause]:,}", "of these")
        for cause, words in CAUSES.items()
        if causes[cause]
    ]
    return Facts(facts, big=True)


def _pods(title: str, moves: Sequence[Move], *, lost: bool = False, note: str = "") -> Table:
    columns = [Column("Pod"), Column("In force"), Column("Edited"), Column("Why")]
    rows = [
        [
            Text(one.pod, pod_href(one.pod)),
            _node(one.old),
            one.message if lost else _node(one.new),
            "" if one.cause is None else CAUSES[one.cause],
        ]
        for one in moves[:MOST]
    ]
    more = f"and {len(moves) - MOST:,} more" if len(moves) > MOST else note
    return Table(f"{title} ({len(moves):,})", columns, rows, more)


def _node(name: str | None) -> Text:
    return Text(NOWHERE, tone="dim") if name is None else Text(name, node_href(name))


def _gains(diff: PlacementDiff) -> list[Section]:
    """Return who gains and who loses: namespaces, and nodes."""
    if not diff.moves:
        return []
    gained = Counter(_namespace(one) for one in diff.moves if one.old is None)
    lost = Counter(_namespace(one) for one in diff.moves if one.new is None)
    moved = Counter(_namespace(one) for one in diff.moves if one.old and one.new)
    names = sorted({*gained, *lost, *moved}, key=lambda name: (gained[name] - lost[name], name))
    rows: list[Sequence[Value]] = [
        [name, *(f"{one[name]:,}" for one in (gained, lost, moved)), _net(gained[name], lost[name])]
        for name in names
    ]
    heads = ("gain a node", "lose it", "go elsewhere", "net")
    columns = [Column("Namespace"), *(Column(head, number=True) for head in heads)]
    table = Table("Namespaces: pods that gain and lose", columns, rows, sortable=True)
    return [Section("Who gains, who loses", [table, _nodes(diff.moves)])]


def _namespace(one: Move) -> str:
    return one.pod.partition("/")[0]


def _net(gained: int, lost: int) -> Value:
    net = gained - lost
    return Text(f"{net:+,}", tone="good" if net > 0 else "bad") if net else "0"


def _nodes(moves: Iterable[Move]) -> Table:
    change: Counter[str] = Counter()
    for one in moves:
        if one.old is not None:
            change[one.old] -= 1
        if one.new is not None:
            change[one.new] += 1
    found = sorted(
        ((name, net) for name, net in change.items() if net), key=lambda one: (-abs(one[1]), one[0])
    )
    rows: list[Sequence[Value]] = [
        [Text(name, node_href(name)), f"{net:+,}"] for name, net in found[:NODES]
    ]
    more = f"and {len(found) - NODES:,} more nodes" if len(found) > NODES else ""
    columns = [Column("Node"), Column("pods", number=True)]
    empty = "no node has more pods or fewer"
    return Table("Nodes: pods more or fewer", columns, rows, more, empty, sortable=True)


def _measures(diff: PlacementDiff) -> Section:
    columns = [
        Column("Measure"),
        *(Column(one, number=True) for one in ("in force", "edited")),
        Column(""),
    ]
    rows = [
        [name, old, new, "" if old == new else Badge("changes", "info")]
        for name, old, new in sides(diff.old, diff.new)
    ]
    return Section("Measures before and after", [Table("Measures of both sets", columns, rows)])


def _applied(diff: PlacementDiff) -> Section:
    rows: list[Sequence[Value]] = [
        [one.policy, side, applied_text(one)]
        for side, of in (("in force", diff.old), ("edited", diff.new))
        for one in of.policies
    ]
    columns = [Column("Policy"), Column("Set"), Column("Applied to")]
    empty = "only the default profile decides"
    return Section("What the policies applied to", [Table("Policies", columns, rows, empty=empty)])


def _with_seeds(found: PolicyDiff, diff: SeedsDiff) -> list[Section]:
    run = diff.runs[0]
    moved, lost, won = (
        mean_text(diff.mean_of_kind(kind)) for kind in ("moved", "unschedulable", "schedulable")
    )
    causes = means_of_causes(diff)
    answer = (
        f"{counted(run.pods, 'pod')} on {counted(run.nodes, 'node')}, with"
        f" {counted(len(diff.seeds), 'seed')} ({seeds_text(diff.seeds)}): {moved} move, {lost}"
        f" become unschedulable, {won} schedulable (means)."
    )
    texts: list[Value] = [answer, *([f"Of these, {causes}."] if causes else [])]
    texts += _notes(found, run.pods)
    heads = ("in force", "edited", "difference", "95 % interval")
    columns = [Column("Measure"), *(Column(head, number=True) for head in heads), Column("Says")]
    rows = [
        [*cells, Badge(says, _TONES.get(says, "info")) if says else ""]
        for *cells, says in map(measure_row, diff.measures)
    ]
    fates: list[Sequence[Value]] = [
        [
            Text(one.pod, pod_href(one.pod)),
            Text(
                f"{counted(abs(one.change), 'fewer seed' if one.change < 0 else 'more seed')}",
                tone="bad" if one.change < 0 else "good",
            ),
        ]
        for one in diff.fates[:MOST]
    ]
    more = f"and {len(diff.fates) - MOST:,} more" if len(diff.fates) > MOST else ""
    return [
        Section("Result", [Prose(texts)]),
        Section("Measures before and after", [Table("Means over the seeds", columns, rows)]),
        Section(
            "Who gains, who loses",
            [
                Table(
                    "Pods that have a node with more or fewer seeds",
                    [Column("Pod"), Column("Placed with")],
                    fates,
                    more,
                    "every pod has a node with as many seeds",
                )
            ],
        ),
    ]
