"""Aggregates of pods by key: sums, counts, extremes and sets, kept by events.

Theory of operation. An `Aggregate` has a function of a pod and of the row of its node, which
returns the key and the value that the pod counts with, or None where it does not count. It is
called once when the pod comes; what it returned is taken away again when the pod leaves, so an
event touches one key. Pods come from several sources: those on nodes (reserved ones too), those
nominated to a node, and those that wait in the queue. A pod that comes from several counts once, by
the first of them in the order of `SOURCES`.

Where an aggregate has a moment since when the pods of a key count, its pods are in order of the
time at which they began: a moment that moves touches the pods that it passes, either way.

With a half-life the value is amounts times hours, kept as a value and a moment: nothing ticks. It
is of the past, so neither the pod that is decided nor a dry run changes it.

Doubles are summed as fractions, and a greatest value is the top of a heap: what is kept does not
depend on the order of events, and equals what is worked out anew from all pods.

Results that are kept elsewhere follow the journal of the node table. A pod on a node is in it
already. For every other change the aggregate notes a row itself: that of the node where it has one
value for each node, otherwise any.
"""

from __future__ import annotations

import logging
import math
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from fractions import Fraction
from heapq import heapify, heappop, heappush, nsmallest
from typing import Any, Final, Protocol, TypeAlias
from weakref import WeakValueDictionary

import msgspec
import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.tables.dependencies import ANY, Watched
from policy_sched.cluster.tables.journal import DYNAMIC, Journal
from policy_sched.cluster.tables.schema import MAX_SUM
from policy_sched.model import PodInfo, QueuedPod, QueueState

BOUND: Final = "bound"
NOMINATED: Final = "nominated"
QUEUED: Final = "queued"
GATED: Final = "gated"
SOURCES: Final = (BOUND, NOMINATED, QUEUED, GATED)
"""Where pods come from. A pod that comes from several counts by the first of them."""
_SOURCE_OF: Final[Mapping[QueueState, str]] = {
    QueueState.ACTIVE: QUEUED,
    QueueState.BACKOFF: QUEUED,
    QueueState.UNSCHEDULABLE: QUEUED,
    QueueState.IN_FLIGHT: QUEUED,
    QueueState.GATED: GATED,
}
"""What a pod's place in the queue makes it; elsewhere it is on a node, or gone."""

LOG: Final = logging.getLogger(__name__)
MAX_KEYS: Final = 1_000_000
"""Keys of one aggregate; pods of further keys do not count."""
MAX_RESOURCES: Final = 16
"""Resources of one key that rules read; a warning says that there are more."""
_TOTAL: Final = object()
SWEEP_FROM: Final = 1024
"""Keys with a half-life before those are dropped of which all is forgotten."""
NOT_BEGUN: Final = (1 << 63) - 1
"""The time of a pod that its kubelet has not begun with."""
NEVER: Final = 1 << 63
"""The moment of a key for which the rule fails: no pod counts."""
ROOT: Final = "\0root"
"""Stands for the key where what a polled answer says beside its items is looked up."""

Change: TypeAlias = tuple[int, Any]
"""1 and a value that counts besides, or -1 and one that does not."""
OtherPod: TypeAlias = tuple[int, PodInfo, int]
"""1 or -1, a pod that counts besides or does not count, and the row of its node (-1: none)."""


class Contribution(msgspec.Struct, frozen=True, gc=False):
    """What a pod counts with."""

    key: Hashable
    value: Any


Keys: TypeAlias = tuple[Hashable, ...]
Lookup: TypeAlias = tuple[str, str | None]
"""The identity of an input, and a key of it; None: all of them; `ROOT`."""
_NO_FORM: Final = (None, None)
_NO_FORMS: Final[Mapping[str, Any]] = {}
Contribute: TypeAlias = Callable[[PodInfo, int], Contribution | None]
"""From a pod and the row of its node (-1: none) to what it counts with, None for nothing."""


class Since(msgspec.Struct, frozen=True):
    """Since when the pods of a key count: ``moment`` returns the time (ns), `NEVER` where it fails.

    It returns what it looked up in inputs, too. ``by_key``: the moment depends on the key.
    """

    moment: Callable[[Hashable], tuple[int, frozenset[Lookup]]]
    by_key: bool


class _Timeline:
    """The pods of one moment, by the time (ns) at which they began."""

    __slots__ = ("moment", "pods", "read")

    def __init__(self, moment: int, read: frozenset[Lookup]) -> None:
        self.moment = moment
        self.read = read
        self.pods: list[tuple[int, str]] = []
        """Times and UIDs, in order."""


