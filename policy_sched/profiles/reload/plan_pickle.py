"""Pickles what files were compiled to, so that another process runs it.

Generated code travels as code objects, which only the same interpreter reads; functions of the
standard library of rules by their names, other closures as their code and cells. Places in files
stay behind: all problems were reported where they were found.
"""

from __future__ import annotations

import importlib
import io
import marshal
import pickle
import sys
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from types import CellType, CodeType, FunctionType, MappingProxyType
from typing import Any

from policy_sched.language.ir import MIXED
from policy_sched.language.stdlib import BUILTINS

Reduced = tuple[Callable[..., Any], tuple[Any, ...]]


def dumps(value: object) -> bytes:
    """Return a value for `pickle.loads`."""
    buffer = io.BytesIO()
    _Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()


class _Pickler(pickle.Pickler):
    """Knows code, closures and read-only mappings."""

    def reducer_override(self, obj: object) -> Reduced | Any:
        """Return how to make what pickle cannot, or should not, take as it is."""
        if isinstance(obj, CodeType):
            return marshal.loads, (marshal.dumps(obj),)
        if isinstance(obj, MappingProxyType):
            return MappingProxyType, (dict(obj),)
        if obj is MIXED:
            return _global, ("policy_sched.language.ir", "MIXED")
        if isinstance(obj, FunctionType):
            return _reduced_function(obj)
        names = _arguments(type(obj))  # type: ignore[arg-type]  # types are hashable
        return (
            (type(obj), tuple([getattr(obj, name) for name in names])) if names else NotImplemented
        )


@cache
def _arguments(kind: type) -> tuple[str, ...]:
    """Return the arguments that make a dataclass as it is; none of other types.

    That is half the work of filling an empty object, which the receiver would do otherwise.
    """
    found = fields(kind) if is_dataclass(kind) else ()
    plain = all(field.init and not field.kw_only for field in found)
    plain = plain and "__reduce__" not in vars(kind)
    return tuple(field.name for field in found) if plain else ()


def _reduced_function(function: FunctionType) -> Reduced | Any:
    """Return a function by a name for it, else as its code and cells."""
    builtin = _builtins().get(function)
    if builtin is not None:
        return _builtin, (builtin,)
    module = function.__module__
    if getattr(sys.modules[module], function.__qualname__, None) is function:
        return NotImplemented
    for name, value in vars(sys.modules[module]).items():
        if value is function:
            return _global, (module, name)
    cells = tuple(cell.cell_contents for cell in function.__closure__ or ())
    facts = function.__name__, function.__defaults__, function.__kwdefaults__
    return _function, (marshal.dumps(function.__code__), module, cells, facts)


@cache
def _builtins() -> dict[Callable[..., Any], str]:
    """Return the overloads by their functions, which some compare by identity."""
    return {builtin.function: overload for overload, builtin in BUILTINS.items()}


def _builtin(overload: str) -> object:
    return BUILTINS[overload].function


def _global(module: str, name: str) -> object:
    return getattr(importlib.import_module(module), name)


def _function(code: bytes, module: str, cells: tuple[object, ...], facts: Any) -> FunctionType:
    name, defaults, keyword_defaults = facts
    scope = vars(importlib.import_module(module))
    closure = tuple(CellType(content) for content in cells)
    made = FunctionType(marshal.loads(code), scope, name, defaults, closure)  # noqa: S302 - ours
    made.__kwdefaults__ = keyword_defaults
    return made
