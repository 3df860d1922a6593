"""Reads an Experiment: its document, values for its parameters, the files that it names.

Theory of operation. Texts hold ${NAME} for an entry of ``spec.parameters``; these are put in before
the document is validated, and problems point at the text that holds them. ${seed} and ${row.COLUMN}
are left for later. Every problem is collected; nothing raises.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path as FilePath
from typing import Any, Final

import yaml

from policy_sched.errors import Diagnostic, Severity
from policy_sched.language.diagnostics import Text
from policy_sched.profiles.load import (
    DocumentPosition,
    locator,
    read_documents,
    read_experiment,
)
from policy_sched.profiles.models import (
    BAD_VALUE,
    DUPLICATE,
    EXPERIMENT_KIND,
    MISSING_KEY,
    UNKNOWN_KEY,
    Axis,
    Experiment,
    ExperimentSpec,
    Path,
    Problem,
    SearchAxis,
    did_you_mean,
    path_text,
    policies_directory,
)
from policy_sched.source import Marked, diagnostic

UNREADABLE: Final = "PS701"
NOT_REPEATABLE: Final = "PS714"
"""A run that could have another result the next time."""
_NAME: Final = re.compile(r"\$\{([^{}]*)\}")
_FIRST: Final = re.compile(r"\$\{([^{}]*)\}(?=/|$)")
"""A parameter that is a path, or the beginning of one."""
_LATER: Final = re.compile(r"seed|row\..*")


@dataclass(slots=True)
class Loaded:
    """An experiment that could be read, with its place and the problems so far.

    ``folder``: where its files' paths begin. ``given``: values for its parameters; a path that one
    of them begins is looked for in the current directory first. ``lenient``: a file that a
    parameter names may be missing, which is a warning then.
    """

    model: Experiment
    place: DocumentPosition
    folder: FilePath
    given: Mapping[str, str] = field(default_factory=dict)
    lenient: bool = False
    diagnostics: list[Diagnostic] = field(default_factory=list)
    data: dict[str, list[str]] = field(default_factory=dict)
    """By what they are for: the files that go into every run."""

    @property
    def spec(self) -> ExperimentSpec:
        """What is run."""
        return self.model.spec

    @property
    def sound(self) -> bool:
        """Whether no problem so far is an error."""
        return not any(one.severity is Severity.ERROR for one in self.diagnostics)

    def problem(
        self, path: Path, code: str, message: str, hint: str = "", *, on_key: bool = False
    ) -> None:
        """Note what is wrong at a path."""
        text = f"{path_text(path)}: {message}"
        found = self.place.diagnostic(Problem(path, code, text, hint, on_key=on_key))
        if found not in self.diagnostics:
            self.diagnostics.append(found)

    def file(self, reference: str, path: Path) -> str | None:
        """Return the path of a file that the experiment names, None if it cannot be read."""
        if reference == "-":
            hint = "write it to a file: standard input cannot be read a second time"
            self.problem(path, NOT_REPEATABLE, "a run could not be repeated", hint)
            return None
        places = self._places(reference, path)
        tried = [_unreadable(one) for one in places]
        found = next((one for one, why in zip(places, tried, strict=True) if why is None), None)
        if found is not None:
            return str(found)
        text = self._written(path)
        by_parameter = any(not _LATER.fullmatch(name) for name in _NAME.findall(text))
        hint = f"paths are relative to {self.folder}"
        if len(places) > 1:
            hint = f"--set: looked for {places[0]}, then for {places[1]}"
        elif FilePath(reference).is_absolute():
            hint = "name a file that can be read"
        elif by_parameter:
            hint = f"{text} is {reference} in {self.folder}; sweep --set NAME=VALUE says another"
        self.problem(path, UNREADABLE, f"{reference}: {tried[0]}", hint)
        if by_parameter and self.lenient:
            last = self.diagnostics[-1]
            self.diagnostics[-1] = replace(last, severity=Severity.WARNING)
        return None

    def policy_path(self, reference: str, path: Path) -> str | None:
        """Return the path of a policy file, a directory, or of a shipped policy by its name."""
        shipped = policies_directory() / reference
        local = "/" in reference or "." in reference
        local = local or any(one.exists() for one in self._places(reference, path))
        if not local and (shipped / "policy.yaml").is_file():
            return str(shipped)
        return self.file(reference, path)

    def _places(self, reference: str, path: Path) -> list[FilePath]:
        """Return where a path may lead, the place that counts first."""
        own = self.folder / reference
        typed = FilePath(reference)
        if typed.absolute() == own.absolute() or not self._is_typed(self._written(path)):
            return [own]
        return [typed, own]

    def _is_typed(self, text: str) -> bool:
        """Return whether a path begins with what was given for a parameter."""
        defaults = _parameters(self.place.marked and self.place.marked.value)
        earlier = list(defaults)
        while (match := _FIRST.match(text)) is not None:
            name = match.group(1)
            if name in self.given:
                return True
            if name not in earlier:
                return False
            text, earlier = str(defaults[name]), earlier[: earlier.index(name)]
        return False

    def _written(self, path: Path) -> str:
        """Return the text at a path before parameters were put in; a list of one may be without."""
        value = self.place.marked and self.place.marked.value
        text = _at(value, path)
        if text is None or isinstance(_at(value, path[:-1]), str):
            text = _at(value, path[:-1])
        return text if isinstance(text, str) else ""


def _unreadable(path: FilePath) -> str | None:
    """Return why there is no such file, None if there is one."""
    try:
        path.stat()
    except OSError as error:
        return error.strerror
    except ValueError as error:
        return str(error)
    return None


def load_experiment(
    path: str, given: Mapping[str, str] | None = None
) -> tuple[Loaded | None, list[Diagnostic]]:
    """Read the one Experiment of a file; ``given`` are values for its parameters.

    Returns None and the problems if there is none.
    """
    documents, problems = read_documents(FilePath(path))
    if problems:
        return None, problems
    chosen = [one for one in documents if _is_experiment(one.value)] or documents
    if len(chosen) != 1:
        message = f"the file holds {len(chosen)} experiments; one is read at a time"
        return None, [Diagnostic(path, 1, 1, UNREADABLE, message, "write each to a file")]
    return of_document(chosen[0], given)


def _is_experiment(value: object) -> bool:
    return isinstance(value, dict) and value.get("kind") == EXPERIMENT_KIND


def of_document(
    marked: Marked, given: Mapping[str, str] | None = None
) -> tuple[Loaded | None, list[Diagnostic]]:
    """Read a document as an Experiment, and check what its model cannot say."""
    place = DocumentPosition(marked.file.path, marked)
    problems: list[Problem] = []
    value = _with_parameters(marked.value, given or {}, problems)
    model, shape = read_experiment(value, marked)
    found = place.diagnostics([*problems, *shape])
    found += list(_unused(marked, given or {}))
    if model is None:
        return None, found
    folder = FilePath(marked.file.path).parent
    loaded = Loaded(model, place, folder, given or {}, diagnostics=found)
    if not shape:
        _check_model(loaded)
    return loaded, loaded.diagnostics


def _unused(marked: Marked, given: Mapping[str, str]) -> Iterator[Diagnostic]:
    """Yield a problem for each --set whose parameter the experiment does not have."""
    known = _parameters(marked.value)
    for name in given:
        if name not in known:
            hint = did_you_mean(name, known) or f"it has {', '.join(known) or 'none'}"
            message = f'--set {name}: the experiment has no parameter "{name}"'
            span = marked.key_span(("spec",))
            yield diagnostic(marked.file, span, UNKNOWN_KEY, message, hint=hint)


def _parameters(value: object) -> dict[str, Any]:
    spec = value.get("spec") if isinstance(value, dict) else None
    found = spec.get("parameters") if isinstance(spec, dict) else None
    return found if isinstance(found, dict) else {}


def _with_parameters(value: Any, given: Mapping[str, str], problems: list[Problem]) -> Any:
    """Return a document with values for ${NAME}; a default may name parameters before it."""
    known = _parameters(value)
    values: dict[str, Any] = {}
    for name, default in known.items():
        at = ("spec", "parameters", name)
        text = given.get(name, default)
        own = isinstance(text, str) and name not in given
        values[name] = _text_with(text, at, values, problems) if own else text

    def put_in(one: Any, path: Path) -> Any:
        if path == ("spec", "parameters"):
            return values
        if isinstance(one, dict):
            return {key: put_in(item, (*path, key)) for key, item in one.items()}
        if isinstance(one, list):
            return [put_in(item, (*path, i)) for i, item in enumerate(one)]
        return _text_with(one, path, values, problems) if isinstance(one, str) else one

    return put_in(value, ())


def _text_with(text: str, path: Path, values: Mapping[str, Any], problems: list[Problem]) -> Any:
    names = [name for name in _NAME.findall(text) if not _LATER.fullmatch(name)]
    for name in names:
        if name not in values:
            hint = did_you_mean(name, values) or "spec.parameters names and defaults them"
            message = f"{path_text(path)}: there is no parameter ${{{name}}}"
            problems.append(Problem(path, UNKNOWN_KEY, message, hint))
            return text
    if len(names) == 1 and text == f"${{{names[0]}}}":
        value = values[names[0]]
        return _scalar(value) if isinstance(value, str) else value
    for name in names:
        text = text.replace(f"${{{name}}}", str(values[name]))
    return text


def _scalar(text: str) -> Any:
    """Return a text as YAML reads it, if that is a number or a boolean."""
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    return value if isinstance(value, bool | int | float) else text


def _at(value: Any, path: Path) -> Any:
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value


# What the model cannot say.


def _check_model(loaded: Loaded) -> None:
    spec = loaded.spec
    if not loaded.model.metadata.name or "/" in loaded.model.metadata.name:
        hint = "results are in a folder of this name"
        loaded.problem(("metadata", "name"), BAD_VALUE, "a name without / is needed", hint)
    _check_sources(loaded)
    if not isinstance(spec.seeds, tuple):
        pass
    elif not spec.seeds:
        hint = "for example seeds: {count: 10}"
        loaded.problem(("spec", "seeds"), NOT_REPEATABLE, "at least one seed is needed", hint)
    else:
        _unique(loaded, ("spec", "seeds"), [str(seed) for seed in spec.seeds])
    if not spec.measures:
        loaded.problem(("spec", "measures"), MISSING_KEY, "at least one measure is needed")
    names = [measure.name for measure in spec.measures]
    _unique(loaded, ("spec", "measures"), names, "name")
    for i, measure in enumerate(spec.measures):
        at: Path = ("spec", "measures", i)
        _one_of(loaded, at, measure, ("allocation", "nodes", "measure", "pods", "time"))
        _check_measure(loaded, i)
        if measure.measure is not None and measure.policy is None:
            loaded.problem((*at, "policy"), MISSING_KEY, "the policy that states the measure")
    if spec.curve is not None:
        _one_of(loaded, ("spec", "curve"), spec.curve, ("arrived", "pods", "time"))
        if spec.curve.step <= 0:
            loaded.problem(("spec", "curve", "step"), BAD_VALUE, "it must be greater than 0")
    _check_axes(loaded)
    _check_figures(loaded, names)


def _check_sources(loaded: Loaded) -> None:
    spec = loaded.spec
    if not spec.cluster.files and not spec.cluster.generate:
        hint = 'files, or generate: ["10*cpu=4,memory=32Gi"]'
        loaded.problem(("spec", "cluster"), MISSING_KEY, "there are no nodes", hint, on_key=True)
    if not spec.workload.files and spec.workload.rows is None:
        hint = "files, or rows of a table"
        loaded.problem(("spec", "workload"), MISSING_KEY, "there are no pods", hint, on_key=True)
    arrivals = spec.workload.arrivals
    at: Path = ("spec", "workload", "arrivals")
    if arrivals is not None and arrivals.file is not None:
        if arrivals.order != "Given":
            loaded.problem((*at, "order"), BAD_VALUE, "the file has the order", on_key=True)
        if arrivals.inflate is not None:
            hint = "the file may have more rows than there are pods"
            loaded.problem((*at, "inflate"), BAD_VALUE, "the file has all pods", hint, on_key=True)
    if arrivals is not None and arrivals.every is not None and arrivals.every <= 0:
        loaded.problem((*at, "every"), BAD_VALUE, "it must be greater than 0")
    if spec.tie_break.order == "Random" and spec.tie_break.file is not None:
        hint = "write order: Given"
        loaded.problem(("spec", "tieBreak", "file"), BAD_VALUE, "ties are random", hint)
    untimed = arrivals is not None and arrivals.every is None
    if untimed and spec.curve is not None and spec.curve.time:
        hint = "arrivals.every is the time between two arrivals"
        loaded.problem(("spec", "curve", "time"), BAD_VALUE, "no time passes", hint)
    if untimed and spec.stop.after is not None:
        loaded.problem(("spec", "stop", "after"), BAD_VALUE, "no time passes", "write arrived: N")


def _check_measure(loaded: Loaded, number: int) -> None:
    measure, at = loaded.spec.measures[number], ("spec", "measures", number)
    arrivals = loaded.spec.workload.arrivals
    untimed = arrivals is not None and arrivals.every is None
    of_time = measure.time is not None
    allowed = (
        ("Mean", "Max", "P50", "P90", "P99") if of_time else ("Last", "Mean", "Max", "Integral")
    )
    if measure.summary is not None and measure.summary not in allowed:
        hint = f"one of {', '.join(allowed)}"
        loaded.problem((*at, "summary"), BAD_VALUE, f"{measure.summary} does not apply", hint)
    if untimed and (of_time or measure.summary == "Integral"):
        key = "time" if of_time else "summary"
        hint = "without arrivals, or with arrivals.every, it does"
        loaded.problem((*at, key), BAD_VALUE, "no time passes", hint)
    if measure.percent_of is not None and measure.nodes is None and measure.measure is None:
        hint = "it goes with nodes or measure"
        loaded.problem((*at, "percentOf"), BAD_VALUE, "nothing to divide", hint, on_key=True)


def _check_axes(loaded: Loaded) -> None:
    spec = loaded.spec
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
        if not axis.values:
            at = ("spec", "matrix", i, "values")
            loaded.problem(at, MISSING_KEY, "at least one value is needed")
    for i, one in enumerate(spec.search):
        at = ("spec", "search", i)
        if not one.values and (one.least is None or one.most is None):
            loaded.problem(at, MISSING_KEY, "values, or least and most", on_key=True)
        elif one.least is not None and one.most is not None and one.least > one.most:
            loaded.problem((*at, "most"), BAD_VALUE, "it is less than least")
        elif one.log and (one.least is None or one.least <= 0):
            hint = "the logarithm needs a least that is greater than 0"
            loaded.problem((*at, "log"), BAD_VALUE, "there is no such logarithm", hint)
    names = [one.name for one in spec.variants if one.name is not None]
    _unique(loaded, ("spec", "variants"), names, "name")
    for i, variant in enumerate(spec.variants):
        if len(spec.variants) > 1 and variant.name is None:
            loaded.problem(("spec", "variants", i, "name"), MISSING_KEY, "a variant has a name")


def _check_figures(loaded: Loaded, names: Sequence[str]) -> None:
    axes = [axis_name(axis) for axis in loaded.spec.matrix]
    for i, figure in enumerate(loaded.spec.figures):
        at: Path = ("spec", "figures", i)
        wanted = 2 if figure.kind == "Pareto" else 1
        if len(figure.measures) != wanted:
            message = f"{figure.kind} has {wanted} of them, not {len(figure.measures)}"
            loaded.problem((*at, "measures"), BAD_VALUE, message)
        for j, name in enumerate(figure.measures):
            if name not in names:
                hint = did_you_mean(name, names) or f"measures: {', '.join(names)}"
                loaded.problem((*at, "measures", j), BAD_VALUE, f"no measure {name}", hint)
        if figure.kind == "Curve" and loaded.spec.curve is None:
            loaded.problem((*at, "kind"), BAD_VALUE, "there is no spec.curve", "add it")
        if figure.kind == "HeatMap":
            for key, axis in (("x", figure.x), ("y", figure.y)):
                if axis not in axes:
                    hint = f"axes: {', '.join(axes) or 'none; spec.matrix has them'}"
                    loaded.problem((*at, key), BAD_VALUE, f"no axis {axis or ''}".rstrip(), hint)


def axis_name(axis: Any) -> str:
    """Return the name of an axis: its own, or that of what it changes."""
    return str(axis.name or axis.param or axis.weight or "")


def _one_of(loaded: Loaded, at: Path, model: Any, keys: Sequence[str]) -> None:
    given = [key for key in keys if getattr(model, key) not in (None, False)]
    if not given:
        loaded.problem(at, MISSING_KEY, f"one of {', '.join(keys)} is needed", on_key=True)
    for key in given[1:]:
        hint = f"one of {', '.join(keys)}"
        loaded.problem((*at, key), BAD_VALUE, f"there is {given[0]} already", hint, on_key=True)


def _unique(loaded: Loaded, at: Path, names: Sequence[str], key: str = "") -> None:
    for i, name in enumerate(names):
        if name in names[:i]:
            path = (*at, i, key) if key else (*at, i)
            loaded.problem(path, DUPLICATE, f"Duplicate value: {name}", "choose another")


def rule_text(loaded: Loaded, path: Path, text: str) -> Text:
    """Return a rule of the experiment, with its place in the file."""
    marked = loaded.place.marked
    if marked is None or "${" in str(_at(marked.value, path)):
        return Text(text, loaded.place.name, None, path_text(path))
    return Text(text, loaded.place.name, locator(marked, path), path_text(path))
