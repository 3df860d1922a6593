"""The node table for generated functions: rows, pods, domains, resource fit, node affinity."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import starmap
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from policy_sched import model
from policy_sched.cluster import tables
from policy_sched.language.runtime.incremental import Amount, Condition, IncrementalCounts
from policy_sched.language.values import DeviceFacts, NodeFacts, object_of, types

#: The rows of a vector function: all of them as a slice, or row numbers.
RowSet = slice | npt.NDArray[np.intp]
Function = Callable[..., Any]
#: A function of all distinct values at once: a list with the result for each.
OfEach = Callable[[list[Any]], list[Any]]

_DTYPES: Final = {
    "b": np.bool_,
    "i": np.int64,
    "f": np.float64,
    "c": np.int64,
    "k": np.intp,
    "e": np.int16,
}
MOST: Final = 2**63 - 1
_NO_NODE: Final = model.Node(metadata=model.ObjectMeta(name=""))


def _array(rep: str, values: Sequence[Any]) -> Any:
    """Return values in the array form of ``rep``; a list where it has none."""
    dtype = _DTYPES.get(rep)
    if dtype is None:
        return list(values)
    try:
        return np.array(values, dtype=dtype)
    except OverflowError:  # a timestamp outside of the years that int64 nanoseconds reach
        return np.array(values, dtype=np.object_)


class Runtime:
    """One view of the nodes, as generated functions see it."""

    def __init__(self, table: tables.NodeView, pods: tables.PodTable | None = None) -> None:
        self.table = table
        self._nodes = table.table
        self._quotas: dict[str, tables.Quotas] = {}
        self.pods = pods
        self.pods_on = table.pods_on
        self.others: tuple[tables.OtherPod, ...] = ()
        """Pods that aggregates count besides, or leave out, for the time of an evaluation."""
        self.taken: Sequence[tables.OtherPod] = ()
        """The pods of a node that are victims already, while the next one is asked for."""
        self.counts = IncrementalCounts(table.table, pods)
        """Counts over the node table, without the differences of an overlay."""
        self._domains: dict[str, tuple[tuple[int, int, int], Domains]] = {}
        self._ends: dict[tables.Column, tuple[int, int, tuple[int, int]]] = {}

    # Nodes and what runs on them.

    @property
    def node_count(self) -> int:
        """How many nodes there are."""
        return self.table.live_count

    @property
    def pod_count(self) -> int:
        """How many pods are on all nodes."""
        return self.table.pod_total

    @property
    def allocatable(self) -> Amounts:
        """Totals of allocatable over all nodes."""
        return Amounts(self.table.total_allocatable, lambda: self._names("allocatable"))

    @property
    def requested(self) -> Amounts:
        """Totals of requested over all nodes."""
        return Amounts(self.table.total_requested, lambda: self._names("requested"))

    @property
    def device_resources(self) -> list[str]:
        """Extended resources that device classes serve, in order."""
        return sorted(self.table.table.devices.resources)

    def _names(self, family: str) -> set[str]:
        rows = np.flatnonzero(self.table.live.values[: self.table.n])
        return names_of(self.table, rows, family)

    def node(self, row: int) -> model.Node:
        """Return the node of a row; one without any content for a dead row."""
        return self.table.nodes[row] or _NO_NODE

    def facts(self, row: int) -> NodeFacts:
        """Return the node of a row as a record by itself, with what runs on it now."""
        return NodeFacts(self.node(row), self.table)

    def total_of_pods(self, condition: Condition, amount: Amount, values: tuple[Any, ...]) -> int:
        """Return the count of the pods on all nodes; see `IncrementalCounts.of`."""
        total = self.counts.of(condition, amount, values).total
        return total + sum(sign * amount(pod, *values) for sign, pod, _ in self.table.differences())

    # Aggregates.

    def aggregate(self, name: str, key: Any, pod: model.PodInfo | None) -> Any:
        """Return the value of an aggregate for a key, without the pod that is decided."""
        if isinstance(key, list):
            key = tuple(key)
        return self.table.table.aggregates[name].value(key, pod, self._differences())

    def aggregate_then(self, name: str, key: Any, now: int) -> Any:
        """Return the value that an aggregate with a half-life has for a key at a time (ns)."""
        if isinstance(key, list):
            key = tuple(key)
        return self.table.table.aggregates[name].then(key, now)

    def aggregate_total_then(self, name: str, now: int) -> Any:
        """Return the value of all keys together; otherwise as `aggregate_then`."""
        return self.table.table.aggregates[name].total_then(now)

    def aggregate_open(self, name: str, key: Sequence[str], pod: model.PodInfo | None) -> Any:
        """Return the values of an aggregate by the last part of its key; else as `aggregate`."""
        return self.table.table.aggregates[name].values(tuple(key), pod, self._differences())

    def aggregate_total(self, name: str, pod: model.PodInfo | None) -> Any:
        """Return the value of an aggregate for all keys together, without the pod."""
        return self.table.table.aggregates[name].total(pod, self._differences())

    def aggregate_at(self, name: str, pod: model.PodInfo | None, row: int) -> Any:
        """Return the value of an aggregate by node for a row, without the pod."""
        table = self.table
        return table.table.aggregates[name].value(table.names[row], pod, self._differences())

    def aggregate_rows(self, name: str, pod: model.PodInfo | None, rows: RowSet) -> Any:
        """Do as `aggregate_at` for many rows, of numbers."""
        table = self.table
        aggregate = table.table.aggregates[name]
        changes = [*self._differences()]
        keys = {own.key for _, other, _ in changes if (own := aggregate.counted.get(other.uid))}
        keys.update(table.names[row] for _, _, row in changes if row >= 0)
        own = None if pod is None else aggregate.counted.get(pod.uid)
        if own is not None:
            keys.add(own.key)
        values = aggregate.make_room(table.n)[: table.n]
        differing = {row: key for key in keys if (row := table.row_of.get(str(key))) is not None}
        if differing:
            values = values.copy()
            for row, key in differing.items():
                values[row] = aggregate.value(key, pod, changes)
        return values[rows]

    def quota(self, name: str, pod: model.PodInfo) -> tables.QuotaState:
        """Return the quota of the pod that is decided, without the pod."""
        # For speed: what is asked once for each decision is looked up here.
        quotas = self._quotas.get(name) or self._quotas_of(name)
        others = self.others if self.table is self._nodes else self._differences()
        return quotas.state(quotas.key_of(pod), pod, others)

    def victim_quota(self, name: str, victim: model.PodInfo) -> tables.QuotaState:
        """Return the quota of a possible victim, without the pods taken before it."""
        quotas = self._quotas_of(name)
        return quotas.state(quotas.key_of(victim), None, self.taken)

    def quota_total(self, name: str, pod: model.PodInfo) -> tables.QuotaState:
        """Return all quotas of an entry together, without the pod that is decided."""
        quotas = self._quotas.get(name) or self._quotas_of(name)
        others = self.others if self.table is self._nodes else self._differences()
        return quotas.total(pod, others)

    def _quotas_of(self, name: str) -> tables.Quotas:
        """Return quotas, which exist for as long as the policy is bound."""
        quotas = self._quotas.get(name)
        if quotas is None:
            quotas = self._quotas[name] = self._nodes.quotas[name]
        return quotas

    def _differences(self) -> Iterable[tables.OtherPod]:
        """Return the pods that the view has besides the table's, and those that it has not."""
        if self.table is self._nodes:
            return self.others
        here = [*self.table.differences()]
        uids = {pod.uid for _, pod, _ in here}
        return [*here, *(other for other in self.others if other[1].uid not in uids)]

    def domains(self, key: str) -> Domains:
        """Return the domains of a label, the same ones until nodes change."""
        table = self.table
        version = table.n, table.live.version, table.lookup(("label", key)).version
        entry = self._domains.get(key)
        if entry is None or entry[0] != version:
            entry = self._domains[key] = version, Domains(table, key)
        return entry[1]

    def image_nodes(self, name: str) -> int:
        """Return how many nodes have an image."""
        return self.table.image_nodes(name)

    def object_of(self, owner: Any, kind: types.ObjectType) -> Any:
        """Return what the API has of a pod, a node or a group, as a record."""
        return object_of(owner, kind)

    def input(self, identity: str) -> Mapping[str, Any]:
        """Return the objects of an input by key."""
        return self.table.table.input_table(identity).by_key

    def input_at(self, identity: str, number: int, default: Any) -> Any:
        """Return the object of a number, else ``default``; see `InputTable`."""
        record = self.table.table.input_table(identity).records[number]
        return default if record is None else record

    def of_object(
        self,
        identity: str,
        known: dict[int, tuple[Any, Any]],
        function: Callable[[int], Any],
        number: int,
    ) -> Any:
        """Return what a function makes of the object of a number, once for each version of it.

        ``known``: the objects that it was called for, and its results, by number; an object that
        goes stays there until another one has its number.
        """
        record = self.table.table.input_table(identity).records[number]
        entry = known.get(number)
        if entry is None or entry[0] is not record:
            entry = known[number] = record, function(number)
        return entry[1]

    def input_all(self, identity: str) -> Sequence[Any]:
        """Return the objects of an input; none if there are more than it states."""
        if self.input_exceeds(identity):
            return ()
        return tuple(self.table.table.input_table(identity).by_key.values())

    def input_exceeds(self, identity: str) -> bool:
        """Return whether an input has more objects than a rule may read at once."""
        table = self.table.table.input_table(identity)
        return len(table.by_key) > table.most

    def input_root(self, identity: str, default: Any) -> Any:
        """Return what a polled answer says beside its items, else ``default``."""
        root = self.table.table.input_table(identity).root
        return default if root is None else root

    def namespace(self, name: str) -> model.Namespace:
        """Return a namespace; one without labels if it is not known."""
        cached = self.table.namespaces.get(name)
        return model.Namespace(metadata=model.ObjectMeta(name=name)) if cached is None else cached

    def devices_at(self, row: int) -> Sequence[DeviceFacts]:
        """Return the devices of a row's node, in the order in which they are tried."""
        return self.table.table.devices.facts_of(self.node(row))

    # Rows.

    def row_numbers(self, rows: RowSet) -> npt.NDArray[np.intp]:
        """Return the rows as numbers."""
        if isinstance(rows, slice):
            return np.arange(self.table.n, dtype=np.intp)
        return rows

    def distinct_one(self, rep: str, function: OfEach, column: tables.Column, rows: RowSet) -> Any:
        """Call ``function`` with the distinct values of a column; return the result per row."""
        values, positions = tables.distinct(column.values[rows])
        if len(values) == 1 and rep in "bife":
            return function(values)[0]
        results = _array(rep, function(values))
        if isinstance(results, list):
            return [results[i] for i in positions.tolist()]
        return results.take(positions)

    def distinct_pair(
        self, rep: str, function: OfEach, column: tables.Column, rows: RowSet
    ) -> tuple[Any, Any]:
        """Do as `distinct_one` for a function that returns a (value, error) for each value."""
        values, positions = tables.distinct(column.values[rows])
        pairs = function(values)
        if len(values) == 1 and rep in "bife":
            value, error = pairs[0]
            return value, error
        failed = [e for _, e in pairs]
        errors = np.array(failed, dtype=np.int16).take(positions) if any(failed) else 0
        results = _array(rep, [v for v, _ in pairs])
        if isinstance(results, list):
            return [results[i] for i in positions.tolist()], errors
        return results.take(positions), errors

    def ends(self, column: tables.Column) -> tuple[int, int]:
        """Return the least and the greatest value of a static column, over all rows."""
        n = self.table.n
        entry = self._ends.get(column)
        if entry is None or entry[0] != column.version or entry[1] != n:
            values = column.values[:n]
            least, most = int(values.min(initial=0 if n == 0 else MOST)), int(values.max(initial=0))
            entry = self._ends[column] = (column.version, n, (least, most))
        return entry[2]

    def by_row_one(self, rep: str, function: Function, n: int, *inputs: Any) -> Any:
        """Call ``function`` with the inputs of each row; return its results.

        Rows with equal inputs share a call.
        """
        return _array(rep, _of_rows(function, n, inputs))

    def by_row_pair(self, rep: str, function: Function, n: int, *inputs: Any) -> tuple[Any, Any]:
        """Do as `by_row_one` for a function that returns (value, error)."""
        values, errors = self.by_row_all(f"{rep}e", function, n, *inputs)
        return values, errors

    def by_row_all(self, reps: str, function: Function, n: int, *inputs: Any) -> list[Any]:
        """Do as `by_row_one` for a function that returns a tuple with an element per rep."""
        columns = _of_rows(function, n, inputs)
        return [_array(rep, [row[i] for row in columns]) for i, rep in enumerate(reps)]


