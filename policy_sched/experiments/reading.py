"""An experiment that was read: its place, its problems, its limits, and the files that it names.

Every problem is collected; nothing raises.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path as FilePath
from typing import Any, Final

from policy_sched.errors import Diagnostic, PolicySchedError, Severity
from policy_sched.language import Expression
from policy_sched.language.diagnostics import Text
from policy_sched.model import Node, Pod, PodInfo, units
from policy_sched.profiles import models
from policy_sched.profiles.load import DocumentPosition, locator
from policy_sched.profiles.models import BAD_VALUE, Path
from policy_sched.simulate import known_span, require_span

UNREADABLE: Final = "PS701"
NOT_REPEATABLE: Final = "PS714"
"""A run that could have another result the next time."""
NAME: Final = re.compile(r"\$\{([^{}]*)\}")
"""The place of a parameter in a text."""
_FIRST: Final = re.compile(r"\$\{([^{}]*)\}(?=/|$)")
"""A parameter that is a path, or the beginning of one."""
LATER: Final = re.compile(r"seed|row\..*")
"""What runs and rows put in, not parameters."""


@dataclass(slots=True)
class LoadedExperiment:
    """An experiment that could be read, with its place and the problems so far."""

    model: models.Experiment
    place: DocumentPosition
    folder: FilePath
    """Where its files' paths begin."""
    given: Mapping[str, str] = field(default_factory=dict)
    """Values for its parameters; a path that one of them begins is looked for in the current
    directory first."""
    lenient: bool = False
    """A file that a parameter names may be missing, which is a warning then."""
    broken: tuple[models.Path, ...] = ()
    diagnostics: list[Diagnostic] = field(default_factory=list)
    data: dict[str, list[str]] = field(default_factory=dict)
    """By what they are for: the files that go into every run."""
    rules: dict[tuple[str, str, str], Expression | None] = field(default_factory=dict)
    """What `compiled_rule` has made."""

    @property
    def spec(self) -> models.ExperimentSpec:
        """What is run."""
        return self.model.spec

    @property
    def sound(self) -> bool:
        """Whether no problem so far is an error."""
        return not any(diagnostic.severity is Severity.ERROR for diagnostic in self.diagnostics)

    def problem(
        self, path: models.Path, code: str, message: str, hint: str = "", *, on_key: bool = False
    ) -> None:
        """Note what is wrong at a path."""
        if any(prefix[: len(path)] == path[: len(prefix)] for prefix in self.broken):
            return
        text = f"{models.path_text(path)}: {message}"
        diagnostic = self.place.diagnostic(
            models.ModelProblem(path, code, text, hint, on_key=on_key)
        )
        if diagnostic not in self.diagnostics:
            self.diagnostics.append(diagnostic)

    def file(self, reference: str, path: models.Path) -> str | None:
        """Return the path of a file that the experiment names, None if it cannot be read."""
        if reference == "-":
            hint = "write it to a file: standard input cannot be read a second time"
            self.problem(path, NOT_REPEATABLE, "a run could not be repeated", hint)
            return None
        candidates = self._candidates(reference, path)
        tried = [_unreadable(candidate) for candidate in candidates]
        readable = next(
            (candidate for candidate, why in zip(candidates, tried, strict=True) if why is None),
            None,
        )
        if readable is not None:
            return str(readable)
        text = self._written(path)
        by_parameter = any(not LATER.fullmatch(name) for name in NAME.findall(text))
        hint = f"paths are relative to {self.folder}"
        if len(candidates) > 1:
            hint = f"--set: looked for {candidates[0]}, then for {candidates[1]}"
        elif FilePath(reference).is_absolute():
            hint = "name a file that can be read"
        elif "${seed}" in reference:
            hint = "${seed} picks a column; the file is the same for all seeds"
        elif by_parameter:
            hint = f"{text} is {reference} in {self.folder}; sweep --set NAME=VALUE says another"
        self.problem(path, UNREADABLE, f"{reference}: {tried[0]}", hint)
        if by_parameter and self.lenient:
            self.weaken()
        return None

    def weaken(self) -> None:
        """Make the last problem a warning."""
        self.diagnostics[-1] = replace(self.diagnostics[-1], severity=Severity.WARNING)

    def policy_path(self, reference: str, path: models.Path) -> str | None:
        """Return the path of a policy file, a directory, or of a shipped policy by its name."""
        shipped = models.policies_directory() / reference
        local = "/" in reference or "." in reference
        local = local or any(candidate.exists() for candidate in self._candidates(reference, path))
        if not local and (shipped / "policy.yaml").is_file():
            return str(shipped)
        if not local:
            names = sorted(
                file.parent.name for file in models.policies_directory().glob("*/policy.yaml")
            )
            hint = models.did_you_mean(reference, names) or f"shipped policies: {', '.join(names)}"
            message = f"there is no file, directory or shipped policy {reference}"
            self.problem(path, UNREADABLE, message, hint)
            return None
        return self.file(reference, path)

    def _candidates(self, reference: str, path: models.Path) -> list[FilePath]:
        """Return where a path may lead, the place that counts first."""
        own = self.folder / reference
        typed = FilePath(reference)
        if typed.absolute() == own.absolute() or not self._is_typed(self._written(path)):
            return [own]
        return [typed, own]

    def _is_typed(self, text: str) -> bool:
        """Return whether a path begins with what was given for a parameter."""
        defaults = parameters_of(self.place.marked and self.place.marked.value)
        earlier = list(defaults)
        while (match := _FIRST.match(text)) is not None:
            name = match.group(1)
            if name in self.given:
                return True
            if name not in earlier:
                return False
            text, earlier = str(defaults[name]), earlier[: earlier.index(name)]
        return False

    def _written(self, path: models.Path) -> str:
        """Return the text at a path before parameters were put in; a list of one may be without."""
        value = self.place.marked and self.place.marked.value
        text = value_at(value, path)
        if text is None or isinstance(value_at(value, path[:-1]), str):
            text = value_at(value, path[:-1])
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


