"""Checks a document against its JSON Schema and returns every problem as a readable message.

jsonschema is imported where it is first needed: a document that its model accepts at once never
pays for it. `Shape.problems` finds what is wrong; `mended` gives the document with placeholders
in place of what is wrong, so that the other checks can go on over the rest.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from policy_sched.errors import nearest
from policy_sched.profiles import models

if TYPE_CHECKING:
    from jsonschema import Draft7Validator, ValidationError

Schema = Mapping[str, Any]

MAX_SUGGESTIONS: Final = 100
"""Misspelt words of a document for which the word that was meant is looked for."""

_TYPE_NAMES: Final = {
    "object": "a mapping",
    "array": "a list",
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "null": "nothing",
}
_EMPTY: Final[dict[str, object]] = {
    "object": {},
    "array": [],
    "string": "",
    "integer": 0,
    "null": None,
    "number": 0,
    "boolean": False,
}


@cache
def _validator(file: str) -> Draft7Validator:
    """Return the validator of a shipped schema file."""
    from jsonschema import Draft7Validator  # noqa: PLC0415  100 ms that valid files never pay

    return Draft7Validator(
        json.loads((models.schemas_directory() / file).read_text(encoding="utf-8"))
    )


def json_type(value: object) -> str:
    """Return the type of a YAML value as text."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    names = ((dict, "a mapping"), (list, "a list"), (str, "a string"), (int, "an integer"))
    return next((name for kind, name in names if isinstance(value, kind)), "a number")


def shape_problems(value: object, file: str) -> list[models.ModelProblem]:
    """Return every way in which ``value`` departs from the schema ``file``, in document order."""
    validator = _validator(file)
    problems: dict[tuple[models.Path, str, str], models.ModelProblem] = {}
    suggest = _Suggestions()
    for error in validator.iter_errors(value):
        for problem in _explain(error, validator, suggest):
            problems.setdefault((problem.path, problem.code, problem.message), problem)
    return list(problems.values())


class _Suggestions:
    """Looks for the known word that was meant, for the first misspelt words of a document.

    A comparison with every known word takes a millisecond, so their number is limited.
    """

    def __init__(self) -> None:
        self._left = MAX_SUGGESTIONS

    def __call__(self, word: str, known: Sequence[str]) -> str:
        """Return "did you mean 'x'?" or nothing."""
        self._left -= 1
        return models.did_you_mean(word, known) if self._left >= 0 else ""


def _explain(
    error: ValidationError, validator: Draft7Validator, suggest: _Suggestions
) -> Iterator[models.ModelProblem]:
    """Yield the problems of one jsonschema error."""
    path: models.Path = tuple(error.absolute_path)
    instance: Any = error.instance
    schema: Schema = error.schema if isinstance(error.schema, dict) else {}
    root: Schema = validator.schema if isinstance(validator.schema, dict) else {}
    fill = _placeholder(schema, root)
    match error.validator:
        case "additionalProperties":
            keys = [key for key in schema.get("properties", {}) if key != "$schema"]
            yield from unknown_keys(path, instance, keys, suggest)
        case "required":
            for key in schema["required"]:
                if key not in instance:
                    inner = _placeholder(schema["properties"].get(key, {}), root)
                    yield _with(models.required((*path, key)), inner)
        case "type":
            wanted = schema["type"]
            words = [_TYPE_NAMES[t] for t in ([wanted] if isinstance(wanted, str) else wanted)]
            expected = f"{models.path_text(path)}: expected {' or '.join(words)}"
            text = f"{expected}, found {json_type(instance)}"
            hint = _type_hint(wanted, instance)
            if schema.get("pattern") == models.DURATION_PATTERN:
                hint = str(schema.get("errorMessage", ""))
            yield models.ModelProblem(path, models.WRONG_TYPE, text, hint, placeholder=fill)
        case "enum" | "const":
            known = schema.get("enum") or [schema["const"]]
            if type(instance) is type(known[0]):  # another type is another error
                hint = suggest(instance, known) if isinstance(instance, str) else ""
                meant = nearest(instance, known) if hint else None
                yield _with(models.unsupported(path, instance, known, hint), meant or known[0])
        case "maxItems":
            most = schema["maxItems"]
            items = "item" if most == 1 else "items"
            why = f"Too many: {len(instance)}: must have at most {most} {items}"
            hint = str(schema.get("errorMessage", ""))
            yield _with(models.problem_at(path, why), instance[:most], hint)
        case "anyOf":
            branch = _closest(error)
            for inner_error in branch:
                yield from _explain(inner_error, validator, suggest)
        case _:
            why = str(schema.get("errorMessage", error.message))
            hint = _word_hint(schema, instance) if isinstance(instance, str) else ""
            yield _with(models.invalid(path, instance, why), fill, hint)


