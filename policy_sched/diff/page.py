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


def diff_page(found: PolicyDiff) -> Summary:
    """Return the report of a comparison of two policy sets."""
    remarks = [line.strip() for line in found.configuration_lines()]
    title, count = "What the policies change", len(found.differences)
    lead = counted(count, "difference") if count else SAME
    sections: list[Section] = []
    facts, tone = None, _tone(found.placements)
    if found.placements is not None and found.idle_only:
        remarks.append(NOT_COMPARED)
    if isinstance(found.placements, SeedsDiff):
        compared, lead = report.seeds_totals(found.placements)
        remarks = [*filter(None, (compared, report.too_few(found.placements))), *remarks]
        facts = _mean_numbers(found.placements)
        sections += _seeds_sections(found.placements)
    elif found.placements is not None:
        lead = report.totals_text(found.placements)
        facts = _numbers(found.placements)
        sections += placement_sections(found.placements)
        if found.placements.causes.keys() - {Cause.POLICY}:
            remarks.append(report.ONE_SEED)
    sections.append(_differences(found.differences))
    return Summary(title, lead, sections, "diff", tone, remarks, facts)


def shadow_page(found: ShadowSummary) -> Summary:
    """Return the report of a shadow's log."""
    placements = found.placements
    sections = list(placement_sections(placements))
    causes: list[list[Value]] = [[why, str(count)] for why, count in found.causes()]
    if causes:
        columns = [Column("Reason"), Column("Pods", number=True)]
        table = Table("The plugin that decides, for each pod", columns, causes)
        sections.insert(0, Section("Why pods would be elsewhere", [table]))
    title = f"Pods of {found.scheduler}"
    remarks = [*found.head_lines(), *found.left_out()]
    facts = _numbers(placements)
    lead = report.totals_text(placements)
    return Summary(title, lead, sections, "diff --shadow", _tone(placements), remarks, facts)


def _tone(found: PlacementDiff | SeedsDiff | None) -> Tone:
    """Return bad if pods lose their node, good if some only gain one."""
    if isinstance(found, PlacementDiff):
        lost, won = found.counts["unschedulable"] > 0, found.counts["schedulable"] > 0
    elif found is not None:
        lost = any(one.change < 0 for one in found.fates)
        won = any(one.change > 0 for one in found.fates)
    else:
        return ""
    return "bad" if lost else "good" if won else ""


def _numbers(found: PlacementDiff) -> Facts:
    """Return how many pods lose, gain and change their node, and why."""
    moved, lost, won = (found.counts[kind] for kind in report.KINDS)
    facts = [
        Fact("Lose their node", Text(f"{lost:,}", tone="bad" if lost else "")),
        Fact("Gain a node", Text(f"{won:,}", tone="good" if won else "")),
        Fact("Change their node", f"{moved:,}"),
    ]
    causes = found.causes
    facts += [
        Fact("Of these", f"{causes[c]:,}", report.CAUSES[c]) for c in report.CAUSES if causes[c]
    ]
    return Facts(facts, big=True)


def _mean_numbers(found: SeedsDiff) -> Facts:
    moved, lost, won = (report.mean_text(found.mean_of_kind(kind)) for kind in report.KINDS)
    facts = [
        Fact("Lose their node", lost, "on average"),
        Fact("Gain a node", won, "on average"),
        Fact("Change their node", moved, "on average"),
        Fact("Seeds", str(len(found.seeds))),
    ]
    return Facts(facts, big=True)


def placement_sections(found: PlacementDiff) -> Iterator[Section]:
    """Yield the pods that move, those whose move is a tie apart, and the measures."""
    ties = [one for one in found.moves if one.cause is Cause.TIE]
    moves = report.worst_first([one for one in found.moves if one.cause is not Cause.TIE])
    groups = [
        ("Pods that lose their node", [one for one in moves if one.new is None]),
        ("Pods that gain a node", [one for one in moves if one.old is None]),
        ("Pods that change their node", [one for one in moves if one.old and one.new]),
    ]
    tables = [moves_table(title, of) for title, of in groups if of]
    if tables:
        note = report.causes_text(found)
        yield Section("Which pods move", tables, f"{note[:1].upper()}{note[1:]}")
        yield Section("By namespace and node", [_namespaces(moves), _nodes(moves)], beside=True)
    if ties:
        note = "Both nodes have the highest score, and only the random choice differs."
        yield Section("Ties", [moves_table("Pods that move by chance", ties)], note)
    rows: list[list[Value]] = [
        [name, old, new, "" if old == new else Badge("differs", "info")]
        for name, old, new in report.sides(found.old, found.new)
    ]
    columns = [Column("Measure"), Column("OLD", True), Column("NEW", True), Column("")]
    yield Section("Before and after", [Table("Measures of both sides", columns, rows)])
    for name, side in (("OLD", found.old), ("NEW", found.new)):
        if side.policies:
            yield policies_section(side.policies, f"Policies of {name}")