def parameters_of(value: object) -> dict[str, Any]:
    """Return the parameters of a document, and their defaults."""
    spec = value.get("spec") if isinstance(value, dict) else None
    parameters = spec.get("parameters") if isinstance(spec, dict) else None
    return parameters if isinstance(parameters, dict) else {}


def value_at(value: Any, path: models.Path) -> Any:
    """Return what is at a path of plain data, None if nothing is."""
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def axis_name(axis: Any) -> str:
    """Return the name of an axis: its own, or that of what it changes."""
    return str(axis.name or axis.param or axis.weight or "")


def rule_text(loaded: LoadedExperiment, path: models.Path, text: str) -> Text:
    """Return a rule of the experiment, with its place in the file."""
    marked = loaded.place.marked
    if marked is None or "${" in str(value_at(marked.value, path)):
        return Text(text, loaded.place.name, None, models.path_text(path))
    return Text(text, loaded.place.name, locator(marked, path), models.path_text(path))


MAX_TEXT: Final = 1 << 20
"""Characters of all texts of a document into which parameters were put: those of a policy file."""
MAX_VARIANTS: Final = 1_000
MAX_CHANGED: Final = 200
"""Plugins of which a variant sets params or weights."""
MAX_RUNS: Final = 100_000
MAX_PODS: Final = 500_000
"""Pods that arrive in a run, and rows of a table of them."""
MAX_KINDS: Final = 10_000
"""Kinds of rows in a computed parameter."""
MAX_POINTS: Final = 100_000
"""Points of a curve over time."""
HOUR: Final = 3600 * 1_000_000_000
"""Nanoseconds."""


