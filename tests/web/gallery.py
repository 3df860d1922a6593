"""One page with every component, for tests of how components are written and shown."""

from __future__ import annotations

from policy_sched.errors import Diagnostic
from policy_sched.web import (
    Badge,
    Bar,
    Bars,
    Cell,
    CellGroup,
    Cells,
    Chart,
    Column,
    Fact,
    Facts,
    Funnel,
    FunnelStep,
    Meter,
    Part,
    Picture,
    Problem,
    Prose,
    Section,
    Series,
    Source,
    Summary,
    Table,
    Text,
    visible,
)

SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><path d="M0 0h9"/></svg>'
RULE = "  - expression: pod.priorty > 0"


def gallery(name: str = "worker") -> Summary:
    """Return a page of all components, in which ``name`` occurs wherever a name may stand."""
    return Summary(
        name,
        f"{name} goes to node-1",
        [
            Section("Facts", [facts(name)]),
            Section("Table", [table(name)], note=name),
            Section("Scores", [bars(name), funnel(name)], beside=True),
            Section("Curves", [chart(name)]),
            Section("Nodes", [cells(name)]),
            Section(
                "Problem",
                [problem(name), Source(name, f"{visible(name)}\nb: 1\n", {2: Badge(name)})],
            ),
            Section("Texts", [Prose([name, Text(name, note=name)]), Prose([name], points=True)]),
            Section("Picture", [Picture(name, SVG)]),
        ],
        kind="explain",
        remarks=[name],
        facts=facts(name),
    )


def facts(name: str) -> Facts:
    """Return three facts."""
    return Facts([Fact("pods", "12", name), Fact(name, name), Fact("kind", Badge(name, "good"))])


def table(name: str) -> Table:
    """Return a table with each kind of value."""
    columns = [Column("Node"), Column("CPU", number=True, note=name), Column(name)]
    rows = [
        [name, "4", Meter(0.5, "50 %")],
        [Text(name, code=True), "12", Badge(name, "warn")],
        [Text("next", href="#next"), "0", ""],
    ]
    return Table(name, columns, rows, more=name, sortable=True)


def bars(name: str) -> Bars:
    """Return two bars of two parts."""
    both = [
        Bar(name, [Part(name, 60.0), Part("Fit", 40.0)], "100"),
        Bar("node-2", [Part(name, 30.0), Part("Fit", 0.0)], "30"),
    ]
    return Bars(name, both, note=name)


def funnel(name: str) -> Funnel:
    """Return two filters over ten nodes."""
    steps = [FunnelStep(name, 4, 5, 6, [f"4 {name}"]), FunnelStep("Taints", 6, 8, 0)]
    return Funnel(name, "nodes", 10, steps, note=name)


def chart(name: str) -> Chart:
    """Return two curves over two hours, one with a gap."""
    x = [0.0, 1800.0, 3600.0, 7200.0]
    series = [Series(name, [0.0, 5.0, 3.0, 1.0]), Series("placed", [0.0, None, 2.5, 4.0])]
    return Chart("queue", name, "time", x, series, unit="pods", kind="duration", note=name)


def cells(name: str) -> Cells:
    """Return cells with and without a share and an address."""
    both = [
        Cell(name, 0.25, name),
        Cell("b", None, tone="bad"),
        Cell(name, 1.0, href="#node"),
    ]
    return Cells(name, [CellGroup(name, both, name)], unknown="unknown")


def problem(name: str) -> Problem:
    """Return a problem of a rule."""
    found = Diagnostic(
        name, 3, 23, "PS003", f"no field {name}", "did you mean priority?", width=7,
        source_line=RULE,
    )  # fmt: skip
    return Problem.of(found)
