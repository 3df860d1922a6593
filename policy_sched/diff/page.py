"""The page of a comparison: which pods lose, gain and change their node, and the measures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from policy_sched.diff import report
from policy_sched.diff.placement_diff import Cause, Move, PlacementDiff, SeedsDiff
from policy_sched.diff.policy_diff import NOT_COMPARED, SAME, PolicyDiff
from policy_sched.diff.shadow import ShadowSummary
from policy_sched.model import counted
from policy_sched.profiles.format import ValueDifference
from policy_sched.simulate import policies_section
from policy_sched.web import (
    Badge,
    Column,
    Fact,
    Facts,
    Section,
    Source,
    Summary,
    Table,
    Text,
    Tone,
    Value,
)

ROWS: Final = 500
"""Rows of a table of pods."""
_VERDICTS: Final[dict[str, Tone]] = {"different": "info", "better": "good", "worse": "bad"}


def diff_page(diff: PolicyDiff) -> Summary:
    """Return the report of a comparison of two policy sets."""
    remarks = [line.strip() for line in diff.configuration_lines()]
    title, count = "What the policies change", len(diff.differences)
    lead = counted(count, "difference") if count else SAME
    sections: list[Section] = []
    facts, tone = None, _tone(diff.placements)
    if diff.placements is not None and diff.idle_only:
        remarks.append(NOT_COMPARED)
    if isinstance(diff.placements, SeedsDiff):
        compared, lead = report.seeds_totals(diff.placements)
        remarks = [*filter(None, (compared, report.too_few(diff.placements))), *remarks]
        facts = _mean_numbers(diff.placements)
        sections += _seeds_sections(diff.placements)
    elif diff.placements is not None:
        lead = report.totals_text(diff.placements)
        facts = _numbers(diff.placements)
        sections += placement_sections(diff.placements)
        if diff.placements.causes.keys() - {Cause.POLICY}:
            remarks.append(report.ONE_SEED)
    sections.append(_differences(diff.differences))
    lead = " ".join(filter(None, (diff.unchanged(), lead)))
    return Summary(title, lead, sections, "diff", tone, remarks, facts)


def shadow_page(summary: ShadowSummary) -> Summary:
    """Return the report of a shadow's log."""
    placements = summary.placements
    sections = list(placement_sections(placements))
    causes: list[list[Value]] = [[why, str(count)] for why, count in summary.causes()]
    if causes:
        columns = [Column("Reason"), Column("Pods", number=True)]
        table = Table("The plugin that decides, for each pod", columns, causes)
        sections.insert(0, Section("Why pods would be elsewhere", [table]))
    title = f"Pods of {summary.scheduler}"
    remarks = [*summary.head_lines(), *summary.left_out()]
    facts = _numbers(placements)
    lead = report.totals_text(placements)
    return Summary(title, lead, sections, "diff --shadow", _tone(placements), remarks, facts)


def _tone(placements: PlacementDiff | SeedsDiff | None) -> Tone:
    """Return bad if pods lose their node, good if some only gain one."""
    if isinstance(placements, PlacementDiff):
        lost, won = placements.counts["unschedulable"] > 0, placements.counts["schedulable"] > 0
    elif placements is not None:
        lost = any(fate.change < 0 for fate in placements.fates)
        won = any(fate.change > 0 for fate in placements.fates)
    else:
        return ""
    return "bad" if lost else "good" if won else ""


def _numbers(diff: PlacementDiff) -> Facts:
    """Return how many pods lose, gain and change their node, and why."""
    moved, lost, won = (diff.counts[kind] for kind in report.KINDS)
    facts = [
        Fact("Lose their node", Text(f"{lost:,}", tone="bad" if lost else "")),
        Fact("Gain a node", Text(f"{won:,}", tone="good" if won else "")),
        Fact("Change their node", f"{moved:,}"),
    ]
    causes = diff.causes
    facts += [
        Fact("Of these", f"{causes[c]:,}", report.CAUSES[c]) for c in report.CAUSES if causes[c]
    ]
    return Facts(facts, big=True)


def _mean_numbers(diff: SeedsDiff) -> Facts:
    moved, lost, won = (report.mean_text(diff.mean_of_kind(kind)) for kind in report.KINDS)
    facts = [
        Fact("Lose their node", lost, "on average"),
        Fact("Gain a node", won, "on average"),
        Fact("Change their node", moved, "on average"),
        Fact("Seeds", str(len(diff.seeds))),
    ]
    return Facts(facts, big=True)


def placement_sections(diff: PlacementDiff) -> Iterator[Section]:
    """Yield the moved pods, in a table of their own if only a tie moved them, and the measures."""
    ties = [move for move in diff.moves if move.cause is Cause.TIE]
    moves = report.worst_first([move for move in diff.moves if move.cause is not Cause.TIE])
    tables = moves_tables(moves)
    if tables:
        note = report.causes_text(diff)
        yield Section("Which pods move", tables, f"{note[:1].upper()}{note[1:]}")
        yield Section("By namespace and node", [_namespaces(moves), _nodes(moves)], beside=True)
    if ties:
        note = "Both nodes have the highest score, and only the random choice differs."
        yield Section("Ties", [moves_table("Pods that move by chance", ties)], note)
    rows: list[list[Value]] = [
        [name, old, new, "" if old == new else Badge("differs", "info")]
        for name, old, new in report.sides(diff.old, diff.new)
    ]
    columns = [Column("Measure"), Column("OLD", True), Column("NEW", True), Column("")]
    yield Section("Before and after", [Table("Measures of both sides", columns, rows)])
    for name, side in (("OLD", diff.old), ("NEW", diff.new)):
        if side.policies:
            yield policies_section(side.policies, f"Policies of {name}")