class _Cell(Protocol):
    """The values of one key."""

    def change(self, sign: int, value: Any) -> None:
        """Add a value, or take it away."""

    def read(self, changes: Iterable[Change]) -> Any:
        """Return the aggregate of the values, with changes that are not kept."""


class _Sum:
    """A sum of ints; beyond `MAX_SUM` it stays there."""

    __slots__ = ("amount",)

    def __init__(self) -> None:
        self.amount: Any = 0

    def change(self, sign: int, value: Any) -> None:
        self.amount += sign * value

    def read(self, changes: Iterable[Change]) -> Any:
        amount = self.amount
        for sign, value in changes:
            amount += sign * value
        return min(max(amount, -MAX_SUM), MAX_SUM)


class _SumOfDoubles(_Sum):
    """A sum of doubles, rounded once."""

    __slots__ = ()

    def change(self, sign: int, value: Any) -> None:
        self.amount += sign * Fraction(value)

    def read(self, changes: Iterable[Change]) -> Any:
        amount = self.amount
        for sign, value in changes:
            amount += sign * Fraction(value)
        try:
            return float(amount)
        except OverflowError:
            return float("inf") if amount > 0 else float("-inf")


class _SumOfResources:
    """A sum of resources, by name; a name whose sum is 0 is left out.

    Of more than `MAX_RESOURCES` names those are read that come first: names of Kubernetes' own, and
    then others, in order.
    """

    __slots__ = ("_first", "amounts")

    def __init__(self) -> None:
        self.amounts: dict[str, int] = {}
        self._first: list[str] | None = None

    def change(self, sign: int, value: Mapping[str, int]) -> None:
        amounts = self.amounts
        for name, amount in value.items():
            total = amounts.get(name, 0) + sign * amount
            if bool(total) != (name in amounts):
                self._first = None
            if total:
                amounts[name] = total
            else:
                amounts.pop(name, None)

    def _names(self) -> list[str]:
        """Return the names that are read."""
        if self._first is None:
            self._first = nsmallest(
                MAX_RESOURCES, self.amounts, key=lambda name: ("/" in name, name)
            )
            LOG.warning(
                "an aggregate has %d resources for one key; %s and later ones are not read",
                len(self.amounts),
                min(self.amounts.keys() - {*self._first}),
            )
        return self._first

    def read(self, changes: Iterable[Change]) -> Any:
        amounts = self.amounts
        if len(amounts) > MAX_RESOURCES:
            amounts = {name: amounts[name] for name in self._names()}
            changes = [
                (sign, {name: value[name] for name in amounts if name in value})
                for sign, value in changes
            ]
        elif changes:
            amounts = dict(amounts)
        for sign, value in changes:
            for name, amount in value.items():
                amounts[name] = amounts.get(name, 0) + sign * amount
        return {name: min(amount, MAX_SUM) for name, amount in amounts.items() if amount}


class _Greatest:
    """The greatest of numbers; ``sign`` -1: the least."""

    __slots__ = ("_counts", "_heap", "_sign")

    def __init__(self, sign: int = 1) -> None:
        self._sign = sign
        self._counts: Counter[Any] = Counter()
        self._heap: list[Any] = []
        """Each value at least once, negated where the greatest is wanted; others are stale."""

    def change(self, sign: int, value: Any) -> None:
        counts = self._counts
        if sign > 0:
            if value not in counts:
                heappush(self._heap, -self._sign * value)
            counts[value] += 1
            return
        counts[value] -= 1
        if not counts[value]:
            del counts[value]
            if len(self._heap) > 2 * len(counts) + 16:
                self._heap = [-self._sign * number for number in counts]
                heapify(self._heap)

    def read(self, changes: Iterable[Change]) -> Any:
        heap, counts = self._heap, self._counts
        while heap and -self._sign * heap[0] not in counts:
            heappop(heap)
        apart: Counter[Any] = Counter()
        for sign, value in changes:
            apart[value] += sign
        if not apart:
            return -self._sign * heap[0] if heap else 0
        values = [value for value in {*counts, *apart} if counts[value] + apart[value] > 0]
        return self._sign * max((self._sign * value for value in values), default=0)


