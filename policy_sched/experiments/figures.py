"""Figures of a sweep by matplotlib: curves with bands, bars, heat maps, Pareto fronts.

The same results give the same bytes: figures have no date, and names inside of them are fixed.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from policy_sched.experiments.engine import require
from policy_sched.experiments.results import (
    Results,
    axis_names,
    by_variant,
    cell,
    curve_names,
    points,
    values_of,
)
from policy_sched.experiments.statistics import distribution, named, number_text
from policy_sched.profiles.models import ExperimentSpec, Figure, Measure

Form = Literal["svg", "png"]
COLOURS: Final = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999933",
)  # fmt: skip
"""Colours that people with any kind of sight can tell apart (Okabe and Ito)."""
_DASHES: Final = ("-", "--", "-.", ":")
_MARKERS: Final = ("o", "s", "^", "D")
_STYLE: Final[dict[str, Any]] = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.figsize": (7.2, 4.2),
    "font.size": 10,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "svg.fonttype": "none",
}
_HEAD: Final = re.compile(r"^.*?(?=<svg)", re.DOTALL)
_METADATA: Final = re.compile(r"\s*<metadata>.*?</metadata>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A figure's name, its title, and how to write it."""

    name: str
    title: str
    write: Callable[[Form], bytes]


def draw(spec: ExperimentSpec, results: Results) -> list[Drawn]:
    """Return the figures of an experiment's results. Raises PolicySchedError without matplotlib."""
    require("matplotlib", "plot")
    wanted = spec.figures or tuple(_fitting(spec, results))
    if not results:
        return []
    drawn = []
    for position, figure in enumerate(wanted, start=1):
        name = f"{position:02}-{figure.kind.lower()}-{'-'.join(figure.measures)}"
        title = figure.title or _title(spec, figure)
        drawn.append(Drawn(name, title, _writer(spec, results, figure, (name, title))))
    return drawn


def _fitting(spec: ExperimentSpec, results: Results) -> Iterator[Figure]:
    """Yield the figures of an experiment that names none."""
    axes = list(axis_names(results))
    overall = curve_names(spec)
    for measure in spec.measures:
        if spec.curve is not None and measure.name in overall:
            yield Figure(kind="Curve", measures=(measure.name,))
    for measure in spec.measures:
        if len(axes) == 2:
            yield Figure(kind="HeatMap", measures=(measure.name,), x=axes[0], y=axes[1])
        else:
            yield Figure(kind="Bars", measures=(measure.name,))
    judged = [measure.name for measure in spec.measures if measure.better is not None]
    if len(judged) > 1 and len({task.variant for task, _ in results}) > 1:
        yield Figure(kind="Pareto", measures=tuple(judged[:2]))


def _title(spec: ExperimentSpec, figure: Figure) -> str:
    names = " and ".join(figure.measures)
    match figure.kind:
        case "Curve":
            return f"{names} over {axis_label(spec)}"
        case "Bars":
            return f"{names}: mean, and 25 to 75 % of the runs"
        case "HeatMap":
            return f"{names}: mean over the seeds"
        case "Pareto":
            return f"{names}: means, and what no other variant beats in both"


def axis_label(spec: ExperimentSpec) -> str:
    """Return the name of the axis of curves."""
    curve = spec.curve
    if curve is None or curve.time:
        return "hours"
    return "pods arrived" if curve.pods else f"requested {curve.arrived} of arrived pods, %"


def _writer(
    spec: ExperimentSpec, results: Results, figure: Figure, words: tuple[str, str]
) -> Callable[[Form], bytes]:
    name, title = words

    def write(form: Form) -> bytes:
        plots = require("matplotlib", "plot")
        with plots.rc_context({**_STYLE, "svg.hashsalt": name}):
            canvas = require("matplotlib.figure", "plot").Figure(layout="constrained")
            axes = canvas.add_subplot()
            _DRAWERS[figure.kind](axes, spec, results, figure)
            axes.set_title(title, fontsize=10, loc="left")
            buffer = io.BytesIO()
            metadata = {"Date": None} if form == "svg" else {"Software": None}
            canvas.savefig(buffer, format=form, dpi=150, metadata=metadata)
        return _plain(buffer.getvalue()) if form == "svg" else buffer.getvalue()

    return write


def _plain(svg: bytes) -> bytes:
    """Return an SVG without head and metadata, which name addresses."""
    text = _METADATA.sub("", _HEAD.sub("", svg.decode(), count=1), count=1)
    return text.encode()


