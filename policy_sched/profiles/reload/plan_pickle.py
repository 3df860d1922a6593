"""Sends what files were compiled to from one process to another, each part once.

Theory of operation. The parts of a compilation that stay the same objects from reload to reload
(compiled policies, sources, arguments, settings) are numbered, sent with the first shipment that
needs them, and held at both ends until two shipments did without them. So a shipment is as large
as what has changed. Generated code travels as code objects, which only the same interpreter
reads, and kernels that are closures as their code and cells. Places in files stay behind: all
problems were reported where they were found.
"""

from __future__ import annotations

import importlib
import io
import marshal
import pickle
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import CellType, CodeType, FunctionType, MappingProxyType
from typing import Any, Final

from policy_sched.language.diagnostics import PolicySource, Text
from policy_sched.language.ir import graph as ir
from policy_sched.language.stdlib import BUILTINS
from policy_sched.profiles.build import adopt, hashes_of, known_form
from policy_sched.profiles.reload.inputs import Compilation

Reduced = tuple[Callable[..., Any], tuple[Any, ...]]
Parts = dict[int, object]
"""Parts by number."""
_ARGUMENTS: Final[dict[type, tuple[str, ...]]] = {}
_AGO: Final = 2
"""A part is dropped when so many shipments in a row did without it."""


class Sender:
    """One end: turns compilations into shipments."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._held: Parts = {}
        self._used: dict[int, int] = {}
        self._shipment = 0
        self._next = 0

    def pack(self, found: Compilation) -> bytes:
        """Return a compilation as bytes for the `Receiver`, which must get every one of them."""
        self._shipment += 1
        new = [self._number(part) for part in _parts(found)]
        shipped = {n: _shipped(self._held[n]) for n in new if n is not None}
        stale = [n for n, used in self._used.items() if self._shipment - used >= _AGO]
        body = _pickled(found, self._numbers)
        for number in stale:
            del self._numbers[id(self._held.pop(number))], self._used[number]
        return pickle.dumps((shipped, stale, body))

    def _number(self, part: object) -> int | None:
        """Take note that a part is in use; return its number if it is new."""
        known = self._numbers.get(id(part))
        if known is not None:
            self._used[known] = self._shipment
            return None
        self._next += 1
        self._numbers[id(part)] = self._next
        self._held[self._next] = part
        self._used[self._next] = self._shipment
        return self._next


class Receiver:
    """The other end: turns shipments into compilations."""

    def __init__(self) -> None:
        self._parts: Parts = {}

    def unpack(self, data: bytes) -> Compilation:
        """Return what was sent. Parts that were sent before are the same objects again."""
        shipped, stale, body = pickle.loads(data)  # noqa: S301 - from a process that we started
        for number, part in shipped.items():
            self._parts[number], hashes = _Unpickler(part, self._parts).load()
            if isinstance(made := self._parts[number], PolicySource):
                adopt(made, hashes)
        found = _Unpickler(body, self._parts).load()
        for number in stale:
            del self._parts[number]
        assert isinstance(found, Compilation)
        return _with_known_forms(found)


def _shipped(part: object) -> bytes:
    """Return a part; with a source come its hashes, which take longer to work out than to send."""
    return _pickled((part, hashes_of(part) if isinstance(part, PolicySource) else None), {})


def _parts(found: Compilation) -> list[object]:
    """Return what stays the same object for as long as it says the same."""
    parts: list[object] = [] if found.settings is None else [found.settings]
    for ready in found.plans:
        plan = ready.plan
        parts += [*ready.policies.values(), *plan.policies.values(), *plan.args.values()]
    return parts


def _with_known_forms(found: Compilation) -> Compilation:
    """Return the compilation with the compiled forms that this process has already."""
    for ready in found.plans:
        for name, policy in ready.policies.items():
            ready.policies[name] = known_form(ready.plan.policies[name], policy)
    return found


def _pickled(value: object, numbers: Mapping[int, int]) -> bytes:
    buffer = io.BytesIO()
    _Pickler(buffer, numbers).dump(value)
    return buffer.getvalue()


class _Pickler(pickle.Pickler):
    """Knows numbered parts, code, closures and texts."""

    def __init__(self, buffer: io.BytesIO, numbers: Mapping[int, int]) -> None:
        super().__init__(buffer, protocol=pickle.HIGHEST_PROTOCOL)
        self._numbers = numbers

    def persistent_id(self, obj: object) -> int | None:
        """Return the number of a part."""
        return self._numbers.get(id(obj))

    def reducer_override(self, obj: object) -> Reduced | Any:
        """Return how to make what pickle cannot, or should not, take as it is."""
        if isinstance(obj, Text):
            return Text, (obj.text, obj.file, None, obj.path)
        if isinstance(obj, CodeType):
            return marshal.loads, (marshal.dumps(obj),)
        if isinstance(obj, MappingProxyType):
            return MappingProxyType, (dict(obj),)
        if obj is ir.MIXED:
            return _global, (ir.__name__, "MIXED")
        if isinstance(obj, FunctionType):
            return _reduced_function(obj)
        names = _ARGUMENTS.get(type(obj))
        if names is None:
            names = _ARGUMENTS[type(obj)] = _arguments(type(obj))
        if names:
            return type(obj), tuple([getattr(obj, name) for name in names])
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    """Knows numbered parts."""

    def __init__(self, data: bytes, parts: Parts) -> None:
        super().__init__(io.BytesIO(data))
        self._parts = parts

    def persistent_load(self, pid: int) -> object:
        """Return a part by its number."""
        return self._parts[pid]


def _arguments(kind: type) -> tuple[str, ...]:
    """Return the arguments that make a dataclass as it is; none of other types.

    That is half the work of filling an empty object, which the receiver would do otherwise.
    """
    found = fields(kind) if is_dataclass(kind) else ()
    plain = all(field.init and not field.kw_only for field in found)
    return tuple(field.name for field in found) if plain else ()


def _reduced_function(function: FunctionType) -> Reduced | Any:
    """Return a function by a name for it, else as its code and cells."""
    kernel = _kernels().get(id(function))
    if kernel is not None:
        return _kernel, (kernel,)
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
def _kernels() -> dict[int, str]:
    """Return the overloads by their functions, which some compare by identity."""
    return {id(kernel.function): overload for overload, kernel in BUILTINS.items()}


def _kernel(overload: str) -> object:
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