def _with(problem: models.ModelProblem, placeholder: object, hint: str = "") -> models.ModelProblem:
    """Return ``problem`` with a placeholder."""
    hint = hint or problem.hint
    return models.ModelProblem(
        problem.path, problem.code, problem.message, hint, placeholder=placeholder
    )


def unknown_keys(
    path: models.Path,
    instance: Mapping[str, object],
    keys: Sequence[str],
    suggest: Callable[[str, Sequence[str]], str],
) -> Iterator[models.ModelProblem]:
    """Yield one problem per key of ``instance`` that is none of ``keys``."""
    for key in instance:
        if key not in keys:
            at = (*path, key)
            text = f'unknown field "{models.path_text(at)}"'
            hint = suggest(str(key), keys) or f"known fields: {', '.join(keys)}"
            yield models.ModelProblem(at, models.UNKNOWN_KEY, text, hint, on_key=True)


def _closest(error: ValidationError) -> list[ValidationError]:
    """Return the errors of the anyOf branch that the author most likely meant."""
    branches: dict[int, list[ValidationError]] = {}
    for inner in error.context or ():
        branches.setdefault(int(inner.relative_schema_path[0]), []).append(inner)
    own_type = [
        b
        for b in branches.values()
        if not any(e.validator == "type" and not e.relative_path for e in b)
    ]
    return own_type[0] if own_type else next(iter(branches.values()), [])


def _type_hint(wanted: str | list[str], value: object) -> str:
    """Return how to mend a value of the wrong type, for the common errors."""
    if wanted == ["string", "number", "boolean"]:
        return "a rule is text: put it in quotes, or below a |-"
    if wanted == "string" and isinstance(value, bool):
        return "put quotes around it: yes, no, on, off, true and false are not text in YAML"
    if wanted == "string" and isinstance(value, int | float):
        return f'put quotes around it: "{value}"'
    if wanted == "array" and not isinstance(value, list):
        return "a list item starts with '- '"
    if wanted in ("integer", "number") and isinstance(value, str):
        return "take the quotes away" if value.lstrip("-").isdigit() else ""
    return ""


def _word_hint(schema: Schema, value: str) -> str:
    """Return the fix for a text in place of a number, where one word is allowed."""
    if "integer" not in schema.get("type", ()):
        return ""
    return _type_hint("integer", value) or models.did_you_mean(
        value, (schema["pattern"].strip("^$"),)
    )


def _placeholder(schema: Schema, root: Schema) -> object:
    """Return the least value that has the shape of ``schema``."""
    if "default" in schema:
        return copy.deepcopy(schema["default"])
    if "const" in schema or "enum" in schema:
        return schema.get("const") or schema["enum"][0]
    for keyword in ("$ref", "allOf", "anyOf"):
        if keyword in schema:
            inner = schema[keyword]
            if keyword == "$ref":
                name = inner.rsplit("/", 1)[1]
                return _placeholder(root["definitions"][name], root)
            return _placeholder(inner[0], root)
    kind = schema.get("type", "object")
    kind = kind if isinstance(kind, str) else kind[0]
    if kind == "object":
        properties = schema.get("properties", {})
        return {key: _placeholder(properties[key], root) for key in schema.get("required", ())}
    if kind == "integer" and "minimum" in schema:
        return schema["minimum"]
    if "pattern" in schema:
        return "1s" if schema["pattern"] == models.DURATION_PATTERN else "x"
    return copy.deepcopy(_EMPTY[kind])


def mended(value: object, problems: list[models.ModelProblem]) -> object:
    """Return a copy of ``value`` where everything that ``problems`` names is put right."""
    root: dict[str, Any] = {"": copy.deepcopy(value)}
    for problem in problems:
        parent: Any = root
        path: models.Path = ("", *problem.path)
        for part in path[:-1]:
            inside = part in parent if isinstance(parent, dict) else isinstance(parent, list)
            if not inside:
                break
            parent = parent[part]
        else:
            if problem.code == models.UNKNOWN_KEY:
                parent.pop(path[-1], None)
            elif isinstance(parent, dict | list):
                slot: Any = path[-1]
                parent[slot] = copy.deepcopy(problem.placeholder)
    return root[""]
