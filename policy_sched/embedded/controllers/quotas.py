"""Resource quotas: what is used of what they allow, written into their status. Nothing is refused.

(The resourcequota controller; kube-apiserver's admission, which enforces them, is not here.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

import msgspec

from policy_sched.client.apimachinery import CLAIM, POD, QUOTA, SECOND, Stored, resource
from policy_sched.embedded.controllers.controller_refs import pod_of
from policy_sched.embedded.controllers.workqueue import Controller
from policy_sched.embedded.controllers.writing import report
from policy_sched.embedded.store import DELETED, ENDED, Change, Key, ObjectStore
from policy_sched.model import (
    KINDS,
    SKIPPED_KINDS,
    Amount,
    ApiValue,
    Format,
    Kind,
    PersistentVolumeClaim,
    Pod,
    Quantity,
    limits,
    nanos,
    qos_class,
    requests,
)

PAUSE: Final = SECOND
"""How long a quota that was just counted waits until it is counted again."""
_OBJECTS: Final[dict[str, Kind]] = {
    "configmaps": ("v1", "ConfigMap"), "persistentvolumeclaims": CLAIM, "pods": POD,
    "replicationcontrollers": ("v1", "ReplicationController"), "resourcequotas": QUOTA,
    "secrets": ("v1", "Secret"), "services": ("v1", "Service"),
}  # fmt: skip
_COUNT: Final = "count/"
_BYTES: Final = ("memory", "storage", "hugepages-")
"""Parts of the names of resources that are bytes, which are written in Ki, Mi, Gi."""
_MILLI: Final = 10**6
_WHOLE: Final = 10**9


def _counted() -> dict[str, Kind]:
    """Return the kinds that a quota can count, by the names of their resources."""
    found = {}
    for key in sorted({*KINDS, *SKIPPED_KINDS}):
        one = resource(key)
        if one.namespaced and one.kind not in ("Event", "Binding"):
            found[one.qualified] = key
    return found | _OBJECTS


_COUNTED: Final = _counted()


class _Scope(ApiValue, frozen=True):
    scope_name: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = ()


class _Scopes(ApiValue, frozen=True):
    match_expressions: tuple[_Scope, ...] | None = ()


class _Spec(ApiValue, frozen=True):
    """What a quota limits, and of which pods."""

    hard: dict[str, Amount] | None = None
    scopes: tuple[str, ...] | None = ()
    scope_selector: _Scopes | None = None


class ResourceQuotaController(Controller):
    """Counts what is used in the namespaces that have quotas."""

    kinds = frozenset(_COUNTED.values())
    name = "resourcequota"

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self._known: dict[str, dict[str, None]] = {}
        self._counted_at: dict[Key, int] = {}

    def observe(self, change: Change) -> None:
        """Take note of a quota, or of something in a namespace that has one."""
        new = change.new
        if new.resource.key == QUOTA:
            self._quota(change)
        for name in self._known.get(new.namespace, ()):
            key = Key(QUOTA, new.namespace, name)
            last = self._counted_at.get(key)
            if last is None:
                self._queue.add(key)
            else:
                self._queue.add_at(key, max(last + PAUSE, self._store.now()))

    def _quota(self, change: Change) -> None:
        """Take note of a quota that came, has another specification, or went."""
        new = change.new
        names = self._known.setdefault(new.namespace, {})
        if change.type == DELETED:
            names.pop(new.name, None)
            if not names:
                del self._known[new.namespace]
        elif change.old is None or change.old.data.get("spec") != new.data.get("spec"):
            names[new.name] = None
        else:
            return
        self._counted_at.pop(Key(QUOTA, *new.place), None)

    def sync(self, key: Key) -> bool:
        """Count what is used of a quota."""
        stored = self._store.find(key.kind, key.namespace, key.name)
        if stored is None or stored.deleting:
            return False
        self._counted_at[key] = self._store.now()
        return self._count(stored)

    def _count(self, quota: Stored) -> bool:
        try:
            spec = msgspec.convert(quota.data.get("spec") or {}, _Spec)
        except msgspec.ValidationError:
            return False  # it is none that could be counted
        hard = spec.hard or {}
        found = self._store.select(POD, quota.namespace)
        inside = [pod_of(one) for one in found if _alive(one) and _in_scopes(one, spec)]
        scoped = bool(spec.scopes or spec.scope_selector)
        used = {name: self._used(quota, name, inside, scoped=scoped) for name in hard}
        return report(self._store, quota, {"hard": hard, "used": used})

    def _used(self, quota: Stored, name: str, pods: Iterable[Pod], *, scoped: bool) -> str:
        """Return how much is used of one thing that a quota limits."""
        if name == "pods":
            return str(sum(1 for _ in pods))
        kind = _COUNTED.get(name.removeprefix(_COUNT)) if _counts_objects(name) else None
        if kind is not None:
            return "0" if scoped else str(len(self._store.select(kind, quota.namespace)))
        if name == "requests.storage":
            return _text(name, sum(map(_storage, self._store.select(CLAIM, quota.namespace))))
        return _text(name, _sums(pods, name))


def _alive(pod: Stored) -> bool:
    return pod_of(pod).status.phase not in ENDED


def _counts_objects(name: str) -> bool:
    return name.startswith(_COUNT) or name in _OBJECTS


def _sums(pods: Iterable[Pod], name: str) -> int:
    """Return what pods ask for of a resource, or their limits, in nano-units."""
    total: Counter[str] = Counter()
    bare = name.removeprefix("requests.").removeprefix("limits.")
    for pod in pods:
        amounts = limits(pod) if name.startswith("limits.") else requests(pod)
        total[bare] += amounts.get(bare, 0)
    return total[bare] * (_MILLI if bare == "cpu" else _WHOLE)


def _storage(claim: Stored) -> int:
    typed = claim.typed
    assert isinstance(typed, PersistentVolumeClaim)
    return nanos(typed.spec.resources.requests.get("storage", 0))


def _text(name: str, amount: int) -> str:
    binary = any(part in name for part in _BYTES)
    return str(Quantity(amount, Format.BINARY_SI if binary else Format.DECIMAL_SI))


def _in_scopes(pod: Stored, spec: _Spec) -> bool:
    """Tell whether a pod counts for a quota with scopes."""
    selector = spec.scope_selector or _Scopes()
    wanted = [*(_Scope(name, "Exists") for name in spec.scopes or ())]
    return all(_in_scope(pod, one) for one in (*wanted, *(selector.match_expressions or ())))


def _in_scope(pod: Stored, wanted: _Scope) -> bool:
    ends = pod.data["spec"].get("activeDeadlineSeconds") is not None
    best = qos_class(pod_of(pod)) == "BestEffort"
    match wanted.scope_name:
        case "Terminating":
            return ends
        case "NotTerminating":
            return not ends
        case "BestEffort":
            return best
        case "NotBestEffort":
            return not best
        case "PriorityClass":
            return _has_class(pod_of(pod).spec.priority_class_name, wanted)
    return False


def _has_class(name: str, wanted: _Scope) -> bool:
    values = wanted.values or ()
    match wanted.operator:
        case "In":
            return name in values
        case "NotIn":
            return name not in values
        case "DoesNotExist":
            return not name
    return bool(name)