def _of_rows(function: Function, n: int, inputs: Sequence[Any]) -> list[Any]:
    """Return what a function makes of the inputs of each row."""
    rows = _transposed(n, inputs)
    if any(_has_doubles(values) or _ascends(values) for values in inputs):
        return list(starmap(function, rows))  # 0.0 and -0.0 are equal, and not the same
    rows = list(rows)
    once = dict.fromkeys(rows)
    if len(once) == len(rows):
        return [function(*row) for row in rows]  # for speed: no look-up of each row
    results = {row: function(*row) for row in once}
    return [results[row] for row in rows]


def _has_doubles(values: Any) -> bool:
    return isinstance(values, float) or getattr(values, "dtype", None) == np.float64


def _ascends(values: Any) -> bool:
    """Return whether no two rows have the same value, as each has a greater one than the last."""
    if not isinstance(values, np.ndarray) or values.ndim == 0 or values.dtype.kind != "i":
        return False
    return bool((values[1:] > values[:-1]).all())


def each(function: Function) -> OfEach:
    """Return a function of one value as a function of many."""
    return lambda values: [function(value) for value in values]


def _transposed(n: int, inputs: Sequence[Any]) -> Any:
    if not inputs:
        return [()] * n
    return zip(*(_per_row(n, values) for values in inputs), strict=True)


