"""A prepared experiment: everything is read, checked and compiled, and every run has a key.

The key of a run is a hash of all its inputs: the program's version, the contents of the files,
policies and configuration, the measures and the seed. Names of files and variants are not inputs,
so a renamed file does not cost a new run.

Reading puts values for ${NAME}, entries of ``spec.parameters``, into texts before the document is
validated, and problems point at the text that holds them. ${seed} and ${row.COLUMN} are left for
later. Every problem is collected; nothing raises.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any, Final

import msgspec
import yaml

from policy_sched import __version__
from policy_sched.errors import Diagnostic
from policy_sched.experiments import reading
from policy_sched.experiments.checks import check_model
from policy_sched.experiments.inputs import Inputs, compiled_devices, each_seed, read_inputs
from policy_sched.experiments.measures import compiled_measures
from policy_sched.experiments.reading import MAX_TEXT, LoadedExperiment, parameters_of
from policy_sched.experiments.runs import RunVariant
from policy_sched.experiments.tables import SEED, computed_params
from policy_sched.experiments.variants import (
    Changes,
    CompiledVariant,
    check_search,
    compiled_variant,
    compiled_variants,
)
from policy_sched.profiles import load, models
from policy_sched.profiles.build import decoded_kinds
from policy_sched.profiles.load import fingerprint
from policy_sched.profiles.models import BAD_VALUE, DUPLICATE, ExperimentSpec
from policy_sched.simulate import contents_of, is_trace
from policy_sched.source import Marked, diagnostic


def load_experiment(
    path: str, given: Mapping[str, str] | None = None
) -> tuple[reading.LoadedExperiment | None, list[Diagnostic]]:
    """Read the one Experiment of a file; ``given`` are values for its parameters.

    Returns None and the problems if there is none.
    """
    documents, problems = load.read_documents(FilePath(path))
    if problems:
        return None, problems
    chosen = [document for document in documents if _is_experiment(document.value)] or documents
    if len(chosen) != 1:
        message = f"the file holds {len(chosen)} experiments; one is read at a time"
        return None, [Diagnostic(path, 1, 1, reading.UNREADABLE, message, "write each to a file")]
    return of_document(chosen[0], given)


def _is_experiment(value: object) -> bool:
    return isinstance(value, dict) and value.get("kind") == models.EXPERIMENT_KIND


def of_document(
    marked: Marked, given: Mapping[str, str] | None = None
) -> tuple[reading.LoadedExperiment | None, list[Diagnostic]]:
    """Read a document as an Experiment, and check what its model cannot say."""
    position = load.DocumentPosition(marked.file.path, marked)
    problems: list[models.ModelProblem] = []
    value = _with_parameters(marked.value, given or {}, problems)
    model, shape = _read(value, marked, given or {})
    diagnostics = position.diagnostics([*problems, *shape])
    diagnostics += list(_unused(marked, given or {}))
    if model is None:
        return None, diagnostics
    folder = FilePath(marked.file.path).parent
    broken = tuple(problem.path for problem in (*problems, *shape))
    loaded = reading.LoadedExperiment(
        model, position, folder, given or {}, broken=broken, diagnostics=diagnostics
    )
    check_model(loaded)
    return loaded, loaded.diagnostics


def _read(
    value: Any, marked: Marked, given: Mapping[str, str]
) -> tuple[models.Experiment | None, list[models.ModelProblem]]:
    """Read a document; a parameter that is a number is a text where a text is needed."""
    model, shape = load.read_experiment(value, marked)
    again = False
    for problem in shape:
        text, number = (
            reading.value_at(marked.value, problem.path),
            reading.value_at(value, problem.path),
        )
        name = reading.NAME.fullmatch(text) if isinstance(text, str) else None
        if name and problem.code == models.WRONG_TYPE and isinstance(number, int | float):
            written = given.get(name[1], json.dumps(number))
            reading.value_at(value, problem.path[:-1])[problem.path[-1]] = written
            again = True
    if not again:
        return model, shape
    other, problems = load.read_experiment(value, marked)
    return (other, problems) if len(problems) < len(shape) else (model, shape)


def _unused(marked: Marked, given: Mapping[str, str]) -> Iterator[Diagnostic]:
    """Yield a problem for each --set whose parameter the experiment does not have."""
    parameters = reading.parameters_of(marked.value)
    for name in given:
        if name not in parameters:
            hint = (
                models.did_you_mean(name, parameters) or f"it has {', '.join(parameters) or 'none'}"
            )
            message = f'--set {name}: the experiment has no parameter "{name}"'
            span = marked.key_span(("spec",))
            yield diagnostic(marked.file, span, models.UNKNOWN_KEY, message, hint=hint)


def _with_parameters(
    value: Any, given: Mapping[str, str], problems: list[models.ModelProblem]
) -> Any:
    """Return a document with values for ${NAME}; a default may name parameters before it."""
    parameters = reading.parameters_of(value)
    values: dict[str, Any] = {}
    filled = _Filled(values, problems)
    for name, default in parameters.items():
        at = ("spec", "parameters", name)
        text = given.get(name, default)
        own = isinstance(text, str) and name not in given
        values[name] = filled.text(text, at) if own else text

    def put_in(part: Any, path: models.Path) -> Any:
        if path == ("spec", "parameters"):
            return values
        if isinstance(part, dict):
            return {key: put_in(item, (*path, key)) for key, item in part.items()}
        if isinstance(part, list):
            return [put_in(item, (*path, i)) for i, item in enumerate(part)]
        return filled.text(part, path) if isinstance(part, str) else part

    return put_in(value, ())


class _Filled:
    """Puts values of parameters into texts, as many characters as `MAX_TEXT` allows."""

    def __init__(self, values: Mapping[str, Any], problems: list[models.ModelProblem]) -> None:
        self._values = values
        self._problems = problems
        self._left = MAX_TEXT

    def text(self, text: str, path: models.Path) -> Any:
        """Return a text with values, or the value that it names alone."""
        values = self._values
        names = [name for name in reading.NAME.findall(text) if not reading.LATER.fullmatch(name)]
        for name in names:
            if name not in values:
                hint = (
                    models.did_you_mean(name, values) or "spec.parameters names and defaults them"
                )
                message = f"{models.path_text(path)}: there is no parameter ${{{name}}}"
                self._problems.append(models.ModelProblem(path, models.UNKNOWN_KEY, message, hint))
                return text
        if not names or self._left < 0:
            return text
        self._left -= len(text) + sum(len(str(values[name])) for name in names)
        if self._left < 0:
            where = models.path_text(path)
            message = f"{where}: parameters make texts of more than {MAX_TEXT:,} characters"
            hint = "a parameter that names another one twice doubles it"
            self._problems.append(models.ModelProblem(path, models.BAD_VALUE, message, hint))
            return text
        if text == f"${{{names[0]}}}":
            value = values[names[0]]
            return _scalar(value) if isinstance(value, str) else value
        return reading.NAME.sub(lambda match: str(values.get(match[1], match[0])), text)


def _scalar(text: str) -> Any:
    """Return a text as YAML reads it, if that is a number or a boolean."""
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    return value if isinstance(value, bool | int | float) else text


_FORM: Final = 1
"""The form of results; another one makes other keys."""
_NOT_IN: Final = frozenset({"files", "file", "recording", "better", "unit", "column"})
"""Fields whose values are names, or are for people alone."""


@dataclass(frozen=True, slots=True)
class Task:
    """One run: a number in the experiment's order, its variant and seed, and its key."""

    number: int
    variant: str
    axes: Mapping[str, Any]
    seed: int
    key: str