class _Union:
    """The texts that any of the pods has, in order."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def change(self, sign: int, value: Iterable[str]) -> None:
        counts = self._counts
        for text in dict.fromkeys(value):
            counts[text] += sign
            if not counts[text]:
                del counts[text]

    def read(self, changes: Iterable[Change]) -> Any:
        counts = self._counts
        for sign, value in changes:
            if counts is self._counts:
                counts = counts.copy()
            for text in dict.fromkeys(value):
                counts[text] += sign
        return sorted(text for text, count in counts.items() if count > 0)


HOUR: Final = 3600 * 10**9
NEGLIGIBLE: Final = 1e-6
"""Less than this, of amounts times hours, is nothing; such a key is dropped some time."""


class _Decaying:
    """Amounts times hours, of which half is forgotten in each ``half_life`` (ns)."""

    __slots__ = ("_half_life", "_moment", "_resources", "_spent", "_sum")

    def __init__(self, make: Callable[[], _Cell], half_life: int, now: int) -> None:
        self._sum = make()
        self._resources = isinstance(self._sum, _SumOfResources)
        self._half_life = half_life
        self._moment = now
        self._spent: dict[str, float] = {}
        """By resource, or of "", at the moment."""

    def _gained(self, amount: float, duration: int) -> float:
        """Return what is left of an amount for a duration (ns), at its end."""
        return amount * self._half_life / HOUR * -math.expm1(self._exponent(duration)) / _LN2

    def _exponent(self, duration: int) -> float:
        return -duration / self._half_life * _LN2

    def _at(self, now: int) -> dict[str, float]:
        """Return what is spent at a time; what is negligible is left out."""
        duration = max(0, now - self._moment)
        kept = math.exp(self._exponent(duration))
        spent = {name: amount * kept for name, amount in self._spent.items()}
        for name, amount in self._by_name(self._sum.read(())).items():
            spent[name] = spent.get(name, 0.0) + self._gained(amount, duration)
        return {name: amount for name, amount in spent.items() if abs(amount) >= NEGLIGIBLE}

    def _by_name(self, value: Any) -> Mapping[str, Any]:
        return value if self._resources else {"": value}

    def change(self, sign: int, value: Any, now: int, began: int) -> None:
        """Add what counts from now on (1), or did until now (-1); ``began``: now, or before."""
        spent = self._at(now)
        for name, amount in self._by_name(value).items() if began < now else ():
            spent[name] = spent.get(name, 0.0) + self._gained(amount, now - began)
        self._spent, self._moment = spent, max(now, self._moment)
        self._sum.change(sign, value)

    def read(self, now: int) -> Any:
        """Return the value at a time (ns)."""
        spent = self._at(now)
        if not self._resources:
            return spent.get("", 0.0)
        whole = {name: round(min(amount, MAX_SUM)) for name, amount in spent.items()}
        return {name: amount for name, amount in whole.items() if amount}

    def negligible(self, now: int) -> bool:
        """Whether nothing is left."""
        return not self._at(now)


_LN2: Final = math.log(2)

CELLS: Final[Mapping[str, Callable[[], _Cell]]] = {
    "sum": _Sum,
    "sumOfDoubles": _SumOfDoubles,
    "sumOfResources": _SumOfResources,
    "max": _Greatest,
    "min": lambda: _Greatest(-1),
    "union": _Union,
}
"""By kind, what has the values of one key."""
_DTYPES: Final = {
    "sum": np.int64,
    "sumOfDoubles": np.float64,
    "max": np.int64,
    "min": np.int64,
}


class Aggregate(Watched):
    """One aggregate over the pods of some sources; ``by_node``: its key is the node's name.

    ``reads_nodes``: what a pod counts with depends on its node; ``reads_queue``: on its time in the
    queue; ``reads_namespaces``: on labels of its namespace; ``inputs``: on objects of inputs of
    these identities; ``roots``: on what a polled answer of these says beside its items. ``since``:
    since when the pods of a key count. ``half_life`` (ns): see `then`.
    """

    begins = False
    """Whether the pods that come are those that were there before it."""
    _sweep_at = SWEEP_FROM

    def __init__(  # noqa: PLR0913  # what it counts, of which pods, and what that depends on
        self,
        kind: str,
        sources: frozenset[str],
        contribute: Contribute,
        *,
        by_node: bool = False,
        reads_nodes: bool = False,
        reads_queue: bool = False,
        reads_namespaces: bool = False,
        inputs: frozenset[str] = frozenset(),
        roots: frozenset[str] = frozenset(),
        since: Since | None = None,
        half_life: int = 0,
    ) -> None:
        super().__init__()
        self.half_life = half_life
        self.now: Callable[[], int] = lambda: 0
        """Returns the time (ns), where there is a half-life; `Aggregates` sets it."""
        self._decaying: dict[Any, _Decaying] = {}
        """By key, what is spent, where there is a half-life; also of keys without pods."""
        self.sources = sources
        self.since = since
        self.by_node = by_node
        self.reads_nodes = reads_nodes
        self.reads_queue = reads_queue
        self.reads_namespaces = reads_namespaces
        self.inputs = inputs
        self.roots = roots
        self.lookups: set[Lookup] | None = None
        """Where ``contribute`` notes what it looks up in inputs, so that after a change of an
        object those pods are counted anew that read it. None: all pods are."""
        self._readers: dict[Lookup, dict[tuple[str, str], tuple[PodInfo, int]]] = {}
        self._read: dict[tuple[str, str], tuple[Lookup, ...]] = {}
        self._timelines: dict[Any, _Timeline] = {}
        """By key, or of all keys together where the moment is the same for all."""
        self._times: dict[str, tuple[Any, int]] = {}
        """By UID of a pod, its timeline and its time."""
        self._moments_reading: dict[Lookup, dict[Any, None]] = {}
        """The timelines whose moment looks something up."""
        self.concerned: Callable[[str], bool] | None = None
        """Whether pods count otherwise after the change of a key of an input; None: always."""
        self.contribute = contribute
        self.counted: dict[str, Contribution] = {}
        """What each pod counts with, by UID; to be read only."""
        self.version = 0
        """How many changes there were."""
        self.by_row: NDArray[Any] | None = None
        """Of numbers by the node's name: the value of each row; to be read only."""
        if by_node and kind in _DTYPES and not half_life:
            self.by_row = np.zeros(0, _DTYPES[kind])
        self._row_of: Mapping[str, int] = {}
        self._from: dict[str, dict[str, tuple[PodInfo, Contribution]]] = {}
        """By UID the forms of a pod, by source, and what each would count with."""
        self._make = CELLS[kind]
        self._cells: dict[Any, list[Any]] = {}
        """By key, how many pods count, and the cell of their values."""
        self._open: dict[tuple[Hashable, ...], dict[str, None]] | None = None
        """By the first parts of keys, the last ones that have a cell; None before it is read."""

    def start(self, row_of: Mapping[str, int], n: int) -> None:
        """Forget all pods; ``row_of`` are the rows of nodes, below ``n``."""
        if self.half_life:  # what was spent stays
            for own in self.counted.values():
                self._spend(own, None, 0)
        self.counted.clear()
        self._from.clear()
        self._cells.clear()
        self._open = None
        self._readers.clear()
        self._read.clear()
        self._timelines.clear()
        self._times.clear()
        self._moments_reading.clear()
        self.version += 1
        self.changed(ANY)
        self._row_of = row_of
        if self.by_row is not None:
            self.by_row = np.zeros(n, self.by_row.dtype)

    def come(self, source: str, pod: PodInfo, row: int) -> Keys:
        """A pod came from a source, or has another form there; return whose values changed."""
        if self.lookups is not None:
            self.lookups.clear()
        own = self.contribute(pod, row)
        if self.lookups is not None:
            self._note_lookups(source, pod, row)
        if own is None:
            return self._drop(source, pod.uid)
        uid = pod.uid
        # For speed: nearly each pod comes once, from one source.
        timeless = self.since is None and not self.half_life
        if uid not in self._from and timeless and len(self._cells) <= MAX_KEYS:
            self._from[uid] = {source: (pod, own)}
            self.counted[uid] = own
            self._count(own, 1)
            return (own.key,)
        self._from.setdefault(uid, {})[source] = pod, own
        return self._settle(uid)

    def leave(self, source: str, uid: str) -> Keys:
        """A pod left a source; return whose values changed."""
        self._forget_lookups(source, uid)
        return self._drop(source, uid)

    def _note_lookups(self, source: str, pod: PodInfo, row: int) -> None:
        self._forget_lookups(source, pod.uid)
        self._read[source, pod.uid] = read = tuple(self.lookups or ())
        for lookup in read:
            self._readers.setdefault(lookup, {})[source, pod.uid] = pod, row

    def _forget_lookups(self, source: str, uid: str) -> None:
        for lookup in self._read.pop((source, uid), ()):
            readers = self._readers[lookup]
            del readers[source, uid]
            if not readers:
                del self._readers[lookup]

    def pods_reading(self, identity: str, key: str) -> list[tuple[str, PodInfo, int]]:
        """Return the pods, with source and row, for which a key of an input was looked up."""
        pods = {
            **self._readers.get((identity, key), {}),
            **self._readers.get((identity, None), {}),
        }
        return [(source, pod, row) for (source, _), (pod, row) in pods.items()]

    def _drop(self, source: str, uid: str) -> Keys:
        forms = self._from.get(uid)
        if forms is None or forms.pop(source, None) is None:
            return ()
        if not forms:
            del self._from[uid]
        return self._settle(uid)

    def form(self, source: str, uid: str) -> PodInfo | None:
        """Return a pod as it came from a source; None if it does not count there."""
        return self._from.get(uid, _NO_FORMS).get(source, _NO_FORM)[0]

    def _settle(self, uid: str) -> Keys:
        """Let a pod count by the first of its sources; return whose values changed."""
        forms, before = self._from.get(uid, _NO_FORMS), self.counted.get(uid)
        pod: PodInfo | None = None
        own: Contribution | None = None
        for source in SOURCES:
            if source in forms:
                pod, own = forms[source]
                break
        if own is not None and own.key not in self._cells and len(self._cells) > MAX_KEYS:
            own = None
        if self.since is not None and not self._began_since(uid, pod, own):
            own = None
        if own == before:
            return ()
        if before is not None:
            del self.counted[uid]
            self._count(before, -1)
        if own is not None:
            self.counted[uid] = own
            self._count(own, 1)
        if self.half_life:
            began = pod.start_time if pod is not None and self.begins else 0
            self._spend(before, own, began)
        if before is None or own is None:
            settled = before or own
            return () if settled is None else (settled.key,)
        return before.key, own.key

    def _began_since(self, uid: str, pod: PodInfo | None, own: Contribution | None) -> bool:
        """Put a pod in order of time; return whether it began since the moment of its key."""
        before, at = self._times.get(uid), None
        if own is not None and pod is not None and len(self._timelines) <= MAX_KEYS:
            at = self._timeline_of(own.key), pod.start_time or NOT_BEGUN
        if before != at and before is not None:
            name, time = before
            pods = self._timelines[name].pods
            del pods[bisect_left(pods, (time, uid))], self._times[uid]
            if not pods:
                self._end_timeline(name)
        if at is None:
            return False
        name, time = at
        timeline = self._timelines.get(name)
        if timeline is None:
            timeline = self._begin_timeline(name)
        if before != at:
            insort(timeline.pods, (time, uid))
            self._times[uid] = at
        return time >= timeline.moment

    def _timeline_of(self, key: Hashable) -> Any:
        assert self.since is not None, "its pods are in order of time"
        return key if self.since.by_key else _TOTAL

    def _begin_timeline(self, name: Any) -> _Timeline:
        assert self.since is not None, "its pods are in order of time"
        timeline = self._timelines[name] = _Timeline(*self.since.moment(name))
        for lookup in timeline.read:
            self._moments_reading.setdefault(lookup, {})[name] = None
        return timeline

    def _end_timeline(self, name: Any) -> _Timeline:
        timeline = self._timelines.pop(name)
        for lookup in timeline.read:
            readers = self._moments_reading[lookup]
            del readers[name]
            if not readers:
                del self._moments_reading[lookup]
        return timeline

    def moments_changed(self, identity: str, key: str) -> Keys:
        """Let moments follow a key of an input; return whose values changed.

        The pods between the moment before and the one that holds now are touched, and no others.
        """
        names = {
            **self._moments_reading.get((identity, key), {}),
            **self._moments_reading.get((identity, None), {}),
        }
        keys: list[Hashable] = []
        for name in names:
            before = self._end_timeline(name)
            now = self._begin_timeline(name)
            now.pods = pods = before.pods
            passed = sorted(bisect_left(pods, (at, "")) for at in (before.moment, now.moment))
            for _, uid in pods[slice(*passed)]:
                keys.extend(self._settle(uid))
        return tuple(dict.fromkeys(keys))

    def _counts_besides(self, pod: PodInfo, row: int) -> Contribution | None:
        """Return what a pod that is not counted would count with on a node."""
        own = self.contribute(pod, row)
        if own is None or self.since is None:
            return own
        name = self._timeline_of(own.key)
        timeline = self._timelines.get(name)
        moment = self.since.moment(name)[0] if timeline is None else timeline.moment
        return own if (pod.start_time or NOT_BEGUN) >= moment else None

    def _count(self, own: Contribution, sign: int) -> None:
        self.version += 1
        if self.readers:
            self.changed(own.key)
        for key in (own.key, _TOTAL):
            cell = self._cells.get(key)
            if cell is None:
                cell = self._cells[key] = [0, self._make()]
                if self._open is not None and key is not _TOTAL:
                    self._note_part(key, 1)
            cell[0] += sign
            cell[1].change(sign, own.value)
            if not cell[0]:
                del self._cells[key]
                if self._open is not None and key is not _TOTAL:
                    self._note_part(key, -1)
        if self.by_row is not None:
            self.show(str(own.key))

    def _note_part(self, key: Any, sign: int) -> None:
        """Note the last part of a key that has a cell now (1), or none any more (-1)."""
        assert self._open is not None, "it is read"
        if sign > 0:
            self._open.setdefault(key[:-1], {})[key[-1]] = None
            return
        parts = self._open[key[:-1]]
        del parts[key[-1]]
        if not parts:
            del self._open[key[:-1]]

    def show(self, name: str) -> None:
        """Write the value of a node's name to its row, if it has one."""
        row, values = self._row_of.get(name, -1), self.by_row
        if values is None or row < 0:
            return
        if row >= values.size:
            values = self.make_room(row + 1)
        values[row] = self.value(name)

    def make_room(self, n: int) -> NDArray[Any]:
        """Return the values by row, of at least ``n`` rows."""
        values = self.by_row
        assert values is not None, "it has numbers by node"
        if n > values.size:
            more = np.zeros(max(n - values.size, values.size), values.dtype)
            self.by_row = values = np.concatenate([values, more])
        return values

    def _spend(self, before: Contribution | None, own: Contribution | None, began: int) -> None:
        """Let a pod's amounts run, from when it began, or end."""
        now = self.now()
        for sign, part in ((-1, before), (1, own)):
            for key in () if part is None else (part.key, _TOTAL):
                assert part is not None
                cell = self._decaying.get(key)
                if cell is None:
                    if len(self._decaying) >= self._sweep_at:
                        self._sweep(now)
                    cell = self._decaying[key] = _Decaying(self._make, self.half_life, now)
                cell.change(sign, part.value, now, (began or now) if sign > 0 else now)

    def _sweep(self, now: int) -> None:
        """Drop keys that no pod has, and of which all is forgotten, or of many the least."""
        idle = [key for key in self._decaying if key is not _TOTAL and key not in self._cells]
        for key in idle:
            if self._decaying[key].negligible(now) or len(self._decaying) > MAX_KEYS:
                del self._decaying[key]
        self._sweep_at = max(SWEEP_FROM, 2 * len(self._decaying))

    def then(self, key: Any, now: int) -> Any:
        """Return amounts times hours of a key at a time (ns); half is forgotten in a half-life.

        A pod's amounts run from when it comes; those of pods that were there before the aggregate,
        from their start.
        """
        cell = self._decaying.get(key)
        return (_Decaying(self._make, self.half_life, now) if cell is None else cell).read(now)

    def total_then(self, now: int) -> Any:
        """Return the value of all keys together; otherwise as `then`."""
        return self.then(_TOTAL, now)

    def value(self, key: Any, apart: PodInfo | None = None, others: Iterable[OtherPod] = ()) -> Any:
        """Return the value of a key; without the pod ``apart``, and with changes of other pods."""
        changes: list[Change] = []
        if others or apart is not None:  # for a column there is nothing to look for
            changes = [
                (sign, own.value)
                for sign, own in self._changes(apart, others)
                if key is _TOTAL or own.key == key
            ]
        cell = self._cells.get(key)
        return (self._make() if cell is None else cell[1]).read(changes)

    def _changes(
        self, apart: PodInfo | None, others: Iterable[OtherPod]
    ) -> list[tuple[int, Contribution]]:
        """Return what does not count (-1), or counts besides (1), without ``apart``."""
        uid = "" if apart is None else apart.uid
        own = self.counted.get(uid)
        changes = [] if own is None else [(-1, own)]
        for sign, pod, row in others:
            if pod.uid == uid:
                continue
            there = self.counted.get(pod.uid)
            if sign > 0:  # as if it were on the node
                counts = BOUND in self.sources and there is None
                there = self._counts_besides(pod, row) if counts else None
            if there is not None:
                changes.append((sign, there))
        return changes

    def values(
        self,
        first: tuple[str, ...],
        apart: PodInfo | None = None,
        others: Iterable[OtherPod] = (),
    ) -> dict[str, Any]:
        """Return the values of keys that begin so, by their last part; otherwise as `value`.

        The parts are in order, and only those for which a pod counts.
        """
        if self._open is None:
            self._open = {}
            for *begin, last in self.all_keys():
                self._open.setdefault(tuple(begin), {})[last] = None
        by_key: dict[Any, list[tuple[int, Any]]] = {}
        for sign, own in self._changes(apart, others):
            by_key.setdefault(own.key, []).append((sign, own.value))
        parts = {*self._open.get(first, ()), *(key[-1] for key in by_key if key[:-1] == first)}
        values = {}
        for part in sorted(parts):
            changes = by_key.get((*first, part), ())
            count, cell = self._cells.get((*first, part), (0, None))
            if count + sum(sign for sign, _ in changes) > 0:
                values[part] = (cell or self._make()).read(changes)
        return values

    def total(self, apart: PodInfo | None = None, others: Iterable[OtherPod] = ()) -> Any:
        """Return the value of all keys together; otherwise as `value`."""
        return self.value(_TOTAL, apart, others)

    def all_keys(self) -> list[Any]:
        """Return the keys for which a pod counts, in the order in which they came."""
        return [key for key in self._cells if key is not _TOTAL]