def _per_row(n: int, values: Any) -> list[Any]:
    if isinstance(values, np.ndarray):
        listed: list[Any] = values.tolist()
        return listed if values.ndim else [listed] * n
    if isinstance(values, np.generic):
        values = values.item()
    return values if isinstance(values, list) else [values] * n


class Amounts(Mapping[str, int]):
    """Resources of many nodes together: a total by name, computed when it is read.

    It has the names that one of the nodes has.
    """

    __slots__ = ("_names", "_total")

    def __init__(self, total: Callable[[str], int], names: Callable[[], set[str]]) -> None:
        self._total = total
        self._names = names

    def get(self, name: str, default: int = 0) -> int:  # type: ignore[override]  # none is 0
        """Return the total of a resource; ``default`` is what a total of none is, too."""
        return self._total(name) or default

    def __getitem__(self, name: str) -> int:
        """Return the total of a resource that one of the nodes has."""
        total = self._total(name)
        if not total and name not in self._names():
            raise KeyError(name)
        return total

    def __iter__(self) -> Iterator[str]:
        """Yield the names in order."""
        return iter(sorted(self._names()))

    def __len__(self) -> int:
        """Return how many names there are."""
        return len(self._names())


def names_of(table: tables.NodeView, rows: npt.NDArray[np.intp], family: str) -> set[str]:
    """Return the names of the resources that nodes have (`allocatable`), use, or both (`free`)."""
    names: set[str] = set()
    for row in rows.tolist():
        node = table.nodes[row]
        if family != "requested" and node is not None:
            names.update(node.status.allocatable)
        if family != "allocatable":
            names.update(*(pod.requests for pod in table.pods_on(row).values()))
    return names


