"""The wire format extender/v1: requests to extenders, and their responses.

Names of fields are written as Go writes a struct without tags (``NodeNames``); in responses their
case does not matter, as for Go's decoder. Objects are sent with the fields of the model
(model/pod.py, model/cluster_objects.py). A response that cannot be read is a ValueError.

Thousands of nodes are many megabytes. They are encoded and decoded in pieces, because other threads
wait while one piece is processed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw, Struct, field

from policy_sched.framework import NamedVictims, NodeVictims, Passed
from policy_sched.model import Int64, Node, Pod, PodInfo

T = TypeVar("T")
Body = bytes | bytearray


class _NodeList(Struct):
    items: list[Node]
    metadata: dict[str, str] = field(default_factory=dict)


class _ExtenderArgs(Struct, rename="pascal"):
    pod: Pod
    nodes: _NodeList | None
    node_names: list[str] | None


class _Victims(Struct, rename="pascal"):
    pods: list[Pod]
    num_violations: int = field(name="NumPDBViolations")


class _MetaPod(Struct):
    uid: str = field(name="UID")


class _MetaVictims(Struct, rename="pascal"):
    pods: list[_MetaPod]
    num_violations: int = field(name="NumPDBViolations")


class _PreemptionArgs(Struct, rename="pascal"):
    pod: Pod
    node_name_to_victims: dict[str, _Victims] | None
    node_name_to_meta_victims: dict[str, _MetaVictims] | None


class _BindingArgs(Struct, rename="pascal"):
    pod_name: str
    pod_namespace: str
    pod_uid: str = field(name="PodUID")
    node: str


class _Metadata(Struct):
    name: str = ""


class _NamedNode(Struct):
    metadata: _Metadata = field(default_factory=_Metadata)


class _NamedNodes(Struct):
    items: list[_NamedNode] | None = None


class _FilterResult(Struct, rename="pascal", forbid_unknown_fields=True):
    nodes: _NamedNodes | None = None
    node_names: list[str] | None = None
    failed: dict[str, str] | None = field(name="FailedNodes", default=None)
    unresolvable: dict[str, str] | None = field(name="FailedAndUnresolvableNodes", default=None)
    error: str | None = None


class _HostPriority(Struct, rename="pascal", forbid_unknown_fields=True):
    host: str
    score: Int64


TOGETHER: Final = 64
"""Number of nodes in one piece."""
_NO_ITEMS: Final = b'"items":[]'
_ENCODER: Final = msgspec.json.Encoder()
_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw] | None)
_FILTERED: Final = msgspec.json.Decoder(_FilterResult)
_PRIORITIES: Final = msgspec.json.Decoder(list[_HostPriority] | None)
_PRIORITIES_IN_ANY_CASE: Final = msgspec.json.Decoder(list[dict[str, Raw]])


def node_json(node: Node) -> bytes:
    """Return a node's JSON, which may be sent many times."""
    return _ENCODER.encode(node)


def named_nodes_args(pod: PodInfo, names: list[str]) -> bytes:
    """Return the arguments of filter and prioritize for extenders that are nodeCacheCapable."""
    return _ENCODER.encode(_ExtenderArgs(pod.pod, None, names))