def _style(index: int) -> dict[str, Any]:
    dashes = _DASHES[index // len(COLOURS) % len(_DASHES)]
    return {"color": COLOURS[index % len(COLOURS)], "linestyle": dashes}


def _measure(spec: ExperimentSpec, name: str) -> Measure:
    return next(measure for measure in spec.measures if measure.name == name)


def _curve(axes: Any, spec: ExperimentSpec, results: Results, figure: Figure) -> None:
    (name,) = figure.measures
    for index, (variant, runs) in enumerate(by_variant(results).items()):
        bands = [(x, distribution(values)) for x, values in points(runs, name)]
        x = [at for at, _ in bands]
        low, high = [band.p25 for _, band in bands], [band.p75 for _, band in bands]
        style = _style(index)
        axes.plot(x, [band.median for _, band in bands], label=variant, linewidth=1.6, **style)
        axes.fill_between(x, low, high, color=style["color"], alpha=0.18, linewidth=0)
    axes.set_xlabel(axis_label(spec))
    axes.set_ylabel(named(_measure(spec, name)))
    axes.legend(fontsize=8)


def _bars(axes: Any, spec: ExperimentSpec, results: Results, figure: Figure) -> None:
    (name,) = figure.measures
    bars = [
        (variant, distribution(values))
        for variant, runs in by_variant(results).items()
        if (values := values_of(runs, name))
    ]
    positions = np.arange(len(bars))
    means = [bar.mean for _, bar in bars]
    below = [max(0.0, bar.mean - bar.p25) for _, bar in bars]
    above = [max(0.0, bar.p75 - bar.mean) for _, bar in bars]
    colours = [COLOURS[i % len(COLOURS)] for i in range(len(bars))]
    axes.barh(positions, means, xerr=(below, above), color=colours, alpha=0.85, capsize=3)
    axes.set_yticks(positions, [variant for variant, _ in bars])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(named(_measure(spec, name)))
    for position, mean, margin in zip(positions, means, above, strict=True):
        at = (max(mean + margin, 0.0), position)
        axes.annotate(number_text(mean), at, xytext=(6, 0), textcoords="offset points", va="center")
    axes.margins(x=0.15)


def _heat_map(axes: Any, spec: ExperimentSpec, results: Results, figure: Figure) -> None:
    (name,), x, y = figure.measures, str(figure.x), str(figure.y)
    cells: dict[tuple[Any, Any], list[float]] = {}
    for task, result in results:
        value = result.values.get(name)
        if value is not None:
            at = cell(task.axes.get(x)), cell(task.axes.get(y))
            cells.setdefault(at, []).append(value)
    columns = list(dict.fromkeys(at[0] for at in cells))
    rows = list(dict.fromkeys(at[1] for at in cells))
    means = np.full((len(rows), len(columns)), np.nan)
    for (column, row), values in cells.items():
        means[rows.index(row), columns.index(column)] = distribution(values).mean
    image = axes.imshow(means, cmap="viridis", aspect="auto", origin="lower")
    axes.set_xticks(range(len(columns)), [str(column) for column in columns])
    axes.set_yticks(range(len(rows)), [str(row) for row in rows])
    axes.grid(visible=False)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    middle = (np.nanmin(means) + np.nanmax(means)) / 2
    for i in range(len(rows)):
        for j in range(len(columns)):
            colour = "black" if means[i, j] > middle else "white"
            axes.text(j, i, f"{means[i, j]:.4g}", ha="center", va="center", color=colour, size=8)
    axes.figure.colorbar(image, ax=axes, label=named(_measure(spec, name)))


def _pareto(axes: Any, spec: ExperimentSpec, results: Results, figure: Figure) -> None:
    first, second = (_measure(spec, name) for name in figure.measures)
    front_points = pareto_points(spec, results, (first, second))
    front = pareto_front(front_points, (first, second))
    for index, (variant, (x, y)) in enumerate(front_points.items()):
        best = variant in front
        turn, colour = divmod(index, len(COLOURS))
        marker, size = _MARKERS[turn % len(_MARKERS)], 70 if best else 25
        axes.scatter([x], [y], color=COLOURS[colour], marker=marker, s=size, label=variant)
    line = sorted(front_points[variant] for variant in front)
    axes.plot([x for x, _ in line], [y for _, y in line], color="#888888", linewidth=1, zorder=0)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=8)
    axes.margins(0.15)
    axes.set_xlabel(named(first))
    axes.set_ylabel(named(second))


def pareto_points(
    _spec: ExperimentSpec, results: Results, measures: Sequence[Measure]
) -> dict[str, tuple[float, ...]]:
    """Return the means of measures by variant, of those that have all of them."""
    front_points = {}
    for variant, runs in by_variant(results).items():
        each = [values_of(runs, measure.name) for measure in measures]
        if all(each):
            front_points[variant] = tuple(distribution(values).mean for values in each)
    return front_points


def pareto_front(
    variants: Mapping[str, tuple[float, ...]], measures: Sequence[Measure]
) -> list[str]:
    """Return the variants that no other one beats; lower is better unless a measure says Higher."""
    signs = [-1.0 if measure.better == "Higher" else 1.0 for measure in measures]
    costs = {
        variant: tuple(s * v for s, v in zip(signs, values, strict=True))
        for variant, values in variants.items()
    }

    def beats(better: tuple[float, ...], other: tuple[float, ...]) -> bool:
        return better != other and all(a <= b for a, b in zip(better, other, strict=True))

    return [
        variant
        for variant, cost in costs.items()
        if not any(beats(other, cost) for other in costs.values())
    ]


_DRAWERS: Final[dict[str, Callable[[Any, ExperimentSpec, Results, Figure], None]]] = {
    "Curve": _curve,
    "Bars": _bars,
    "HeatMap": _heat_map,
    "Pareto": _pareto,
}
