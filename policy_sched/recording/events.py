"""The events of a recording, in the order in which they came; times are ns since 1970."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec

from policy_sched.model import ApiObject

REJECTED: Final = "Unschedulable"
FAILED: Final = "SchedulerError"
"""Reasons of decisions that found no node: it was rejected by each, or there was an error."""


class Added(msgspec.Struct, frozen=True, gc=False):
    """An object came, or was there when the recording began."""

    time: int
    object: ApiObject


class Modified(msgspec.Struct, frozen=True, gc=False):
    """An object changed; ``object`` is what it is now."""

    time: int
    object: ApiObject


class Deleted(msgspec.Struct, frozen=True, gc=False):
    """An object was deleted, or a pod ended; ``object`` is what it was at last.

    A pod whose end was seen has the phase Succeeded or Failed.
    """

    time: int
    object: ApiObject


class Decided(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A scheduler decided about a pod; what is absent is empty.

    ``node``: the pod was bound to it. ``nominated_node``: it waits for room there, and ``victims``
    (namespaces and names) have to leave. ``reason`` and ``message``: why it found no node, as in
    its condition PodScheduled. ``evicted``: the pod itself was evicted, for this reason.
    ``policies``: the hash of those that decided, "" for another scheduler's.
    """

    time: int
    pod: str
    """Namespace and name, with a slash."""
    uid: str = ""
    scheduler: str = ""
    policies: str = ""
    node: str = ""
    nominated_node: str = ""
    reason: str = ""
    message: str = ""
    victims: tuple[str, ...] = ()
    evicted: bool = False


class PolicyChanged(msgspec.Struct, frozen=True, gc=False):
    """Policies came into force; `Recording.policies` has their texts by this hash."""

    time: int
    hash: str


Event: TypeAlias = Added | Modified | Deleted | Decided | PolicyChanged


class RecordedPolicies(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """Policies that were in force, complete: a replay needs no other file.

    ``config``: the name of the configuration among the ``files``, "" for none. ``files``: texts by
    name, a relative path. ``policies``: the names among them that are given as policies, files or
    directories. Written to one place, they are what `PolicyFiles` takes.
    """

    hash: str
    config: str = ""
    policies: tuple[str, ...] = ()
    files: Mapping[str, str] = msgspec.field(default_factory=dict)
    feature_gates: Mapping[str, bool] = msgspec.field(default_factory=dict)
    max_cost_limit: int = 0
    """0: as it is without the option."""
