"""Declares the inputs of a policy: what objects are as records, and which keys they have."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from policy_sched.cluster import DeclaredInput, Inputs
from policy_sched.cluster.tables import NodeTable
from policy_sched.framework import Handle
from policy_sched.language import BoundUnit, CompiledPolicy, Input
from policy_sched.language.runtime import Runtime
from policy_sched.language.values import Failure, ObjectReader
from policy_sched.model import DEFAULT_NAMESPACE, ApiObject


def inputs_of(handle: Handle) -> Inputs:
    """Return the inputs of a scheduler; for `Handle.shared`."""
    return Inputs(handle.nodes, handle.objects, handle.now)


def declare_inputs(policy: CompiledPolicy, handle: Handle) -> None:
    """Let the scheduler keep the inputs of a policy, before the policy is bound."""
    everywhere = policy.all_reads.inputs
    for given in policy.sections.inputs:
        identity = given.identity
        handle.shared(inputs_of).declare(
            DeclaredInput(
                identity,
                given.name,
                (given.api_version, given.kind) if given.kind else ("url", identity),
                _reader(given),
                _key(given),
                identity in everywhere,
                given.type.most,
            )
        )


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
    root = given.key.roots[0]

    def key(record: Any) -> str | None:
        value = bound.one(root, bound.scalar(None, SimpleNamespace(object=record), 0))
        return None if isinstance(value, Failure) else value

    return key