def moves_tables(moves: Sequence[Move]) -> list[Table]:
    """Return the pods that lose, gain and change their node, in a table each."""
    groups = [
        ("Pods that lose their node", [move for move in moves if move.new is None]),
        ("Pods that gain a node", [move for move in moves if move.old is None]),
        ("Pods that change their node", [move for move in moves if move.old and move.new]),
    ]
    return [moves_table(title, of) for title, of in groups if of]


def moves_table(title: str, moves: Sequence[Move]) -> Table:
    """Return pods with both nodes; of a pod without a node in NEW the reason."""
    lost = any(move.new is None for move in moves)
    has_causes = any(move.cause is not None for move in moves)
    rows: list[list[Value]] = [
        [
            move.pod,
            move.old or Text("-", tone="dim"),
            *([move.message] if lost else [move.new or ""]),
            *(["" if move.cause is None else report.CAUSES[move.cause]] if has_causes else []),
        ]
        for move in moves[:ROWS]
    ]
    columns = [Column("Pod"), Column("OLD"), Column("Reason in NEW" if lost else "NEW", wide=lost)]
    columns += [Column("Cause")] if has_causes else []
    caption = f"{title}: {len(moves):,}"
    return Table(caption, columns, rows, _more(len(moves)), sortable=True)


def _namespaces(moves: Sequence[Move]) -> Table:
    """Return by namespace how many pods gain, lose and change their node."""
    kinds: dict[str, Counter[str]] = {}
    for move in moves:
        kind = "gain" if move.old is None else "lose" if move.new is None else "change"
        kinds.setdefault(move.pod.partition("/")[0], Counter())[kind] += 1
    ordered = sorted(kinds.items(), key=lambda item: (item[1]["gain"] - item[1]["lose"], item[0]))
    rows: list[list[Value]] = [
        [name, f"{of['lose']:,}", f"{of['gain']:,}", f"{of['change']:,}"] for name, of in ordered
    ]
    heads = ("Lose", "Gain", "Change")
    columns = [Column("Namespace"), *(Column(head, number=True) for head in heads)]
    caption = "Namespaces: pods that lose, gain and change their node"
    return Table(caption, columns, rows[:ROWS], _more(len(rows)), sortable=True)


def _nodes(moves: Sequence[Move]) -> Table:
    """Return the nodes that have more pods or fewer."""
    change: Counter[str] = Counter(entry.new for entry in moves if entry.new is not None)
    change.subtract(entry.old for entry in moves if entry.old is not None)
    net = sorted(
        (item for item in change.items() if item[1]), key=lambda entry: (-abs(entry[1]), entry)
    )
    rows: list[list[Value]] = [[node, f"{count:+,}"] for node, count in net[:ROWS]]
    columns = [Column("Node"), Column("Pods", number=True)]
    empty = "no node has more pods or fewer"
    caption = "Nodes: pods more or fewer"
    return Table(caption, columns, rows, _more(len(net)), empty, sortable=True)


def _seeds_sections(diff: SeedsDiff) -> Iterator[Section]:
    """Yield measures as means over seeds, and pods that are placed with more or fewer."""
    rows: list[list[Value]] = []
    for *cells, verdict in map(report.measure_row, diff.measures):
        rows.append([*cells, Badge(verdict, _VERDICTS.get(verdict, "dim")) if verdict else ""])
    heads = ("OLD", "NEW", "NEW - OLD", "95 % interval")
    columns = [Column("Measure"), *(Column(head, number=True) for head in heads), Column("")]
    causes = report.means_of_causes(diff)
    note = f"Of the moves, {causes}" if causes else ""
    table = Table("Means over the seeds", columns, rows)
    yield Section("Before and after", [table], note)
    if diff.fates:
        fates: list[list[Value]] = [
            [pod.pod, Text(report.fate_text(pod), tone="bad" if pod.change < 0 else "good")]
            for pod in diff.fates[:ROWS]
        ]
        columns = [Column("Pod"), Column("Placed with")]
        caption = "Pods with a node in more or fewer of the seeds"
        more = _more(len(diff.fates))
        yield Section("Gains and losses", [Table(caption, columns, fates, more, sortable=True)])
    always = diff.always
    if always:
        pods: list[list[Value]] = [
            [pod.pod, report.nodes_text(pod.old), report.nodes_text(pod.new), f"{pod.by_policy:,}"]
            for pod in always[:ROWS]
        ]
        columns = [Column("Pod"), Column("OLD"), Column("NEW"), Column("By a policy (seeds)", True)]
        more = _more(len(always))
        caption = report.always_text(diff, always)
        yield Section("Moves", [Table(caption, columns, pods, more, sortable=True)])
    run, seed = diff.runs[0], f", with seed {diff.seeds[0]}"
    for name, side in (("OLD", run.old), ("NEW", run.new)):
        if side.policies:
            yield policies_section(side.policies, f"Policies of {name}{seed}")


def _differences(differences: Sequence[ValueDifference]) -> Section:
    """Return each difference of the policies, with lines that are removed and added."""
    sources = []
    for difference in differences[:ROWS]:
        removed = [f"- {line}" for line in difference.old.split("\n") if difference.old]
        added = [f"+ {line}" for line in difference.new.split("\n") if difference.new]
        marks = dict.fromkeys(range(1, len(removed) + 1), Badge("", "bad"))
        marks |= dict.fromkeys(
            range(len(removed) + 1, len(removed) + len(added) + 1), Badge("", "good")
        )
        sources.append(
            Source(difference.where, "\n".join([*removed, *added]), marks, numbered=False)
        )
    return Section("What differs", sources, _more(len(differences)) if differences else SAME)


def _more(total: int) -> str:
    return f"and {total - ROWS:,} more, which --output json has" if total > ROWS else ""