def moves_table(title: str, moves: Sequence[Move]) -> Table:
    """Return pods with both nodes; of a pod without a node in NEW the reason."""
    lost = any(one.new is None for one in moves)
    known = any(one.cause is not None for one in moves)
    rows: list[list[Value]] = [
        [
            one.pod,
            one.old or Text("-", tone="dim"),
            *([one.message] if lost else [one.new or ""]),
            *(["" if one.cause is None else report.CAUSES[one.cause]] if known else []),
        ]
        for one in moves[:ROWS]
    ]
    columns = [Column("Pod"), Column("OLD"), Column("Reason in NEW" if lost else "NEW", wide=lost)]
    columns += [Column("Cause")] if known else []
    caption = f"{title}: {len(moves):,}"
    return Table(caption, columns, rows, _more(len(moves)), sortable=True)


def _namespaces(moves: Sequence[Move]) -> Table:
    """Return by namespace how many pods gain, lose and change their node."""
    kinds: dict[str, Counter[str]] = {}
    for one in moves:
        kind = "gain" if one.old is None else "lose" if one.new is None else "change"
        kinds.setdefault(one.pod.partition("/")[0], Counter())[kind] += 1
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
    change: Counter[str] = Counter(one.new for one in moves if one.new is not None)
    change.subtract(one.old for one in moves if one.old is not None)
    net = sorted((item for item in change.items() if item[1]), key=lambda one: (-abs(one[1]), one))
    rows: list[list[Value]] = [[node, f"{count:+,}"] for node, count in net[:ROWS]]
    columns = [Column("Node"), Column("Pods", number=True)]
    empty = "no node has more pods or fewer"
    caption = "Nodes: pods more or fewer"
    return Table(caption, columns, rows, _more(len(net)), empty, sortable=True)


def _seeds_sections(found: SeedsDiff) -> Iterator[Section]:
    """Yield measures as means over seeds, and pods that are placed with more or fewer."""
    rows: list[list[Value]] = []
    for *cells, verdict in map(report.measure_row, found.measures):
        rows.append([*cells, Badge(verdict, _VERDICTS.get(verdict, "dim")) if verdict else ""])
    heads = ("OLD", "NEW", "NEW - OLD", "95 % interval")
    columns = [Column("Measure"), *(Column(head, number=True) for head in heads), Column("")]
    causes = report.means_of_causes(found)
    note = f"Of the moves, {causes}" if causes else ""
    table = Table("Means over the seeds", columns, rows)
    yield Section("Before and after", [table], note)
    if found.fates:
        fates: list[list[Value]] = [
            [one.pod, Text(report.fate_text(one), tone="bad" if one.change < 0 else "good")]
            for one in found.fates[:ROWS]
        ]
        columns = [Column("Pod"), Column("Placed with")]
        caption = "Pods with a node in more or fewer of the seeds"
        more = _more(len(found.fates))
        yield Section("Gains and losses", [Table(caption, columns, fates, more, sortable=True)])
    always = found.always
    if always:
        pods: list[list[Value]] = [
            [one.pod, report.nodes_text(one.old), report.nodes_text(one.new), f"{one.by_policy:,}"]
            for one in always[:ROWS]
        ]
        columns = [Column("Pod"), Column("OLD"), Column("NEW"), Column("By a policy (seeds)", True)]
        more = _more(len(always))
        caption = report.always_text(found, always)
        yield Section("Moves", [Table(caption, columns, pods, more, sortable=True)])
    run, seed = found.runs[0], f", with seed {found.seeds[0]}"
    for name, side in (("OLD", run.old), ("NEW", run.new)):
        if side.policies:
            yield policies_section(side.policies, f"Policies of {name}{seed}")


def _differences(found: Sequence[ValueDifference]) -> Section:
    """Return each difference of the policies, with lines that are removed and added."""
    sources = []
    for one in found[:ROWS]:
        removed = [f"- {line}" for line in one.old.split("\n") if one.old]
        added = [f"+ {line}" for line in one.new.split("\n") if one.new]
        marks = dict.fromkeys(range(1, len(removed) + 1), Badge("", "bad"))
        marks |= dict.fromkeys(
            range(len(removed) + 1, len(removed) + len(added) + 1), Badge("", "good")
        )
        sources.append(Source(one.where, "\n".join([*removed, *added]), marks, numbered=False))
    return Section("What differs", sources, _more(len(found)) if found else SAME)


def _more(total: int) -> str:
    return f"and {total - ROWS:,} more, which --output json has" if total > ROWS else ""
