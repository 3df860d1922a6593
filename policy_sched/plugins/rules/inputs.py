"""Declares the inputs of a policy: what objects are as records, and which keys they have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import msgspec

from policy_sched.cluster import DeclaredInput, Inputs
from policy_sched.cluster.tables import NodeTable
from policy_sched.framework import Handle
from policy_sched.language import BoundUnit, CompiledPolicy, Input
from policy_sched.language.runtime import Runtime
from policy_sched.language.values import Failure, ObjectReader
from policy_sched.model import DEFAULT_NAMESPACE, ApiObject, CustomObject, Kind, ObjectMeta


def inputs_of(handle: Handle) -> Inputs:
    """Return the inputs of a scheduler; for `Handle.shared`."""
    return Inputs(handle.nodes, handle.objects, handle.now)


def declare_inputs(policy: CompiledPolicy, handle: Handle) -> None:
    """Let the scheduler keep the inputs of a policy, before the policy is bound."""
    everywhere = policy.reads_of_inputs
    for given in policy.sections.inputs:
        declare_input(given, handle.shared(inputs_of), everywhere=given.identity in everywhere)


def declare_input(given: Input, inputs: Inputs, *, everywhere: bool) -> None:
    """Let inputs have one more; ``everywhere``: see `DeclaredInput`."""
    kind, read, key = kind_of_input(given), _reader(given), _key(given)
    most = given.type.most
    inputs.declare(DeclaredInput(given.identity, given.name, kind, read, key, everywhere, most))


class Answer(msgspec.Struct, frozen=True):
    """All objects of a polled input at one time; ``root``: what the answer says beside them."""

    input: Input
    objects: Sequence[CustomObject]
    root: Any = None


def kind_of_input(given: Input) -> Kind:
    """Return the kind of an input's objects; those of a URL have one of their own."""
    return (given.api_version, given.kind) if given.kind else ("url", given.identity)


def polled_answer(given: Input, data: Any) -> Answer:
    """Return the answer of a URL as objects. Raises ValueError for one that does not fit."""
    assert given.type.root is not None, "a url has a root"
    root = ObjectReader(given.type.root).plain(data)
    version, kind = kind_of_input(given)
    objects = [
        CustomObject(api_version=version, kind=kind, metadata=ObjectMeta(name=name), content=item)
        for name, item in _items(data, given.items)
    ]
    read = ObjectReader(given.type.record).read
    for item in objects:
        read(item, 0)
    return Answer(given, objects, root)


def _items(data: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the items of an answer with their names. Raises ValueError."""
    for step in path.split(".") if path else ():
        data = data.get(step) if isinstance(data, dict) else None
    if isinstance(data, dict):
        yield from data.items()
    elif isinstance(data, list):
        for number, item in enumerate(data):
            name = item.get("name") if isinstance(item, dict) else None
            yield (name if isinstance(name, str) else str(number)), item
    elif data is not None:
        raise ValueError(f"`{path}` is no list and no map")


def _reader(given: Input) -> Callable[[ApiObject, int], Any]:
    read = ObjectReader(given.type.record).read
    if not given.namespaced:
        return read

    def of_a_namespace(item: ApiObject, seen_at: int) -> Any:
        record = read(item, seen_at)
        record.f_namespace = record.f_namespace or DEFAULT_NAMESPACE
        return record

    return of_a_namespace


def _key(given: Input) -> Callable[[Any], str | None]:
    if given.key is None:
        return lambda record: (
            f"{record.f_namespace}/{record.f_name}" if record.f_namespace else record.f_name
        )
    bound = BoundUnit(given.key, Runtime(NodeTable()))
    root, activation = given.key.roots[0], SimpleNamespace()

    def key(record: Any) -> str | None:
        activation.object = record
        value = bound.value_of(root, bound.scalar(None, activation, 0))
        return None if isinstance(value, Failure) else value

    return key
