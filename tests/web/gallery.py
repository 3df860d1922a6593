"""One page with every component, for tests of how components are written and shown."""

from __future__ import annotations

from policy_sched import web
from policy_sched.errors import Diagnostic

SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><path d="M0 0h9"/></svg>'
RULE = "  - expression: pod.priorty > 0"


def gallery(name: str = "worker") -> web.Summary:
    """Return a page of all components, in which ``name`` occurs wherever a name may stand."""
    return web.Summary(
        name,
        f"{name} goes to node-1",
        [
            web.Section("Facts", [facts(name)]),
            web.Section("Table", [table(name)], note=name),
            web.Section("Scores", [bars(name), funnel(name)], beside=True),
            web.Section("Curves", [chart(name)]),
            web.Section("Nodes", [cells(name)]),
            web.Section(
                "Problem",
                [
                    problem(name),
                    web.Source(name, f"{web.visible(name)}\nb: 1\n", {2: web.Badge(name)}),
                ],
            ),
            web.Section(
                "Texts",
                [web.Prose([name, web.Text(name, note=name)]), web.Prose([name], points=True)],
            ),
            web.Section("Picture", [web.Picture(name, SVG)]),
        ],
        kind="explain",
        remarks=[name],
        facts=facts(name),
    )


def facts(name: str) -> web.Facts:
    """Return three facts."""
    return web.Facts(
        [
            web.Fact("pods", "12", name),
            web.Fact(name, name),
            web.Fact("kind", web.Badge(name, "good")),
        ]
    )


def table(name: str) -> web.Table:
    """Return a table with each kind of value."""
    columns = [web.Column("Node"), web.Column("CPU", number=True, note=name), web.Column(name)]
    rows = [
        [name, "4", web.Meter(0.5, "50 %")],
        [web.Text(name, code=True), "12", web.Badge(name, "warn")],
        [web.Text("next", href="#next"), "0", ""],
    ]
    return web.Table(name, columns, rows, more=name, sortable=True)


def bars(name: str) -> web.Bars:
    """Return two bars of two parts."""
    both = [
        web.Bar(name, [web.BarPart(name, 60.0), web.BarPart("Fit", 40.0)], "100"),
        web.Bar("node-2", [web.BarPart(name, 30.0), web.BarPart("Fit", 0.0)], "30"),
    ]
    return web.Bars(name, both, note=name)


def funnel(name: str) -> web.Funnel:
    """Return two filters over ten nodes."""
    steps = [web.FunnelStep(name, 4, 5, 6, [f"4 {name}"]), web.FunnelStep("Taints", 6, 8, 0)]
    return web.Funnel(name, "nodes", 10, steps, note=name)


def chart(name: str) -> web.Chart:
    """Return two curves over two hours, one with a gap."""
    x = [0.0, 1800.0, 3600.0, 7200.0]
    series = [web.Series(name, [0.0, 5.0, 3.0, 1.0]), web.Series("placed", [0.0, None, 2.5, 4.0])]
    return web.Chart("queue", name, "time", x, series, unit="pods", kind="duration", note=name)


def cells(name: str) -> web.Cells:
    """Return cells with and without a share and an address."""
    both = [
        web.Cell(name, 0.25, name),
        web.Cell("b", None, tone="bad"),
        web.Cell(name, 1.0, href="#node"),
    ]
    return web.Cells(name, [web.CellGroup(name, both, name)], unknown="unknown")


def problem(name: str) -> web.DiagnosticView:
    """Return a problem of a rule."""
    diagnostic = Diagnostic(
        name, 3, 23, "PS003", f"no field {name}", "did you mean priority?", width=7,
        source_line=RULE,
    )  # fmt: skip
    return web.DiagnosticView.of(diagnostic)