def nodes_args(pod: PodInfo, nodes: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the arguments of filter and prioritize in pieces, with nodes' JSON."""
    text = _ENCODER.encode(_ExtenderArgs(pod.pod, _NodeList([]), None))
    end = text.rindex(_NO_ITEMS) + len(_NO_ITEMS) - 1
    yield text[:end]
    for first in range(0, len(nodes), TOGETHER):
        yield b"," * bool(first) + b",".join(nodes[first : first + TOGETHER])
    yield text[end:]


def preemption_args(pod: PodInfo, victims: Mapping[str, NodeVictims], *, names_only: bool) -> bytes:
    """Return the arguments of preempt: victims, or only their UIDs."""
    if names_only:
        named = {
            node: _MetaVictims([_MetaPod(p.uid) for p in evicted.pods], evicted.violations)
            for node, evicted in victims.items()
        }
        return _ENCODER.encode(_PreemptionArgs(pod.pod, None, named))
    whole = {
        node: _Victims([_on(p.pod, node) for p in evicted.pods], evicted.violations)
        for node, evicted in victims.items()
    }
    return _ENCODER.encode(_PreemptionArgs(pod.pod, whole, None))


def binding_args(pod: PodInfo, node: str) -> bytes:
    """Return the arguments of bind."""
    return _ENCODER.encode(_BindingArgs(pod.name, pod.namespace, pod.uid, node))


def filter_result(body: Body, *, by_name: bool) -> tuple[Passed, str]:
    """Return the result of an extender's filter, and its error.

    ``by_name``: the response may have names alone. Without names and nodes no node passes.
    """
    try:
        result = _FILTERED.decode(body)
    except msgspec.ValidationError:
        result = _filtered_in_any_case(body, by_name=by_name)
    names = result.node_names if by_name else None
    if names is None:
        nodes = result.nodes
        names = [node.metadata.name for node in (nodes and nodes.items) or ()]
    passed = Passed(frozenset(names), result.failed or {}, result.unresolvable or {})
    return passed, result.error or ""


def host_priorities(body: Body) -> list[tuple[str, int]]:
    """Return an extender's scores."""
    try:
        return [(entry.host, entry.score) for entry in _PRIORITIES.decode(body) or ()]
    except msgspec.ValidationError:
        return [_host_priority(entry) for entry in _PRIORITIES_IN_ANY_CASE.decode(body)]


def preemption_result(body: Body) -> dict[str, NamedVictims]:
    """Return the remaining victims, by node."""
    victims = _read(_fields(body), "NodeNameToMetaVictims", dict[str, Raw]) or {}
    return {node: _named_victims(_fields(raw)) for node, raw in victims.items()}


def binding_error(body: Body) -> str:
    """Return why an extender did not bind, empty if it did."""
    return _error(_fields(body))


def _on(pod: Pod, node: str) -> Pod:
    """Return the pod with its node, which is not set before the binding."""
    if pod.spec.node_name == node:
        return pod
    spec = msgspec.structs.replace(pod.spec, node_name=node)
    return msgspec.structs.replace(pod, spec=spec)


def _fields(body: Body | Raw) -> dict[str, Raw]:
    return {name.lower(): value for name, value in (_FIELDS.decode(body) or {}).items()}


def _read(fields: Mapping[str, Raw], name: str, kind: type[T]) -> T | None:
    raw = fields.get(name.lower())
    if raw is None:
        return None
    wanted: Any = kind | None  # msgspec accepts this type, but mypy does not
    decoded: T | None = msgspec.json.decode(raw, type=wanted)
    return decoded


def _error(fields: Mapping[str, Raw]) -> str:
    return _read(fields, "Error", str) or ""


def _filtered_in_any_case(body: Body, *, by_name: bool) -> _FilterResult:
    fields = _fields(body)
    names = _read(fields, "NodeNames", list[str]) if by_name else None
    return _FilterResult(
        node_names=names,
        nodes=_read(fields, "Nodes", _NamedNodes) if names is None else None,
        failed=_read(fields, "FailedNodes", dict[str, str]),
        unresolvable=_read(fields, "FailedAndUnresolvableNodes", dict[str, str]),
        error=_error(fields),
    )


def _host_priority(entry: Mapping[str, Raw]) -> tuple[str, int]:
    fields = {name.lower(): value for name, value in entry.items()}
    score: int = _read(fields, "Score", Int64) or 0
    return _read(fields, "Host", str) or "", score


def _named_victims(fields: Mapping[str, Raw]) -> NamedVictims:
    pods = [_fields(raw) for raw in _read(fields, "Pods", list[Raw]) or ()]
    uids = tuple(_read(pod, "UID", str) or "" for pod in pods)
    violations: int = _read(fields, "NumPDBViolations", Int64) or 0
    return NamedVictims(uids, violations)
