"""Attributes and capacities that a selector names and that no device of a snapshot has (PS410)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from policy_sched.language.diagnostics import Problem, did_you_mean
from policy_sched.language.syntax import Span, ast, parse_cel, walk

UNKNOWN: Final = "PS410"
_KINDS: Final = {"attributes": "attribute", "capacity": "capacity"}


class DeviceNames(msgspec.Struct, frozen=True):
    """The names of attributes and of capacities, by domain, that devices have."""

    attributes: Mapping[str, frozenset[str]]
    capacity: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, devices: Iterable[tuple[str, Iterable[str], Iterable[str]]]) -> DeviceNames:
        """Return the names of devices: of each its driver, its attributes and its capacities."""
        found: tuple[dict[str, set[str]], dict[str, set[str]]] = ({}, {})
        for driver, *names in devices:
            for known, listed in zip(found, names, strict=True):
                known.setdefault(driver, set())
                for name in listed:
                    domain, slash, short = name.partition("/")
                    known.setdefault(domain if slash else driver, set()).add(
                        short if slash else name
                    )
        attributes, capacity = (
            {domain: frozenset(names) for domain, names in known.items()} for known in found
        )
        return cls(attributes, capacity)


def unknown_attributes(text: str, known: DeviceNames) -> tuple[Problem, ...]:
    """Return a warning for each name in a selector that no device has."""
    tree, _ = parse_cel(text)
    return () if tree is None else tuple(sorted(set(_problems(tree, known))))


def _problems(tree: ast.Node, known: DeviceNames) -> Iterator[Problem]:
    for node, _ in walk(tree):
        step = _step(node)
        if step is None and isinstance(node, ast.Binary) and node.op == "in":
            left = node.left
            if isinstance(left, ast.Literal) and isinstance(left.value, str):
                step = node.right, left.value, left.span
        if step is None:
            continue
        operand, name, span = step
        kind = _field(operand)
        if kind and isinstance(node, ast.IndexExpr | ast.Select):
            domains = getattr(known, kind)
            if name not in domains:
                message = f"no device of the snapshot has {_KINDS[kind]} names of the domain"
                close = did_you_mean(name, domains)
                yield Problem(span.start, span.end, UNKNOWN, f"{message} '{name}'{close}")
            continue
        inner = _step(operand)
        kind = "" if inner is None else _field(inner[0])
        names = getattr(known, kind).get(inner[1]) if kind and inner is not None else None
        if names is not None and name not in names:
            message = f"no device of the snapshot has the {_KINDS[kind]} '{name}'"
            yield Problem(span.start, span.end, UNKNOWN, message + did_you_mean(name, names))


def _step(node: ast.Node) -> tuple[ast.Node, str, Span] | None:
    """Return operand, constant key and its place of ``operand.key`` or ``operand["key"]``."""
    match node:
        case ast.Select():
            return node.operand, node.name, node.name_span
        case ast.IndexExpr(index=ast.Literal(value=str() as key) as written):
            return node.operand, key, written.span
    return None


def _field(node: ast.Node) -> str:
    """Return "attributes" or "capacity" for that field of the device, "" for anything else."""
    match node:
        case ast.Select(operand=ast.Ident(name="device"), name=name) if name in _KINDS:
            return name
    return ""
