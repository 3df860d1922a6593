"""Reads the document of an Experiment, with values for its parameters.

Theory of operation. Texts hold ${NAME} for an entry of ``spec.parameters``; these are put in before
the document is validated, and problems point at the text that holds them. ${seed} and ${row.COLUMN}
are left for later. Every problem is collected; nothing raises.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath
from typing import Any

import yaml

from policy_sched.errors import Diagnostic
from policy_sched.experiments import reading
from policy_sched.experiments.checks import check_model
from policy_sched.experiments.limits import MAX_TEXT
from policy_sched.profiles import models
from policy_sched.profiles.load import DocumentPosition, read_documents, read_experiment
from policy_sched.source import Marked, diagnostic


def load_experiment(
    path: str, given: Mapping[str, str] | None = None
) -> tuple[reading.Loaded | None, list[Diagnostic]]:
    """Read the one Experiment of a file; ``given`` are values for its parameters.

    Returns None and the problems if there is none.
    """
    documents, problems = read_documents(FilePath(path))
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
) -> tuple[reading.Loaded | None, list[Diagnostic]]:
    """Read a document as an Experiment, and check what its model cannot say."""
    position = DocumentPosition(marked.file.path, marked)
    problems: list[models.ModelProblem] = []
    value = _with_parameters(marked.value, given or {}, problems)
    model, shape = _read(value, marked, given or {})
    diagnostics = position.diagnostics([*problems, *shape])
    diagnostics += list(_unused(marked, given or {}))
    if model is None:
        return None, diagnostics
    folder = FilePath(marked.file.path).parent
    broken = tuple(problem.path for problem in (*problems, *shape))
    loaded = reading.Loaded(
        model, position, folder, given or {}, broken=broken, diagnostics=diagnostics
    )
    check_model(loaded)
    return loaded, loaded.diagnostics


def _read(
    value: Any, marked: Marked, given: Mapping[str, str]
) -> tuple[models.Experiment | None, list[models.ModelProblem]]:
    """Read a document; a parameter that is a number is a text where a text is needed."""
    model, shape = read_experiment(value, marked)
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
    other, problems = read_experiment(value, marked)
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
