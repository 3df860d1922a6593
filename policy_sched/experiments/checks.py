"""Checks of an Experiment that its model and its JSON Schema cannot make; they read no file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from policy_sched.experiments.reading import (
    LATER,
    NOT_REPEATABLE,
    LoadedExperiment,
    axis_name,
    check_size,
)
from policy_sched.profiles.models import (
    BAD_VALUE,
    DUPLICATE,
    MISSING_KEY,
    Axis,
    Path,
    SearchAxis,
    did_you_mean,
)

_COLUMNS: Final = ("variant", "seed", "key", "x")
"""Columns of the tables, which are no measures or axes."""
_MOST_PERCENT: Final = 100_000
_LEAST_STEP: Final = 0.001
"""The least distance of the points of curves."""
_HAS_COLUMN: Final = "a table of results has a column of this name"


def check_model(loaded: LoadedExperiment) -> None:
    """Add the problems of an experiment to it."""
    name = loaded.model.metadata.name
    if not name.isprintable() or not name.strip() or "/" in name or name.startswith("."):
        hint = "results are in a folder of this name"
        message = "a name without / that does not begin with a dot is needed"
        loaded.problem(("metadata", "name"), BAD_VALUE, message, hint)
    _check_parameters(loaded)
    _check_sources(loaded)
    _check_order(loaded)
    _check_seeds(loaded)
    _check_measures(loaded)
    _check_curve(loaded)
    _check_axes(loaded)
    _check_search(loaded)
    _check_variants(loaded)
    _check_computed(loaded)
    _check_figures(loaded)
    check_size(loaded)


def _check_parameters(loaded: LoadedExperiment) -> None:
    for name in loaded.spec.parameters:
        if LATER.fullmatch(name):
            message = f"${{{name}}} stands for something else"
            hint = "${seed} is the seed of a run, ${row.COLUMN} a cell of a table"
            loaded.problem(("spec", "parameters", name), BAD_VALUE, message, hint, on_key=True)


def _check_seeds(loaded: LoadedExperiment) -> None:
    seeds = loaded.spec.seeds
    if isinstance(seeds, tuple) and not seeds:
        hint = "for example seeds: {count: 10}"
        loaded.problem(("spec", "seeds"), NOT_REPEATABLE, "at least one seed is needed", hint)
    elif isinstance(seeds, tuple):
        _unique(loaded, ("spec", "seeds"), [str(seed) for seed in seeds])


def _check_measures(loaded: LoadedExperiment) -> None:
    measures = loaded.spec.measures
    if not measures:
        hint = "for example measures: [{name: cpu, allocation: cpu}]"
        message = "at least one measure is needed"
        loaded.problem(("spec", "measures"), MISSING_KEY, message, hint)
    _unique(loaded, ("spec", "measures"), [measure.name for measure in measures], "name")
    for i, measure in enumerate(measures):
        at: Path = ("spec", "measures", i)
        if measure.name in _COLUMNS:
            loaded.problem((*at, "name"), DUPLICATE, _HAS_COLUMN, "choose another name")
        _one_of(loaded, at, measure, ("allocation", "nodes", "measure", "pods", "time"))
        _check_measure(loaded, i)
        if measure.measure is not None and measure.policy is None:
            loaded.problem((*at, "policy"), MISSING_KEY, "the policy that states the measure")


def _check_curve(loaded: LoadedExperiment) -> None:
    curve, at = loaded.spec.curve, ("spec", "curve")
    if curve is None:
        return
    _one_of(loaded, at, curve, ("arrived", "pods", "time"))
    if not curve.step > 0:
        hint = "step: 1 is the usual distance"
        loaded.problem((*at, "step"), BAD_VALUE, "it must be greater than 0", hint)
    elif not _LEAST_STEP <= curve.step < math.inf:
        message = f"it must be a number that is at least {_LEAST_STEP}"
        loaded.problem((*at, "step"), BAD_VALUE, message, "step: 1 is the usual distance")


def _check_sources(loaded: LoadedExperiment) -> None:
    spec = loaded.spec
    if spec.workload.recording is not None:
        _check_recording(loaded)
        return
    if not spec.cluster.files and not spec.cluster.generate:
        hint = 'files, or generate: ["10*cpu=4,memory=32Gi"]'
        loaded.problem(("spec", "cluster"), MISSING_KEY, "there are no nodes", hint, on_key=True)
    if not spec.workload.files and spec.workload.rows is None:
        hint = "files, rows of a table, or a recording"
        loaded.problem(("spec", "workload"), MISSING_KEY, "there are no pods", hint, on_key=True)


def _check_recording(loaded: LoadedExperiment) -> None:
    """Check that nothing else says what a recording says."""
    spec = loaded.spec
    given: dict[Path, object] = {
        ("spec", "cluster", "files"): spec.cluster.files,
        ("spec", "cluster", "generate"): spec.cluster.generate,
        ("spec", "cluster", "devices"): spec.cluster.devices,
        ("spec", "workload", "files"): spec.workload.files,
        ("spec", "workload", "rows"): spec.workload.rows,
        ("spec", "workload", "arrivals"): spec.workload.arrivals,
        ("spec", "workload", "retry"): spec.workload.retry != "Backoff",
        ("spec", "workload", "departures"): not spec.workload.departures,
        ("spec", "tieBreak", "order"): spec.tie_break.order != "Random",
    }
    for path, value in given.items():
        if value:
            hint = "leave it out, or write the workload's files"
            message = "a recording has its own cluster, pods, times and nodes"
            loaded.problem(path, BAD_VALUE, message, hint, on_key=True)


def _check_order(loaded: LoadedExperiment) -> None:
    """Check the order of arrival and of equal nodes, and what needs time."""
    _check_arrivals(loaded)
    spec, at = loaded.spec, ("spec", "tieBreak")
    if spec.tie_break.order == "Random" and spec.tie_break.file is not None:
        hint = "write order: Given"
        loaded.problem((*at, "file"), BAD_VALUE, "ties are random", hint)
    _check_column(loaded, spec.tie_break, at)
    if not untimed(loaded):
        return
    hint = "arrivals.every is the time between two arrivals"
    if spec.curve is not None and spec.curve.time:
        loaded.problem(("spec", "curve", "time"), BAD_VALUE, "no time passes", hint)
    if spec.workload.retry == "AtOnce":
        loaded.problem(("spec", "workload", "retry"), BAD_VALUE, "no time passes", hint)
    if spec.stop.after is not None:
        loaded.problem(("spec", "stop", "after"), BAD_VALUE, "no time passes", "write arrived: N")


def untimed(loaded: LoadedExperiment) -> bool:
    """Return whether no time passes: each pod has one attempt."""
    arrivals = loaded.spec.workload.arrivals
    return arrivals is not None and arrivals.every is None


def _check_arrivals(loaded: LoadedExperiment) -> None:
    arrivals = loaded.spec.workload.arrivals
    at: Path = ("spec", "workload", "arrivals")
    if arrivals is None:
        return
    if arrivals.file is not None:
        if arrivals.order != "Given":
            hint = "leave it out"
            loaded.problem((*at, "order"), BAD_VALUE, "the file has the order", hint, on_key=True)
        if arrivals.inflate is not None:
            hint = "the file may have more rows than there are pods"
            loaded.problem((*at, "inflate"), BAD_VALUE, "the file has all pods", hint, on_key=True)
    _check_column(loaded, arrivals, at)
    if arrivals.every is not None and arrivals.every <= 0:
        loaded.problem((*at, "every"), BAD_VALUE, "it must be greater than 0", "for example 10s")
    if arrivals.inflate is not None and not 0 < arrivals.inflate.percent <= _MOST_PERCENT:
        message = f"it must be greater than 0 and at most {_MOST_PERCENT:,}"
        hint = "percent: 130 asks for a third more than there is"
        loaded.problem((*at, "inflate", "percent"), BAD_VALUE, message, hint)


def _check_column(loaded: LoadedExperiment, order: Any, at: Path) -> None:
    if order.file is None and "column" in order.model_fields_set:
        hint = "file names it"
        loaded.problem((*at, "column"), BAD_VALUE, "there is no table", hint, on_key=True)


def _check_measure(loaded: LoadedExperiment, index: int) -> None:
    measure, at = loaded.spec.measures[index], ("spec", "measures", index)
    of_time = measure.time is not None
    allowed = (
        ("Mean", "Max", "P50", "P90", "P99") if of_time else ("Last", "Mean", "Max", "Integral")
    )
    if measure.summary is not None and measure.summary not in allowed:
        hint = f"one of {', '.join(allowed)}"
        loaded.problem((*at, "summary"), BAD_VALUE, f"{measure.summary} does not apply", hint)
    if untimed(loaded) and (of_time or measure.summary == "Integral"):
        key = "time" if of_time else "summary"
        hint = "without arrivals, or with arrivals.every, it does"
        loaded.problem((*at, key), BAD_VALUE, "no time passes", hint)
    for key in ("decimals", "point_decimals") if of_time else ():
        if getattr(measure, key) is not None:
            path = (*at, "decimals" if key == "decimals" else "pointDecimals")
            hint = "leave it out"
            loaded.problem(path, BAD_VALUE, "it is for values at events", hint, on_key=True)
    if measure.percent_of is not None and measure.nodes is None and measure.measure is None:
        hint = "it goes with nodes or measure"
        loaded.problem((*at, "percentOf"), BAD_VALUE, "nothing to divide", hint, on_key=True)


def _check_axes(loaded: LoadedExperiment) -> None:
    spec = loaded.spec
    names = (*_COLUMNS, *(measure.name for measure in spec.measures))
    both: dict[str, Sequence[Axis | SearchAxis]] = {"matrix": spec.matrix, "search": spec.search}
    for key, axes in both.items():
        for i, axis in enumerate(axes):
            at: Path = ("spec", key, i)
            _one_of(loaded, at, axis, ("param", "weight"))
            if axis.param is not None and len(axis.param.split(".")) < 2:
                hint = "PLUGIN.NAME, such as Spread.limit"
                loaded.problem((*at, "param"), BAD_VALUE, "the parameter's name is missing", hint)
        _unique(loaded, ("spec", key), [axis_name(axis) for axis in axes], "name")
    for i, axis in enumerate(spec.matrix):
        at = ("spec", "matrix", i)
        if axis_name(axis) in names:
            loaded.problem((*at, "name"), DUPLICATE, _HAS_COLUMN, "choose another name")
        if not axis.values:
            hint = "for example values: [1, 2]"
            loaded.problem((*at, "values"), MISSING_KEY, "at least one value is needed", hint)


def _check_search(loaded: LoadedExperiment) -> None:
    for i, axis in enumerate(loaded.spec.search):
        at: Path = ("spec", "search", i)
        limits = [key for key in ("least", "most", "step") if getattr(axis, key) is not None]
        for key in limits:
            if not math.isfinite(getattr(axis, key)):
                loaded.problem((*at, key), BAD_VALUE, "it must be finite", "write a number")
        if axis.values and limits:
            hint = "leave out the values, or the range"
            loaded.problem((*at, limits[0]), BAD_VALUE, "there are values already", hint)
        if axis.step is not None and axis.step <= 0:
            hint = "step: 1 is the usual distance"
            loaded.problem((*at, "step"), BAD_VALUE, "it must be greater than 0", hint)
        if axis.weight is not None:
            _check_weights(loaded, axis, at)
        if not axis.values and (axis.least is None or axis.most is None):
            loaded.problem(at, MISSING_KEY, "values, or least and most", on_key=True)
        elif axis.least is not None and axis.most is not None and axis.least > axis.most:
            loaded.problem((*at, "most"), BAD_VALUE, "it is less than least")
        elif axis.log and (axis.least is None or axis.least <= 0):
            hint = "the logarithm needs a least that is greater than 0"
            loaded.problem((*at, "log"), BAD_VALUE, "there is no such logarithm", hint)


def _check_weights(loaded: LoadedExperiment, axis: SearchAxis, at: Path) -> None:
    """Check the weights that a search may try."""
    tried: dict[Path, Any] = {(*at, "values", j): value for j, value in enumerate(axis.values)}
    for key in ("least", "most"):
        if (limit := getattr(axis, key)) is not None:
            tried[*at, key] = limit
    for path, value in tried.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or value != value // 1 or not 0 <= value < 2**31:
            hint = "a whole number that is not negative"
            loaded.problem(path, BAD_VALUE, f"{value} is no weight", hint)


def _check_variants(loaded: LoadedExperiment) -> None:
    spec = loaded.spec
    if spec.base.name is not None:
        hint = "name the variants"
        loaded.problem(("spec", "base", "name"), BAD_VALUE, "the base is no variant", hint)
    _unique(loaded, ("spec", "variants"), [variant.name or "" for variant in spec.variants], "name")
    for i, variant in enumerate(spec.variants):
        needed = len(spec.variants) > 1 and variant.name is None
        if needed or (variant.name is not None and not variant.name.strip()):
            message, hint = "a variant has a name", "for example name: packed"
            loaded.problem(("spec", "variants", i, "name"), MISSING_KEY, message, hint)


def _check_computed(loaded: LoadedExperiment) -> None:
    for i, computed in enumerate(loaded.spec.computed):
        at: Path = ("spec", "computed", i)
        if not computed.by:
            hint = "name the columns whose values make the kind of a row"
            loaded.problem((*at, "by"), MISSING_KEY, "at least one column is needed", hint)
        if not 0 < computed.cover <= 100:
            message = "it must be greater than 0 and at most 100"
            loaded.problem((*at, "cover"), BAD_VALUE, message, "cover: 100 lists all kinds")


def _check_figures(loaded: LoadedExperiment) -> None:
    names = [measure.name for measure in loaded.spec.measures]
    times = [measure.name for measure in loaded.spec.measures if measure.time is not None]
    axes = [axis_name(axis) for axis in loaded.spec.matrix]
    for i, figure in enumerate(loaded.spec.figures):
        at: Path = ("spec", "figures", i)
        wanted = 2 if figure.kind == "Pareto" else 1
        if len(figure.measures) != wanted:
            message = f"{figure.kind} has {wanted} of them, not {len(figure.measures)}"
            loaded.problem((*at, "measures"), BAD_VALUE, message, "name them in measures")
        for j, name in enumerate(figure.measures):
            if name not in names:
                hint = did_you_mean(name, names) or f"measures: {', '.join(names)}"
                loaded.problem((*at, "measures", j), BAD_VALUE, f"no measure {name}", hint)
            elif figure.kind == "Curve" and name in times:
                message = f"{name} has one value for a run, and no curve"
                loaded.problem((*at, "measures", j), BAD_VALUE, message, "kind: Bars shows it")
        if figure.kind == "Curve" and loaded.spec.curve is None:
            loaded.problem((*at, "kind"), BAD_VALUE, "there is no spec.curve", "add it")
        if figure.kind == "HeatMap":
            for key, axis in (("x", figure.x), ("y", figure.y)):
                if axis not in axes:
                    hint = f"axes: {', '.join(axes) or 'none; spec.matrix has them'}"
                    loaded.problem((*at, key), BAD_VALUE, f"no axis {axis or ''}".rstrip(), hint)


def _one_of(loaded: LoadedExperiment, at: Path, model: Any, keys: Sequence[str]) -> None:
    given = [key for key in keys if getattr(model, key) not in (None, False)]
    if not given:
        loaded.problem(at, MISSING_KEY, f"one of {', '.join(keys)} is needed", on_key=True)
    for key in given[1:]:
        hint = f"one of {', '.join(keys)}"
        loaded.problem((*at, key), BAD_VALUE, f"there is {given[0]} already", hint, on_key=True)


def _unique(loaded: LoadedExperiment, at: Path, names: Sequence[str], key: str = "") -> None:
    seen = {""}
    for i, name in enumerate(names):
        if name not in seen:
            seen.add(name)
        elif name:
            path = (*at, i, key) if key else (*at, i)
            loaded.problem(path, DUPLICATE, f"Duplicate value: {name}", "choose another")