Pods: TypeAlias = Callable[[], Iterable[tuple[PodInfo, str]]]
"""Returns the pods of a source, each with the name of its node, "" where it has none."""


class Nodes(Protocol):
    """What aggregates read of the node table."""

    journal: Journal
    row_of: dict[str, int]
    pods_without_node: dict[str, dict[str, PodInfo]]
    pods_on: Callable[[int], Mapping[str, PodInfo]]

    @property
    def n(self) -> int:
        """Number of rows."""


class Aggregates(Watched):
    """The aggregates that are in use over one node table; it is told of each pod.

    An aggregate is in use as long as something refers to it: after a reload of policies those of
    the old ones go with them, and those of new ones begin with the pods that are there.
    """

    def __init__(self, table: Nodes) -> None:
        super().__init__()
        self._table = table
        self._by_name: WeakValueDictionary[str, Aggregate] = WeakValueDictionary()
        self._pods: dict[str, Pods] = {}
        self._connect: dict[str, Callable[[], None]] = {}
        self.waiting: Mapping[str, QueuedPod] = {}
        """The pods of the queue by UID; to be read only."""
        self.now: Callable[[], int] = lambda: 0
        """Returns the time in ns; 0 until the scheduler gives its clock."""
        self.used: list[Any] = []
        """References to those that exist; empty where nothing needs to be told."""

    def __getitem__(self, name: str) -> Aggregate:
        return self._by_name[name]

    def get(self, name: str) -> Aggregate | None:
        """Return an aggregate that is in use, None if there is none of that name."""
        return self._by_name.get(name)

    def join(self, source: str, pods: Pods, connect: Callable[[], None]) -> None:
        """Take pods from a source other than the nodes.

        ``pods`` are those that are there. ``connect`` lets the source tell of changes from now on:
        it is called when the first aggregate counts such pods, so that others cost no call.
        """
        self._pods[source] = pods
        self._connect[source] = connect
        for aggregate in self._live():
            if source in aggregate.sources:
                self._use(aggregate)
                self._start(aggregate)

    def join_queue(self, waiting: Mapping[str, QueuedPod], connect: Callable[[], None]) -> None:
        """Take the pods of the queue; otherwise as `join`."""
        self.waiting = waiting

        def pods(source: str) -> Pods:
            return lambda: [
                (queued.info, "")
                for queued in self.waiting.values()
                if _SOURCE_OF.get(queued.place) == source
            ]

        for source in (QUEUED, GATED):
            self.join(source, pods(source), connect)

    def add(self, name: str, aggregate: Aggregate) -> None:
        """Count the pods that are there, and tell the aggregate of changes from now on."""
        self._by_name[name] = aggregate
        aggregate.now = self.now
        self.used = self._by_name.valuerefs()
        self._use(aggregate)
        aggregate.begins = True
        self._start(aggregate)
        aggregate.begins = False

    def _use(self, aggregate: Aggregate) -> None:
        """Let the sources of an aggregate tell of changes."""
        for source in sorted(aggregate.sources & self._connect.keys()):
            self._connect.pop(source)()

    def _start(self, aggregate: Aggregate) -> None:
        table = self._table
        aggregate.start(table.row_of, table.n)
        if BOUND in aggregate.sources:
            for row in table.row_of.values():
                for pod in table.pods_on(row).values():
                    aggregate.come(BOUND, pod, row)
            for pods in table.pods_without_node.values():
                for pod in pods.values():
                    aggregate.come(BOUND, pod, -1)
        for source in sorted(aggregate.sources & self._pods.keys()):
            for pod, node in self._pods[source]():
                aggregate.come(source, pod, table.row_of.get(node, -1))

    def _live(self) -> list[Aggregate]:
        live = [aggregate for reference in self.used if (aggregate := reference()) is not None]
        if len(live) < len(self.used):
            self.used = self._by_name.valuerefs()
        return live

    def come(self, source: str, pod: PodInfo, row: int) -> None:
        """A pod came from a source; ``row``: of its node, -1 where that is not known."""
        noted = source == BOUND and row >= 0
        for reference in self.used:  # for speed: not by `_live`, once for each decision
            aggregate = reference()
            if aggregate is not None and source in aggregate.sources:
                keys = aggregate.come(source, pod, row)
                if keys and (aggregate.by_node or not noted):
                    self._changed(aggregate, source, row, keys)

    def leave(self, source: str, pod: PodInfo, row: int) -> None:
        """A pod left a source."""
        for aggregate in self._live():
            if source in aggregate.sources:
                self._changed(aggregate, source, row, aggregate.leave(source, pod.uid))

    def change(self, pod: PodInfo, row: int) -> None:
        """A pod on a node has another form now."""
        self.come(BOUND, pod, row)

    def nominated(self, pod: PodInfo, node: str, comes: bool) -> None:
        """A pod was nominated to a node, or is no longer."""
        tell = self.come if comes else self.leave
        tell(NOMINATED, pod, self._table.row_of.get(node, -1))

    def queued(self, queued: QueuedPod) -> None:
        """A pod of the queue has another place, another form, or another time there."""
        pod, source = queued.info, _SOURCE_OF.get(queued.place)
        for aggregate in self._live():
            if source in aggregate.sources and (
                aggregate.reads_queue or aggregate.form(source, pod.uid) is not pod
            ):
                self._changed(aggregate, source, -1, aggregate.come(source, pod, -1))
            for other in (QUEUED, GATED):
                if other != source and other in aggregate.sources:
                    self._changed(aggregate, other, -1, aggregate.leave(other, pod.uid))

    def _changed(self, aggregate: Aggregate, source: str, row: int, keys: Keys) -> None:
        """Note the rows whose results may differ, where the journal does not have them yet."""
        if not keys:
            return
        there, row_of = row if source == BOUND else -1, self._table.row_of
        if aggregate.by_node:
            rows = {row_of.get(str(key), -1) for key in keys}
        else:
            rows = {there if there >= 0 else next(iter(row_of.values()), -1)}
        for changed in sorted(rows - {there, -1}):
            self._table.journal.append(changed, DYNAMIC)

    def node_changed(self, name: str) -> None:
        """A node came, went, or has another form: its pods may count otherwise."""
        table = self._table
        row = table.row_of.get(name, -1)
        on_row = table.pods_without_node.get(name, {}) if row < 0 else table.pods_on(row)
        for aggregate in self._live():
            if not aggregate.reads_nodes:
                continue
            if BOUND in aggregate.sources:
                for pod in on_row.values():
                    aggregate.come(BOUND, pod, row)
            if NOMINATED in aggregate.sources:
                for pod, node in self._pods[NOMINATED]():
                    if node == name:
                        aggregate.come(NOMINATED, pod, row)
            aggregate.show(name)

    def namespaces_changed(self) -> None:
        """Labels of a namespace changed: its pods may count otherwise."""
        self.changed(ANY)
        for aggregate in self._live():
            if aggregate.reads_namespaces:
                self._start(aggregate)

    def input_changed(self, identity: str, key: str) -> None:
        """The object of a key of an input changed, or `ROOT`: pods may count otherwise."""
        for aggregate in self._live():
            concerned = aggregate.concerned
            if aggregate.since is not None:
                keys = aggregate.moments_changed(identity, key)
                self._changed(aggregate, "", -1, keys)
            if identity not in (aggregate.roots if key == ROOT else aggregate.inputs):
                continue
            if aggregate.lookups is not None:
                for source, pod, row in aggregate.pods_reading(identity, key):
                    self._changed(aggregate, source, -1, aggregate.come(source, pod, row))
            elif concerned is None or concerned(key):
                self._restart(aggregate)

    def _restart(self, aggregate: Aggregate) -> None:
        """Count all pods anew, and note that results may differ."""
        self._start(aggregate)
        self._table.journal.changed_everything()
