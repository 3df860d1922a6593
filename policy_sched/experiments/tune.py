"""Searches the weights and parameters of an experiment for the best variant.

Theory of operation. Optuna's TPE sampler proposes variants in batches of a fixed size, so the
search is the same whatever the number of workers. Each is run with the first seeds; with one
objective, those that fall behind the median of earlier ones are given up, and the others are run
with the rest. Some seeds are held back: the winner is compared with the experiment's own variant on
them alone, seed by seed, because what was chosen on some seeds looks better on those than it is.

The winner is written as a patch, a unified diff of the policy or configuration files. A value that
a file has already is changed in place, and everything else of the file stays. A parameter of a
policy is changed in the configuration, if that sets it, else among the policy's own params. What no
file has is added to the configuration, which is then written anew, without its comments; without a
configuration there is a new file.
"""

from __future__ import annotations

import difflib
import json
import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, Final

import yaml
from yaml.nodes import ScalarNode

from policy_sched.cluster.tables import NodeTable
from policy_sched.errors import Diagnostic, PolicyError, PolicySchedError
from policy_sched.experiments import statistics, variants
from policy_sched.experiments.engine import Engine, require
from policy_sched.experiments.reading import LoadedExperiment, axis_name
from policy_sched.experiments.results import ResultStore, ResultTable, run_tasks
from policy_sched.experiments.sweep import Sweep
from policy_sched.experiments.variants import Changes, configuration_of
from policy_sched.language import compile_expression
from policy_sched.language.check import check_beside, diagnostic
from policy_sched.language.diagnostics import PolicySource, Problem, Text
from policy_sched.language.lower import Refusal
from policy_sched.language.runtime import Activation
from policy_sched.language.values import one_evaluation, types
from policy_sched.model import Pod, PodInfo, counted
from policy_sched.profiles.load import files_below, parse, read_documents
from policy_sched.profiles.models import WRONG_TYPE, Measure, Path, SearchAxis
from policy_sched.report import Advance, table
from policy_sched.source import Marked, SourceFile, content_end, content_start

BATCH: Final = 4
"""Variants that are proposed together."""
BASE: Final = "base"
"""The name of the experiment's own variant."""
_EARLY: Final = 3
"""One in so many seeds decides whether a variant is given up."""


@dataclass(slots=True)
class Trial:
    """A proposed variant: its values by axis, and its objectives, a list over the seeds each."""

    number: int
    values: dict[str, Any]
    changes: variants.Changes
    objectives: list[list[float]] = field(default_factory=list)
    state: str = "complete"
    """Complete, pruned (given up after the first seeds) or failed."""
    message: str = ""

    @property
    def means(self) -> list[float]:
        """The mean of each objective over the seeds that were run."""
        return [math.fsum(each) / len(each) for each in self.objectives]


@dataclass(frozen=True, slots=True)
class Winner:
    """A variant that was chosen, and how it compares with the base on the seeds held back."""

    trial: Trial
    held_back: tuple[statistics.Paired, ...]

    @property
    def better(self) -> bool:
        """Whether an objective is higher beyond noise, and none is lower beyond noise."""
        verdicts = [
            (paired.verdict is statistics.Significance.DIFFERENT, paired.difference.mean)
            for paired in self.held_back
        ]
        higher = any(sure and mean > 0 for sure, mean in verdicts)
        return higher and not any(sure and mean < 0 for sure, mean in verdicts)


@dataclass(frozen=True, slots=True)
class VariantSearch:
    """The result of a search; several winners are a Pareto front."""

    objectives: tuple[Objective, ...]
    trials: tuple[Trial, ...]
    winners: tuple[Winner, ...]
    base: tuple[float, ...]
    seeds: tuple[int, ...]
    held_back: tuple[int, ...]