def check_size(loaded: LoadedExperiment) -> None:
    """Check how many variants and runs there are; no list of them is made."""
    spec = loaded.spec
    for i, variant in enumerate((spec.base, *spec.variants)):
        at_variant: Path = ("spec", "base") if i == 0 else ("spec", "variants", i - 1)
        changed = len(variant.params) + len(variant.weights)
        if changed > MAX_CHANGED:
            message = f"params and weights of {changed:,} plugins are more than {MAX_CHANGED}"
            loaded.problem(at_variant, BAD_VALUE, message, "write a configuration", on_key=True)
    combinations = math.prod(len(axis.values) for axis in spec.matrix)
    variants = max(1, len(spec.variants)) * combinations
    seeds = spec.seeds
    runs = variants * (len(seeds) if isinstance(seeds, tuple) else seeds.count)
    if variants > MAX_VARIANTS:
        at: Path = ("spec", "matrix" if combinations > 1 else "variants")
        message = f"{variants:,} variants are more than {MAX_VARIANTS:,}"
        hint = "divide it into several experiments, or let tune search"
        loaded.problem(at, BAD_VALUE, message, hint, on_key=True)
    elif runs > MAX_RUNS:
        message = f"{runs:,} runs are more than {MAX_RUNS:,}: {variants:,} variants with each seed"
        loaded.problem(("spec", "seeds"), BAD_VALUE, message, "take fewer seeds", on_key=True)


def check_work(
    loaded: LoadedExperiment, nodes: Sequence[Node], pods: Sequence[Pod], span: int | None = None
) -> None:
    """Check how many pods arrive in a run, how long it lasts, and the points of its curve.

    ``span``: nanoseconds of virtual time, if they are known.
    """
    arrivals, at = loaded.spec.workload.arrivals, ("spec", "workload", "arrivals")
    count = len(pods)
    if count > MAX_PODS:
        message = f"{count:,} pods are more than {MAX_PODS:,}"
        loaded.problem(("spec", "workload"), BAD_VALUE, message, "take a part", on_key=True)
        return
    if arrivals is not None and arrivals.inflate is not None:
        count = _inflated(arrivals.inflate.resource, arrivals.inflate.percent, nodes, pods)
        if count > MAX_PODS:
            message = f"some {count:,} pods are drawn, more than {MAX_PODS:,}"
            hint = "a smaller percent, or pods that request more"
            loaded.problem((*at, "inflate", "percent"), BAD_VALUE, message, hint)
            return
    if arrivals is None:
        if span is None:
            span = known_span(pods, departures=loaded.spec.workload.departures)
        _check_span(loaded, span, ("spec", "workload"))
    elif arrivals.every is not None:
        _check_span(loaded, arrivals.every * max(count - 1, 0), (*at, "every"))


def _check_span(loaded: LoadedExperiment, span: int, at: Path) -> None:
    """Check a length of virtual time; ``span``: nanoseconds that a run lasts at least."""
    spec = loaded.spec
    try:
        require_span(span, spec.stop.after)
    except PolicySchedError as error:
        hint = "stop: {after: 1000h} ends runs earlier"
        loaded.problem(at, BAD_VALUE, str(error), hint, on_key=True)
        return
    if spec.stop.after is not None:
        span = min(span, spec.stop.after)
    curve = spec.curve
    if curve is not None and curve.time and span / HOUR > curve.step * MAX_POINTS:
        message = f"{span / HOUR / curve.step:,.0f} points are more than {MAX_POINTS:,}"
        loaded.problem(("spec", "curve", "step"), BAD_VALUE, message, "a larger step")


def _inflated(resource: str, percent: float, nodes: Sequence[Node], pods: Sequence[Pod]) -> int:
    """Return about how many pods request so many percent of the nodes."""
    requests = [PodInfo.of(pod).requests.get(resource, 0) for pod in pods]
    whole = sum(units(resource, node.status.allocatable.get(resource, 0)) for node in nodes)
    total = sum(requests)
    return int(whole * percent / 100 / total * len(pods)) if total else 0