class AsRun(msgspec.Struct, frozen=True, rename="camel"):
    """An experiment as it ran.

    ``files`` have SHA-256 by path, ``variants`` by name the hash of all that decides, and of each
    policy by its name.
    """

    program: str
    """The version of policy_sched."""
    text: str
    """The file, or what it says with its parameters put in."""
    objects: str
    digest: str
    newest: str
    files: dict[str, str]
    variants: dict[str, tuple[str, dict[str, str]]]


@dataclass(slots=True)
class Sweep:
    """An experiment that can be run."""

    loaded: LoadedExperiment
    inputs: Inputs
    seeds: tuple[int, ...]
    variants: dict[str, RunVariant]
    tasks: list[Task]
    hash_of_data: str
    computed: Mapping[str, Mapping[str, Any]]

    @property
    def name(self) -> str:
        """The experiment's name."""
        return self.loaded.model.metadata.name

    @property
    def spec(self) -> ExperimentSpec:
        """What is run."""
        return self.loaded.spec

    def as_run(self) -> AsRun:
        """Return the experiment as it ran."""
        loaded, inputs = self.loaded, self.inputs
        marked = loaded.place.marked
        text = "" if marked is None else marked.file.text
        if parameters_of(marked and marked.value):
            plain = loaded.model.model_dump(mode="json", by_alias=True, exclude_unset=True)
            text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=100)
        contents = contents_of([*inputs.cluster, *inputs.pods, *inputs.others])
        paths = [path for key in sorted(loaded.data) for path in loaded.data[key]]
        dated = not any(map(is_trace, paths)) and self.spec.workload.rows is None
        return AsRun(
            __version__,
            text,
            contents.objects,
            contents.digest,
            contents.newest if dated else "",
            dict(fingerprint(paths)),
            {
                name: (
                    load.content_hash([plan.content_hash for plan in variant.plans]),
                    {own: plan.hashes[own].whole for plan in variant.plans for own in plan.own},
                )
                for name, variant in self.variants.items()
            },
        )

    def add(self, variant: CompiledVariant, seeds: Sequence[int]) -> list[Task]:
        """Add a variant, and return its runs. Raises nothing; problems are the experiment's."""
        rules = compiled_measures(self.loaded, variant)
        devices = compiled_devices(self.loaded, variant)
        self.variants[variant.name] = RunVariant(variant.name, variant.plans, rules, devices)
        # What decides, and what the policies give to the measures' rules.
        decides = load.content_hash([variant.content_hash, *_measured_by(self.spec, variant)])
        inputs_of_runs = [
            Task(
                len(self.tasks) + i,
                variant.name,
                dict(variant.axes),
                seed,
                self._key(decides, seed),
            )
            for i, seed in enumerate(seeds)
        ]
        self.tasks += inputs_of_runs
        return inputs_of_runs

    def _key(self, decides: str, seed: int) -> str:
        spec, inputs = self.spec, self.inputs
        orders = []
        if spec.workload.arrivals is not None and inputs.arrivals:
            orders.append(inputs.arrivals[spec.workload.arrivals.column.replace(SEED, str(seed))])
        if inputs.ranks:
            orders.append(inputs.ranks[spec.tie_break.column.replace(SEED, str(seed))])
        return load.content_hash([self.hash_of_data, decides, seed, *map(_hash_of_order, orders)])

    def compiled(
        self, name: str, axes: Mapping[str, Any], changes: Changes
    ) -> CompiledVariant | None:
        """Return a further variant; None if something is wrong, which is the experiment's."""
        return compiled_variant(self.loaded, name, axes, changes, self.computed)