def split(seeds: Sequence[int], held_back: int | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the seeds of the search, and the last ones, which are held back: half of them.

    Raises PolicySchedError if one of both would be empty.
    """
    count = len(seeds) // 2 if held_back is None else held_back
    if not 0 < count < len(seeds):
        message = f"{len(seeds)} seeds, of which {count} are held back: one of each is needed"
        raise PolicySchedError(f"{message}; spec.seeds has them all")
    return tuple(seeds[:-count]), tuple(seeds[-count:])


class Tuning:
    """A search in progress."""

    def __init__(
        self,
        sweep: Sweep,
        objectives: Sequence[Objective],
        store: ResultStore,
        engine: Engine,
        held_back: int | None = None,
        seed: int = 0,
    ) -> None:
        if not sweep.spec.search:
            raise PolicySchedError("spec.search: Required value: what may be changed, and how")
        self._sweep, self._store, self._engine = sweep, store, engine
        self._objectives = tuple(objectives)
        self._search, self._held_back = split(sweep.seeds, held_back)
        self.base = variants.base_changes(sweep.loaded)
        """What the experiment's own variant changes."""
        self._seed = seed
        self._trials: list[Trial] = []

    def run(self, budget: int, advance: Advance) -> VariantSearch:
        """Try ``budget`` variants; ``advance`` is called with how many more are done.

        Raises PolicySchedError without Optuna, or if the base cannot be run.
        """
        optuna = require("optuna", "tune")
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        study = optuna.create_study(
            directions=["maximize"] * len(self._objectives),
            sampler=optuna.samplers.TPESampler(
                seed=self._seed, constant_liar=True, n_startup_trials=min(10, max(4, budget // 3))
            ),
            pruner=optuna.pruners.MedianPruner(n_startup_trials=5),
        )
        base = Trial(-1, {}, self.base)
        self._try([base], self._search)
        if base.state != "complete":
            raise PolicySchedError(f"the experiment's own variant has no result: {base.message}")
        while len(self._trials) < budget:
            count = min(BATCH, budget - len(self._trials))
            self._batch(study, optuna, count)
            advance(count)
        chosen = [trial for trial in self._trials if trial.state == "complete"]
        winners = [self._judged(trial) for trial in _front(chosen)] if chosen else []
        return VariantSearch(
            self._objectives,
            tuple(self._trials),
            tuple(winners),
            tuple(base.means),
            self._search,
            self._held_back,
        )

    def _batch(self, study: Any, optuna: Any, count: int) -> None:
        asked = [study.ask() for _ in range(count)]
        trials = []
        for proposal in asked:
            values, changes = self._proposed(proposal)
            trials.append(Trial(len(self._trials), values, changes))
            self._trials.append(trials[-1])
        single = len(self._objectives) == 1
        early = max(1, len(self._search) // _EARLY) if single else len(self._search)
        self._try(trials, self._search[:early])
        for proposal, trial in zip(asked, trials, strict=True):
            if single and trial.state == "complete" and early < len(self._search):
                proposal.report(trial.means[0], early)
                if proposal.should_prune():
                    trial.state = "pruned"
        self._try([trial for trial in trials if trial.state == "complete"], self._search)
        states = optuna.trial.TrialState
        for proposal, trial in zip(asked, trials, strict=True):
            if trial.state == "complete":
                study.tell(proposal, trial.means)
            else:
                study.tell(
                    proposal, state=states.PRUNED if trial.state == "pruned" else states.FAIL
                )

    def _try(self, trials: Sequence[Trial], seeds: Sequence[int]) -> None:
        """Run trials with seeds, and note their objectives or why there are none."""
        before = len(self._sweep.tasks)
        named: dict[str, Trial] = {}
        for trial in trials:
            name = BASE if trial.number < 0 else f"trial {trial.number}"
            variant = self._compiled(name, trial)
            if variant is not None:
                named[name] = trial
                self._sweep.add(variant, seeds)
        outcome = run_tasks(self._sweep, self._sweep.tasks[before:], self._store, self._engine)
        for trial in named.values():
            trial.objectives = [[] for _ in self._objectives]
        for task, why in outcome.failures:
            named[task.variant].state, named[task.variant].message = "failed", why
        for task, result in outcome.results:
            trial = named[task.variant]
            for column, objective in zip(trial.objectives, self._objectives, strict=True):
                value = objective(result.values)
                if value is None:
                    trial.state = "failed"
                    trial.message = f"{objective.text} has no value with seed {task.seed}"
                else:
                    column.append(value)

    def _compiled(self, name: str, trial: Trial) -> variants.CompiledVariant | None:
        loaded = self._sweep.loaded
        before = len(loaded.diagnostics)
        variant = self._sweep.compiled(name, trial.values, trial.changes)
        problems = loaded.diagnostics[before:]
        del loaded.diagnostics[before:]
        if trial.number < 0 and variant is None:
            raise PolicyError(problems)
        if variant is None:
            trial.state = "failed"
            trial.message = problems[0].message if problems else "it cannot be compiled"
        return variant

    def _proposed(self, trial: Any) -> tuple[dict[str, Any], variants.Changes]:
        """Return the values that the sampler proposes, and what they change."""
        values: dict[str, Any] = {}
        changes = self.base
        for i, axis in enumerate(self._sweep.spec.search):
            name = axis_name(axis)
            value = _suggested(
                trial, name, axis, whole=variants.is_whole(axis, self._sweep.variants.values())
            )
            values[name] = value
            changes = variants.axis_changes(axis, value, ("spec", "search", i)).over(changes)
        return values, changes

    def _judged(self, trial: Trial) -> Winner:
        """Return a winner with its comparison on the seeds held back."""
        again = Trial(trial.number, trial.values, trial.changes)
        base = Trial(-1, {}, self.base)
        self._try([base, again], self._held_back)
        if "failed" in (base.state, again.state):
            raise PolicySchedError(f"seeds held back: {base.message or again.message}")
        pairs = zip(base.objectives, again.objectives, strict=True)
        return Winner(trial, tuple(statistics.paired(old, new) for old, new in pairs))


def _suggested(trial: Any, name: str, axis: SearchAxis, *, whole: bool) -> Any:
    if axis.values:
        return axis.values[trial.suggest_categorical(name, list(range(len(axis.values))))]
    assert axis.least is not None, "reading has checked it"
    assert axis.most is not None, "reading has checked it"
    if whole:
        step = 1 if axis.step is None or axis.log else max(1, round(axis.step))
        least, most = math.ceil(axis.least), math.floor(axis.most)
        return trial.suggest_int(name, least, most, step=step, log=axis.log)
    return trial.suggest_float(
        name, axis.least, axis.most, step=None if axis.log else axis.step, log=axis.log
    )


def _front(trials: Sequence[Trial]) -> list[Trial]:
    """Return the trials that no other one beats; of equal ones the first."""
    front: list[Trial] = []
    for trial in trials:
        beaten = any(
            all(a >= b for a, b in zip(other.means, trial.means, strict=True))
            and (other.means != trial.means or other.number < trial.number)
            for other in trials
            if other is not trial
        )
        front += [] if beaten else [trial]
    return front


def trials_table(search: VariantSearch) -> ResultTable:
    """Return all trials as a table."""
    axes = list(search.trials[0].values) if search.trials else []
    names = [objective.text for objective in search.objectives]
    rows: list[list[Any]] = []
    for trial in search.trials:
        complete = trial.objectives and all(trial.objectives)
        means = trial.means if complete else [None] * len(names)
        seeds = len(trial.objectives[0]) if complete else 0
        values = [_cell(trial.values[axis]) for axis in axes]
        rows.append([trial.number, *values, trial.state, seeds, *means])
    return ResultTable("trials", ("trial", *axes, "state", "seeds", *names), rows)


def _cell(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool) else repr(value)


def search_lines(search: VariantSearch) -> Iterator[str]:
    """Yield what a search found, as text."""
    states = Counter(trial.state for trial in search.trials)
    words = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    yield f"{counted(len(search.trials), 'variant')} tried: {words}"
    yield f"seeds of the search: {_seeds(search.seeds)}; held back: {_seeds(search.held_back)}"
    for trial in search.trials:
        if trial.state == "failed":
            yield f"trial {trial.number} failed: {trial.message}"
    for winner in search.winners:
        yield ""
        trial = winner.trial
        values = ", ".join(f"{name} = {value}" for name, value in trial.values.items())
        yield f"trial {trial.number}: {values}"
        rows = [["OBJECTIVE", "SEEDS", "OWN", "FOUND", "DIFFERENCE", "95 % INTERVAL", ""]]
        each = zip(search.objectives, search.base, trial.means, winner.held_back, strict=True)
        for objective, base, mean, held in each:
            numbers = [
                statistics.number_text(base),
                statistics.number_text(mean),
                statistics.signed(mean - base),
            ]
            rows.append([objective.text, "search", *numbers, "", "chosen on these"])
            interval = held.difference
            rows.append(
                [
                    objective.text,
                    "held back",
                    statistics.number_text(held.old),
                    statistics.number_text(held.new),
                    statistics.signed(interval.mean),
                    f"{statistics.signed(interval.low)} .. {statistics.signed(interval.high)}",
                    _verdict(held, len(search.held_back)),
                ]
            )
        yield from table(rows, range(2, 6))
    yield ""
    if any(winner.better for winner in search.winners):
        yield "better than the experiment's own variant on seeds held back"
    else:
        yield "none is better than the experiment's own variant on seeds held back, beyond noise"


def _verdict(comparison: statistics.Paired, pairs: int) -> str:
    judged = Measure(name="objective", better="Higher")
    return statistics.verdict_text(comparison, judged, pairs)


def _seeds(seeds: Sequence[int]) -> str:
    if len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[-1] + 1)):
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds))


