"""Effective parameters: a policy's own params with a profile's arguments laid over them.

Mappings merge deeply; lists and scalars replace. What a profile gives must look like the
default: known names, the same types, or an integer for a double.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from policy_sched.language.check import params_type, type_depth
from policy_sched.language.diagnostics import MAX_FIELDS, MAX_TYPE_DEPTH
from policy_sched.language.values import types
from policy_sched.profiles import models


def merge_over(defaults: Any, given: Any) -> Any:
    """Return ``given`` over ``defaults``: mappings merge deeply, anything else replaces."""
    if not isinstance(defaults, dict) or not isinstance(given, dict):
        return given
    merged = dict(defaults)
    for key, value in given.items():
        merged[key] = merge_over(defaults[key], value) if key in defaults else value
    return merged


def merge_params(
    params: Mapping[str, Any],
    args: Mapping[str, Any],
    path: models.Path,
    problems: list[models.ModelProblem],
) -> dict[str, Any]:
    """Return a policy's ``params`` with ``args``, found at ``path``, laid over them.

    What does not look like its default is added to ``problems``, and keeps its default.
    """
    merged = dict(params)
    for name, value in args.items():
        at = (*path, name)
        if name in params:
            merged[name] = _merge(params[name], value, at, problems)
            continue
        known = f"known parameters: {', '.join(params)}" if params else "the policy has no params"
        hint = models.did_you_mean(name, params) or known
        text = f'unknown parameter "{models.path_text(at)}"'
        problems.append(models.ModelProblem(at, models.UNKNOWN_KEY, text, hint, on_key=True))
    return merged


def too_many_params(params: Mapping[str, Any], path: models.Path) -> Iterator[models.ModelProblem]:
    """Yield a problem if the type of ``params``, found at ``path``, is too large or too deep."""
    kind = params_type(params)
    fields = sum(
        len(part.fields) for part in types.parts(kind) if isinstance(part, types.RecordType)
    )
    if fields > MAX_FIELDS:
        why = f"{fields} parameters with those in mappings; the limit is {MAX_FIELDS}"
        hint = "mappings with values of one type do not count"
        yield models.problem_at(path, why, models.TOO_LARGE, hint, on_key=True)
    if type_depth(kind) > MAX_TYPE_DEPTH:
        yield models.problem_at(
            path, f"nested more than {MAX_TYPE_DEPTH} deep", models.TOO_LARGE, on_key=True
        )


def _merge(default: Any, given: Any, path: models.Path, problems: list[models.ModelProblem]) -> Any:
    """Return ``given`` over ``default``; an empty default takes anything of its kind."""
    if isinstance(default, dict) and isinstance(given, dict):
        return _merge_mapping(default, given, path, problems)
    if isinstance(default, list) and isinstance(given, list):
        if not default:
            return given
        return [_item(default[0], item, (*path, i), problems) for i, item in enumerate(given)]
    if isinstance(default, float) and isinstance(given, int) and not isinstance(given, bool):
        return float(given)
    if noun(default) != noun(given):
        why = f"expected {noun(default)}, found {noun(given)}"
        shown = json.dumps(default, ensure_ascii=False)
        problems.append(models.problem_at(path, why, models.WRONG_TYPE, f"the default is {shown}"))
        return default
    return given


def _merge_mapping(
    default: dict[str, Any],
    given: dict[str, Any],
    path: models.Path,
    problems: list[models.ModelProblem],
) -> dict[str, Any]:
    """Merge mappings; one with values of one type is a map, which takes new keys of that type."""
    merged = dict(default)
    of_one_type = len({noun(value) for value in default.values()}) == 1
    for key, value in given.items():
        at = (*path, key)
        if key in default:
            merged[key] = _merge(default[key], value, at, problems)
        elif of_one_type:
            merged[key] = _item(next(iter(default.values())), value, at, problems)
        elif not default:
            merged[key] = value
        else:
            hint = models.did_you_mean(str(key), default) or f"known fields: {', '.join(default)}"
            text = f'unknown field "{models.path_text(at)}"'
            problems.append(models.ModelProblem(at, models.UNKNOWN_KEY, text, hint, on_key=True))
    return merged


def _item(like: Any, given: Any, path: models.Path, problems: list[models.ModelProblem]) -> Any:
    """Return an item that must look like ``like``, and have all of its fields if a record."""
    if isinstance(like, dict) and isinstance(given, dict) and like:
        if len({noun(value) for value in like.values()}) > 1:
            problems += (models.required((*path, key)) for key in like if key not in given)
        merged = _merge_mapping(like, given, path, problems)
        return {key: value for key, value in merged.items() if key in given}
    return _merge(like, given, path, problems)


def noun(value: object) -> str:
    """Return the type of a parameter's value as text."""
    if value is None:
        return "nothing"
    names: tuple[tuple[type, str], ...] = (
        (bool, "true or false"),
        (int, "an integer"),
        (float, "a double"),
        (str, "a string"),
        (list, "a list"),
    )
    return next((name for kind, name in names if isinstance(value, kind)), "a mapping")