def read_sweep(
    path: str, given: Mapping[str, str] | None = None
) -> tuple[Sweep | None, list[Diagnostic]]:
    """Read, check and compile an experiment; ``given`` are values for its parameters.

    Returns None and every problem if one of them is an error, else it and the warnings.
    """
    loaded, problems = load_experiment(path, given)
    if loaded is None or not loaded.sound:
        return None, problems
    sweep = prepared(loaded)
    return sweep, sorted(loaded.diagnostics)


def experiment_problems(marked: Marked) -> list[Diagnostic]:
    """Return every problem of a document that is an experiment; `check` shows them.

    A file that is named by a parameter may be missing, which is a warning.
    """
    loaded, problems = of_document(marked)
    if loaded is None or not loaded.sound:
        return problems
    loaded.lenient = True
    prepared(loaded)
    return sorted(loaded.diagnostics)


def open_experiment_problems(marked: Marked) -> list[Diagnostic]:
    """Return the problems of an experiment that an editor has open; its tables are not read."""
    loaded, problems = of_document(marked)
    if loaded is None or not loaded.sound:
        return problems
    loaded.lenient = True
    for variant in compiled_variants(loaded, {}):
        compiled_measures(loaded, variant)
        compiled_devices(loaded, variant)
    return sorted(loaded.diagnostics)


def prepared(loaded: LoadedExperiment) -> Sweep | None:
    """Read and compile everything that an experiment names; None if something is wrong."""
    seeds = each_seed(loaded)
    computed = computed_params(loaded)
    variants = compiled_variants(loaded, computed)
    plans = [plan for variant in variants for plan in variant.plans]
    inputs = read_inputs(loaded, seeds, decoded_kinds(plans))
    _check_names(loaded, variants)
    for variant in variants:
        compiled_measures(loaded, variant)
        compiled_devices(loaded, variant)
    if loaded.sound:
        check_search(loaded, variants, computed)
    if not loaded.sound or inputs is None:
        return None
    sweep = Sweep(loaded, inputs, seeds, {}, [], _hash_of_data(loaded), computed)
    for variant in variants:
        sweep.add(variant, seeds)
    return sweep


def _check_names(loaded: LoadedExperiment, variants: Sequence[CompiledVariant]) -> None:
    names = [variant.name for variant in variants]
    for i, variant in enumerate(variants):
        if variant.name in names[:i]:
            message = f"two variants are called {variant.name}"
            loaded.problem(variant.changes.at, DUPLICATE, message, "values of an axis differ")
    policies = {name for variant in variants for name in variant.policies}
    for i, computed_param in enumerate(loaded.spec.computed):
        if variants and computed_param.policy not in policies:
            at = ("spec", "computed", i, "policy")
            loaded.problem(at, BAD_VALUE, f"no variant has a policy {computed_param.policy}")


def _hash_of_data(loaded: LoadedExperiment) -> str:
    """Return a hash of what goes into every run: the files' contents, and what is measured."""
    spec = loaded.spec.model_dump(mode="json")
    parts = {
        key: _without_names(spec[key])
        for key in ("cluster", "workload", "tie_break", "curve", "measures", "stop", "record")
    }
    files = {
        what: [
            hashlib.sha256(file.read_bytes()).hexdigest()
            for path in paths
            for file in load.files_below(FilePath(path))
        ]
        for what, paths in sorted(loaded.data.items())
    }
    whole = {"form": _FORM, "program": __version__, "spec": parts, "files": files}
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()


def _without_names(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_names(item) for key, item in value.items() if key not in _NOT_IN}
    return [_without_names(item) for item in value] if isinstance(value, list) else value


def _hash_of_order(order: Sequence[int]) -> str:
    return hashlib.sha256(",".join(map(str, order)).encode()).hexdigest()


def _measured_by(spec: ExperimentSpec, variant: CompiledVariant) -> Iterator[str]:
    for measure in spec.measures:
        if measure.policy is not None:
            yield load.content_hash(variant.policies[measure.policy])
    if variant.changes.devices is not None:
        yield load.content_hash(variant.policies[variant.changes.devices])