def patch_of_winner(sweep: Sweep, base: variants.Changes, winner: Winner) -> str:
    """Return a winner as a patch from the experiment's own variant."""
    values = {
        str(axis.weight or axis.param): winner.trial.values[axis_name(axis)]
        for axis in sweep.spec.search
    }
    return patch_of(sweep.loaded, base, winner.trial.changes, values)


# The objective.

FILE: Final = "--objective"
_NAME: Final = re.compile(r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|(?<![\w.])([A-Za-z_]\w*)""")


class Objective:
    """An expression over measures, which are doubles; greater values are better.

    Raises PolicyError with what is wrong with the expression.
    """

    def __init__(self, text: str, measures: Sequence[str]) -> None:
        self.text = text
        self._shifts: list[tuple[int, int]] = []
        self._measures = tuple(measures)
        self._rule = self._with_params(text)
        self._evaluated(dict.fromkeys(measures, 1.0))

    def __call__(self, values: Mapping[str, float | None]) -> float | None:
        """Return the value for a run's measures; None if one of them, or it, has none."""
        given = {name: values.get(name) for name in self._measures}
        measured = {name: value for name, value in given.items() if value is not None}
        if len(measured) < len(given) and any(given[n] is None for n in self._names(self.text)):
            return None
        return self._evaluated({name: measured.get(name, 0.0) for name in self._measures})

    def _names(self, text: str) -> set[str]:
        return {match[2] for match in _NAME.finditer(text) if match[2] in self._measures}

    def _with_params(self, text: str) -> str:
        """Return the expression with params.NAME for the name of a measure."""

        def put_in(match: re.Match[str]) -> str:
            if match[2] is None or match[2] not in self._measures:
                return match[0]
            self._shifts.append((match.start(), len("params.")))
            return f"params.{match[2]}"

        return _NAME.sub(put_in, text)

    def _evaluated(self, values: Mapping[str, float]) -> float | None:
        source = PolicySource("", dict(values))
        policy, problems = check_beside(Text(self._rule, FILE), "any", source)
        if policy is None:
            raise PolicyError(self._as_written(problem) for problem in problems)
        core = policy.match_conditions[0].core
        if core.type not in (types.DOUBLE, types.INT):
            message = f"an objective is a number, and this is {core.type}"
            measures = ", ".join(self._measures)
            raise PolicyError([self._diagnostic(WRONG_TYPE, message, f"measures: {measures}")])
        try:
            with one_evaluation():
                expression = compile_expression(core, policy.params, policy.params_type)
                bound = expression.bind(NodeTable())
                value, error = bound.scalar(PodInfo.of(Pod()), Activation(), 0)
        except Refusal as refusal:
            span = refusal.span
            problem = Problem(span.start, span.end, refusal.code, refusal.message, refusal.hint)
            located = diagnostic(problem, policy.match_conditions[0].text)
            raise PolicyError([self._as_written(located)]) from None
        return None if error or not math.isfinite(value) else float(value)

    def _diagnostic(self, code: str, message: str, hint: str) -> Diagnostic:
        width = len(self.text)
        return Diagnostic(FILE, 1, 1, code, message, hint, width=width, source_line=self.text)

    def _as_written(self, problem: Diagnostic) -> Diagnostic:
        """Return a problem with its place in the text that was given."""
        column, before = problem.column, 0
        for start, length in self._shifts:
            if start + before < problem.column - 1:
                column -= length
                before += length
        hint = problem.hint.replace("params.", "") or f"measures: {', '.join(self._measures)}"
        return Diagnostic(
            FILE,
            problem.line,
            max(1, column),
            problem.code,
            problem.message.replace("params.", ""),
            hint,
            severity=problem.severity,
            width=problem.width,
            source_line=self.text,
        )


NEW_FILE: Final = "scheduler-configuration.yaml"


def patch_of(
    loaded: LoadedExperiment, base: Changes, winner: Changes, values: Mapping[str, Any]
) -> str:
    """Return the patch from the base to a winner; ``values`` are by PLUGIN or PLUGIN.NAME."""
    texts = _Texts(base)
    changed = [texts.change(target, value) for target, value in values.items()]
    if not all(changed):
        configuration = configuration_of(loaded, winner)
        if configuration is not None:
            texts.write_anew(base.config or NEW_FILE, configuration)
    return "".join(texts.patches())


class _Texts:
    """The files that decide, and what changes in them."""

    def __init__(self, changes: Changes) -> None:
        self._config = changes.config
        self._policies = [
            str(file) for path in changes.policies for file in files_below(FilePath(path))
        ]
        self._old: dict[str, str] = {}
        self._new: dict[str, str] = {}

    def change(self, target: str, value: Any) -> bool:
        """Change a value where a file has it; return whether one has."""
        plugin, _, name = target.partition(".")
        names = tuple(name.split(".")) if name else ()
        paths = self._paths(plugin, names)
        return any(self._replace(file, path, value) for file, path in paths)

    def _paths(self, plugin: str, names: tuple[str, ...]) -> Iterator[tuple[str, Path]]:
        """Yield the files and paths that may have a value, the one that counts first."""
        for marked in self._documents(self._config) if self._config else ():
            yield from ((str(self._config), path) for path in _in_config(marked, plugin, names))
        for file in self._policies if names else ():
            for marked in self._documents(file):
                metadata = marked.value.get("metadata") if isinstance(marked.value, dict) else None
                if isinstance(metadata, dict) and metadata.get("name") == plugin:
                    yield file, ("spec", "params", *names)

    def _documents(self, file: str) -> list[Marked]:
        """Return the documents of a file as it is now, changed or not."""
        if file in self._new:
            return parse(SourceFile(file, self._new[file]))[0]
        return read_documents(FilePath(file))[0]

    def _replace(self, file: str, path: Path, value: Any) -> bool:
        for marked in self._documents(file):
            node = marked.node(path)
            if not isinstance(node, ScalarNode):
                continue
            text = marked.file.text
            self._old.setdefault(file, text)
            start, end = content_start(text, node), content_end(text, node)
            self._new[file] = text[:start] + json.dumps(value) + text[end:]
            return True
        return False

    def write_anew(self, file: str, value: Mapping[str, Any]) -> None:
        """Write a configuration anew."""
        if file not in self._old:
            same_file = self._config == file
            self._old[file] = FilePath(file).read_text(encoding="utf-8") if same_file else ""
        self._new[file] = yaml.safe_dump(dict(value), sort_keys=False, allow_unicode=True)

    def patches(self) -> Iterator[str]:
        """Yield the lines of the patch."""
        for file, new in self._new.items():
            name = os.path.relpath(file).replace(os.sep, "/")
            before = self._old[file].splitlines(keepends=True)
            old = f"a/{name}" if before else "/dev/null"
            lines = difflib.unified_diff(before, new.splitlines(keepends=True), old, f"b/{name}")
            for line in lines:
                yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _in_config(marked: Marked, plugin: str, names: tuple[str, ...]) -> Iterator[Path]:
    """Yield the paths of a plugin's argument, or of its weight, in every profile."""
    value = marked.value if isinstance(marked.value, dict) else {}
    for i, profile in enumerate(value.get("profiles") or ()):
        if names:
            for j, entry in enumerate(profile.get("pluginConfig") or ()):
                if entry.get("name") == plugin:
                    yield ("profiles", i, "pluginConfig", j, "args", *names)
            continue
        for point in ("score", "multiPoint"):
            chosen = (profile.get("plugins") or {}).get(point) or {}
            for j, entry in enumerate(chosen.get("enabled") or ()):
                if entry.get("name") == plugin and entry.get("weight") is not None:
                    yield ("profiles", i, "plugins", point, "enabled", j, "weight")