class Domain:
    """The nodes that share a label's value."""

    __slots__ = ("_rows", "_table", "value")

    def __init__(self, table: tables.NodeView, value: str, rows: npt.NDArray[np.intp]) -> None:
        self._table = table
        self.value = value
        self._rows = rows

    @property
    def row(self) -> int:
        """One of its rows, if it has any."""
        return int(self._rows[0])

    @property
    def node_count(self) -> int:
        """How many nodes it has."""
        return len(self._rows)

    @property
    def pod_count(self) -> int:
        """How many pods run in it."""
        return int(self._table.lookup(("podCount",)).values[self._rows].sum())

    @property
    def nodes(self) -> tuple[NodeFacts, ...]:
        """Its nodes, by row."""
        table = self._table
        nodes = (table.nodes[row] for row in self._rows.tolist())
        return tuple([NodeFacts(node, table) for node in nodes if node is not None])

    @property
    def pods(self) -> list[model.PodInfo]:
        """The pods in it, by row."""
        return list(self._pods())

    def _pods(self) -> Iterator[model.PodInfo]:
        for row in self._rows.tolist():
            yield from self._table.pods_on(row).values()

    def _amounts(self, family: str) -> Amounts:
        table, rows = self._table, self._rows

        def total(name: str) -> int:
            return tables.sum_of(table.lookup((family, name)).values[rows])

        return Amounts(total, lambda: names_of(table, rows, family))

    @property
    def allocatable(self) -> Amounts:
        """Totals of what its nodes have."""
        return self._amounts("allocatable")

    @property
    def requested(self) -> Amounts:
        """Totals of what its pods request."""
        return self._amounts("requested")

    @property
    def free(self) -> Amounts:
        """Totals of what is left."""
        return self._amounts("free")


class Domains:
    """All domains of one label, by the code of its value."""

    __slots__ = ("_by_code", "_nowhere", "all")

    def __init__(self, table: tables.NodeView, key: str) -> None:
        codes = table.lookup(("label", key)).values[: table.n]
        live = table.live.values[: table.n]
        rows = np.flatnonzero((codes > 0) & live)
        order = rows[np.argsort(codes[rows], kind="stable")]
        domain_codes, starts = np.unique(codes[order], return_index=True)
        groups = np.split(order, starts[1:])
        self._by_code = {
            code: Domain(table, table.strings.text(code), group)
            for code, group in zip(domain_codes.tolist(), groups, strict=False)
        }
        self._nowhere = Domain(table, "", np.empty(0, dtype=np.intp))
        self.all = sorted(self._by_code.values(), key=lambda domain: domain.value)
        """The domains in order of their values."""

    def at(self, code: int) -> Domain:
        """Return the domain of a value's code; an empty one for code 0."""
        return self._by_code.get(code, self._nowhere)


