"""Selectors over devices: the environment of ``device``, compiling, and asking about one device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from policy_sched.language.cel.checker import Checker, Environment, Fault
from policy_sched.language.cel.evaluator import Evaluation, Record
from policy_sched.language.cel.library_kubernetes import read_version
from policy_sched.language.cel.types import ANY, QUANTITY, map_of
from policy_sched.language.cel.values import CelError, CelMap, type_name
from policy_sched.language.syntax import Node, parse_cel
from policy_sched.language.values import BOOL, STRING, Type
from policy_sched.model import Amount, quantity

DEVICE: Final = Type("kubernetes.DRADevice")
DEVICES: Final = Environment(
    {"device": DEVICE},
    {
        DEVICE: {
            "driver": STRING,
            "allowMultipleAllocations": BOOL,
            "attributes": map_of(STRING, map_of(STRING, ANY)),
            "capacity": map_of(STRING, map_of(STRING, QUANTITY)),
        }
    },
)
#: Expressions that are kept compiled.
_KEPT: Final = 4096
_NATIVE: Final = {
    "string": "unsupported native conversion from string to 'bool'",
    "int": "unsupported type conversion from 'int' to bool",
    "double": "type conversion error from Double to 'bool'",
    "uint": "unsupported type conversion from 'uint' to bool",
    "bytes": "type conversion error from Bytes to 'bool'",
    "kubernetes.Semver": "type conversion error from 'Semver' to 'bool'",
}


@dataclass(frozen=True, slots=True)
class Selector:
    """A compiled selector; ``error`` says why it did not compile, and then it has no tree."""

    text: str
    tree: Node | None
    result: Type | None
    error: str = ""
    faults: tuple[Fault, ...] = ()

    @property
    def result_type(self) -> str:
        """The checker's result type as upstream shows it."""
        return "google.protobuf.Any" if self.result == ANY else str(self.result)

    def evaluate(self, device: Record) -> tuple[bool, int]:
        """Return whether the device is selected, and the cost. Raises CelError."""
        assert self.tree is not None, "it compiled"
        evaluation = Evaluation()
        found = evaluation.value(self.tree, {"device": device})
        if not isinstance(found, bool):
            name = type_name(found)
            why = _NATIVE.get(name, f"type conversion error from '{name}' to 'bool'")
            raise CelError(f"CEL result of type {name} could not be converted to bool: {why}")
        return found, evaluation.cost


@lru_cache(maxsize=_KEPT)
def compile_selector(text: str) -> Selector:
    """Compile a selector over a device."""
    tree, problems = parse_cel(text)
    if tree is None:
        found = tuple(Fault(p.start, f"Syntax error: {p.message}") for p in problems)
        return Selector(text, None, None, _compilation_failed(text, found), found)
    checker = Checker(DEVICES)
    result = checker.check(tree)
    if checker.faults:
        faults = tuple(checker.faults)
        return Selector(text, None, None, _compilation_failed(text, faults), faults)
    if result not in (BOOL, ANY):
        message = f"must evaluate to bool or the unknown type, not {result}"
        return Selector(text, None, None, message, (Fault(0, message),))
    return Selector(text, tree, result)


def _compilation_failed(text: str, faults: tuple[Fault, ...]) -> str:
    lines = []
    for fault in faults:
        start = text.rfind("\n", 0, fault.at) + 1
        line, column = text.count("\n", 0, fault.at) + 1, fault.at - start
        end = text.find("\n", start)
        shown = text[start : len(text) if end < 0 else end].replace("\t", " ")
        lines.append(f"ERROR: <input>:{line}:{column + 1}: {fault.message}")
        lines.append(f" | {shown}")
        lines.append(f" | {'.' * column}^")
    return "compilation failed: " + "\n".join(lines)


def device_record(
    driver: str,
    attributes: Mapping[str, Any],
    capacity: Mapping[str, Amount],
    *,
    allow_multiple_allocations: bool,
) -> Record:
    """Return a device as selectors see it.

    ``attributes``: by name a bool, int, string, a version as ``("version", text)``, or None where
    the value is of a kind that selectors do not know. Raises CelError for what cannot be read.
    """
    found: dict[str, dict[str, Any]] = {}
    for name, value in attributes.items():
        domain, short = _domain(name, driver)
        found.setdefault(domain, {})[short] = _attribute(name, value)
    sizes: dict[str, dict[str, Any]] = {}
    for name, amount in capacity.items():
        domain, short = _domain(name, driver)
        sizes.setdefault(domain, {})[short] = quantity(amount)
    return Record(
        {
            "driver": driver,
            "allowMultipleAllocations": allow_multiple_allocations,
            "attributes": _domains(found),
            "capacity": _domains(sizes),
        }
    )


def _domain(name: str, driver: str) -> tuple[str, str]:
    domain, slash, short = name.partition("/")
    return (domain, short) if slash else (driver, name)


def _domains(found: Mapping[str, Mapping[str, Any]]) -> CelMap:
    return CelMap({domain: CelMap(entries) for domain, entries in found.items()}, CelMap)


def _attribute(name: str, value: Any) -> Any:
    if isinstance(value, tuple):
        try:
            return read_version(value[1])
        except CelError as error:
            raise CelError(f"attribute {name}: parse semantic version: {error}") from None
    if value is None:
        raise CelError(f"attribute {name}: unsupported attribute value")
    return value