NO_DOMAIN: Final = Domain(tables.NodeTable(), "", np.empty(0, dtype=np.intp))
"""A domain without any node."""


Mask = Any
"""A bool array with an element per row, or one bool for all rows."""


def fits_row(rt: Runtime, family: str, wanted: Mapping[str, int], row: int) -> bool:
    """Return whether every amount above zero is within the row's column of ``family``.

    What device classes serve fits where the node itself has none of it to allocate.
    """
    column = rt.table.lookup
    for name, amount in wanted.items():
        if amount > 0 and amount > column((family, name)).view[row]:
            served = rt.table.table.devices.resources
            if name in served and not column(("allocatable", name)).view[row]:
                continue
            return False
    return True


def fits_rows(rt: Runtime, family: str, wanted: Mapping[str, int], rows: RowSet) -> Mask:
    """Do as `fits_row` for many rows."""
    mask: npt.NDArray[np.bool_] | None = None
    column, served = rt.table.lookup, rt.table.table.devices.resources
    for name, amount in wanted.items():
        if amount > 0:
            fits = column((family, name)).values[rows] >= amount
            if name in served:
                fits |= column(("allocatable", name)).values[rows] == 0
            if mask is None:
                mask = fits
            else:
                mask &= fits
    return True if mask is None else mask


def affinity_row(
    rt: Runtime, affinity: model.NodeAffinity | None, selector: Mapping[str, str], row: int
) -> bool:
    """Return whether a row's node has all labels of ``selector`` and meets what is required."""
    column, find = rt.table.lookup, rt.table.strings.find
    for key, value in selector.items():
        if column(("label", key)).view[row] != find(value):
            return False
    if affinity is None or affinity.required is None:
        return True
    node = rt.node(row)
    matcher = model.node_matcher(affinity)
    return matcher.required_matches(node.metadata.labels, node.metadata.name)


def affinity_rows(
    rt: Runtime, affinity: model.NodeAffinity | None, selector: Mapping[str, str], rows: RowSet
) -> Mask:
    """Do as `affinity_row` for many rows."""
    mask: Mask = True
    column, find = rt.table.lookup, rt.table.strings.find
    for key, value in selector.items():
        mask = mask & (column(("label", key)).values[rows] == find(value))
    if affinity is None or affinity.required is None:
        return mask
    matching: Mask = False
    for term in affinity.required.node_selector_terms:
        matching = matching | _term_rows(rt, term, rows)
    return mask & matching


def preference_row(rt: Runtime, affinity: model.NodeAffinity | None, row: int) -> int:
    """Return the sum of the weights of the preferred terms that a row's node matches."""
    if affinity is None or not affinity.preferred:
        return 0
    node = rt.node(row)
    return model.node_matcher(affinity).preferred_score(node.metadata.labels, node.metadata.name)


def preference_rows(rt: Runtime, affinity: model.NodeAffinity | None, rows: RowSet) -> Any:
    """Do as `preference_row` for many rows."""
    total: Any = 0
    for preferred in affinity.preferred if affinity else ():
        if preferred.weight:
            total = total + np.multiply(
                _term_rows(rt, preferred.preference, rows), preferred.weight
            )
    return total


def _term_rows(rt: Runtime, term: model.NodeSelectorTerm, rows: RowSet) -> Mask:
    """Return by row whether its node matches a term; an invalid or empty term matches none."""
    try:
        if model.node_term(term) is None:
            return False
    except ValueError:
        return False
    mask: Mask = True
    for wanted in term.match_expressions:
        mask = mask & _requirement_rows(rt, wanted, rows)
    for wanted in term.match_fields:
        named = wanted.key == "metadata.name"
        names = rt.table.lookup(("name",)).values[rows]
        same = names == (rt.table.strings.find(wanted.values[0]) if named else -1)
        if not named:
            same = same | (wanted.values[0] == "")
        mask = mask & (same if wanted.operator == "In" else ~same)
    return mask


def _requirement_rows(rt: Runtime, wanted: model.NodeSelectorRequirement, rows: RowSet) -> Mask:
    test = model.requirement(wanted.key, wanted.operator, wanted.values)
    texts = rt.table.strings.texts

    def holds(code: int) -> bool:
        return test.matches({wanted.key: texts[code]} if code else {})

    return rt.distinct_one("b", each(holds), rt.table.lookup(("label", wanted.key)), rows)
