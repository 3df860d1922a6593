"""Dry runs: what would become of a pod on each node if its victims left, kept for the next pod.

Theory of operation. A DryRun belongs to pods of one kind: equal for the filters (the signature of
the failed attempt), for the rules of preemption and in priority. It knows of each row whether it
is a candidate and with which victims; a row is evaluated when it is requested, and again after its
pods or nominations changed. Other changes (a node's own fields, disruption budgets) start over.
Where a filter looks beyond a node, or a plugin does not declare what it reads, the DryRun is made
for one search only. The results are the same, and a property test compares.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from policy_sched import thresholds
from policy_sched.cluster import Cache, PodOrder
from policy_sched.cluster.tables import DYNAMIC, PodRows
from policy_sched.errors import PolicySchedError
from policy_sched.framework import NOTHING, Code, Handle, Rejections, Status, StatusTable
from policy_sched.lru import Lru
from policy_sched.model import PodInfo
from policy_sched.preemption import dry_run
from policy_sched.preemption.attempt import DryRunResult, PreemptionAttempt, Victims
from policy_sched.preemption.budgets import Budgets
from policy_sched.preemption.evictable import EvictableRows
from policy_sched.preemption.policy_section import CandidateNodes
from policy_sched.preemption.rules import Candidates, PreemptionRules
from policy_sched.preemption.units import VictimUnits

NO_VICTIMS: Final = Status(
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("No preemption victims found for incoming pod",)
)

_ONLY_THAT: Final = StatusTable()


def nothing_to_evict(rows: NDArray[np.intp], n: int) -> Rejections:
    """Return that on none of the rows is a pod that may be evicted; the table has ``n`` rows."""
    numbers = np.full(n, NOTHING, np.intp)
    numbers[rows] = _ONLY_THAT.number(NO_VICTIMS)
    return Rejections(numbers, _ONLY_THAT)


#: What is known of a row: nothing; it is a candidate; it is none; it has no pod that may go.
UNKNOWN: Final = 0
CANDIDATE: Final = 1
INFEASIBLE: Final = 2
NOTHING_TO_EVICT: Final = 3


#: The first rows, so many times as many as candidates are wanted, are looked through before all.
NEAR: Final = 3

#: Bytes that kept dry runs of one profile may take together.
KEPT_BYTES: Final = 64 * 1024 * 1024
#: About so many bytes are in the objects of a dry run. On few nodes, that is most of it.
OBJECT_BYTES: Final = 8192


class Search:
    """How victims are found on rows of the node table; nothing is kept here."""

    def __init__(
        self,
        cache: Cache,
        rules: PreemptionRules,
        budgets: Budgets,
        order: Callable[[PodInfo], PodOrder],
        handle: Handle | None = None,
    ) -> None:
        self.cache = cache
        self._handle = handle
        self.budgets = budgets
        self._rules = rules
        self.order = order
        self.stable_keys = rules.stable_keys
        self.evictable = EvictableRows(cache, rules, order)

    def kind(self, attempt: PreemptionAttempt) -> Hashable | None:
        """Return what pods have in common that share a dry run; None if it is not shared."""
        key, rules_key = attempt.key, self._rules.key
        if key is None or rules_key is None or attempt.filter_dry_run.node_by_node:
            return None
        if self._has_units:
            return None  # what a row gives depends on pods of other rows
        return key, rules_key(attempt.pod), attempt.pod.priority

    @property
    def _has_units(self) -> bool:
        """Whether a pod on a node may go with others."""
        return not self._rules.units_are_groups or (
            self._rules.unit is not None and len(self.cache.groups) > 0
        )

    def units(self, pod: PodInfo) -> VictimUnits | None:
        """Return what finds the units that pods go by; None where each goes by itself."""
        if not self._has_units:
            return None
        assert self._handle is not None, "a policy with units is searched by a scheduler"
        return VictimUnits(self._handle, self._rules, self.budgets, pod)

    def node_key(self, number: int, pod: PodInfo, candidates: Candidates) -> NDArray[Any]:
        """Return a key of the order of nodes."""
        listed = partial(self.ordered_victims, pod, candidates)
        nodes = CandidateNodes(candidates.rows, candidates.victims, candidates.violations, listed)
        return self._rules.node_order[number](pod, nodes)

    def ordered_victims(
        self, pod: PodInfo, candidates: Candidates, place: int
    ) -> tuple[PodInfo, ...]:
        """Return the victims on one candidate, the most important one first."""
        infos, ordered = self.cache.pods.infos, candidates.victims_at(place)
        if len(ordered) > 1 and not candidates.in_order:
            rows = np.array(ordered, np.intp)
            ordered = rows[np.lexsort(self._rules.victim_order(pod)(rows)[::-1])].tolist()
        return tuple([info for row in ordered if (info := infos[row]) is not None])

    def victims_on(self, pod: PodInfo, row: int) -> tuple[list[tuple[int, int]], int]:
        """Return what `victims` does for one row, and how many of these break a budget.

        See `Victims.column`.
        """
        column = self.order(pod).column(row)
        pods = PodRows(self.cache.pods, np.array(column, np.intp))
        evictable = self._rules.victim(pod, pods).tolist()
        victims = [
            victim for victim, chosen in zip(enumerate(column), evictable, strict=True) if chosen
        ]
        if not self.budgets:
            return victims, 0
        infos = self.cache.pods.infos
        broken = self.budgets.violating_on([infos[place] for _, place in victims])
        first = [victim for victim, breaks in zip(victims, broken, strict=True) if breaks]
        rest = [victim for victim, breaks in zip(victims, broken, strict=True) if not breaks]
        return [*first, *rest], len(first)

    def victims(self, pod: PodInfo, rows: NDArray[np.intp]) -> Victims:
        """Return the pods that may be evicted from some rows.

        If these are many, the result is for all rows of the table, and others have no victims.
        """
        order, n = self.order(pod), self.cache.nodes.n
        if rows.size < thresholds.SPARSE * n or rows.size <= thresholds.LOOP_ROWS:
            pods: PodRows = order.of(rows)
        else:
            pods = order.every()
            if rows.size < n:
                asked = np.zeros(n, np.bool_)
                asked[rows] = True
                pods = pods.holding(pods.there & asked)
                rows = np.arange(n)
        evictable = self._rules.victim(pod, pods) & pods.there
        if np.count_nonzero(evictable) < np.count_nonzero(pods.there):
            pods = pods.holding(evictable)
        return Victims(rows, pods, self.budgets.violating(pods))


def clean_first(breaking: NDArray[np.bool_], wanted: int) -> tuple[NDArray[np.intp] | slice, bool]:
    """Return the places of the first candidates that are enough, and whether they are.

    ``breaking``: which candidates break a budget; these come last. So many as are wanted are enough
    if one of them breaks none.
    """
    if not breaking.any():
        return slice(0, wanted), breaking.size >= wanted
    if breaking.size <= wanted:
        clean = np.flatnonzero(~breaking)
        enough = breaking.size == wanted and clean.size > 0
        return np.concatenate([clean, np.flatnonzero(breaking)]), enough
    counts = np.cumsum(~breaking)
    counted = np.minimum(counts, wanted) + np.minimum(np.cumsum(breaking), wanted)
    ends = np.flatnonzero((counts > 0) & (counted >= wanted))
    end = int(ends[0]) + 1 if ends.size else breaking.size
    places = np.arange(end)
    broken = places[breaking[:end]][:wanted]
    return np.concatenate([places[~breaking[:end]], broken]), bool(ends.size)


class DryRun:
    """What was found so far on the rows [0, n) for pods of one kind."""

    def __init__(self, search: Search, attempt: PreemptionAttempt) -> None:
        self._search = search
        self._units = search.units(attempt.pod)
        # By row, the victims where some of them go by units: rows of the pod table.
        self._by_units: dict[int, NDArray[np.intp]] = {}
        self._table = StatusTable()
        self._no_victims = self._table.number(NO_VICTIMS)
        self._rivals = attempt.nominations.nominated_pods(attempt.pod.priority)
        self._own: int | None = None
        self._start_over()

    @property
    def nbytes(self) -> int:
        """Bytes that it takes: its arrays exactly, its objects about."""
        each = self._found.nbytes + self._violations.nbytes
        arrays = self._gone.nbytes + self._violations.nbytes + each * (1 + len(self._keys))
        return OBJECT_BYTES + arrays

    def _start_over(self) -> None:
        nodes = self._search.cache.nodes
        self._version = nodes.journal.version
        self._budgets = self._search.budgets.version
        n = nodes.n
        self._found = np.zeros(n, np.int8)
        # By line of the order of pods and row, whether that pod is a victim.
        self._gone = np.zeros((0, n), np.bool_)
        self._violations = np.zeros(n, np.int64)
        self._breaks_budgets = False
        # The candidates that keys were computed for since `first` found them: mostly for each key.
        self._compared: Candidates | None = None
        self._reasons = np.zeros(n, np.intp)
        # By row, whether the filters pass that do not read pods; found out when it is needed.
        self._static: NDArray[np.bool_] | None = None
        self._is_static_known = False
        # Stable keys of candidates by the key's number, and where they are computed already.
        self._keys: dict[int, NDArray[Any]] = {}
        self._keyed: dict[int, NDArray[np.bool_]] = {}

    def refresh(self, attempt: PreemptionAttempt) -> None:
        """Forget what is no longer true, and the row that the pod itself is nominated to."""
        nodes = self._search.cache.nodes
        changes = nodes.journal.since(self._version)
        moved = self._rivals.moved()
        budgets = self._search.budgets.version
        if changes is None or changes.kind & ~DYNAMIC or moved is None or budgets != self._budgets:
            self._start_over()
        else:
            self._version = nodes.journal.version
            self._forget([*changes.rows, *moved])
        own = attempt.nominations.row_of(attempt.pod)
        self._forget([row for row in (self._own, own) if row is not None])
        self._own = own
        self._rule_out(attempt)

    def _rule_out(self, attempt: PreemptionAttempt) -> None:
        """Take note of the rows from which no pod may be evicted."""
        none = self._search.evictable.nothing_on(attempt)
        if none is not None:
            none &= self._found == UNKNOWN
            self._found[none] = NOTHING_TO_EVICT
            self._reasons[none] = self._no_victims

    def _forget(self, rows: list[int] | NDArray[np.intp]) -> None:
        if len(rows):
            self._found[rows] = UNKNOWN
            self._reasons[rows] = NOTHING

    def hopeless(self) -> bool:
        """Return whether all rows that were looked at are no candidates."""
        states = self._found
        return bool((states == INFEASIBLE).any()) and not (states == CANDIDATE).any()

    def first(self, rows: NDArray[np.intp], wanted: int) -> tuple[NDArray[np.intp], int, int]:
        """Return the first candidates among the rows that are enough, and where to look for more.

        The rows are looked at in their order, in blocks of as many as are wanted; the second result
        is the place of the first block with a row that nothing is known of, and ``rows.size`` if
        the candidates are enough, or all. The third is where the last block ends without which they
        cannot be enough: not before as many rows as are wanted are candidates, or may be.
        """
        self._compared = None
        near = NEAR * wanted
        for part in (rows[:near], rows) if near < rows.size else (rows,):
            states = self._found[part]
            start = int(states.argmin())
            start = start - start % wanted if states.item(start) == UNKNOWN else part.size
            candidates = part[:start][states[:start] == CANDIDATE]
            if not self._breaks_budgets:
                chosen, enough = candidates[:wanted], candidates.size >= wanted
            else:
                places, enough = clean_first(self._violations[candidates] > 0, wanted)
                chosen = candidates[places]
            if enough:
                return chosen, rows.size, rows.size
            if start < part.size:
                possible = (states <= CANDIDATE).cumsum()
                blocks = int(possible.searchsorted(wanted)) // wanted + 1
                end = max(start + wanted, blocks * wanted)  # one more block if all break a budget
                if end <= part.size:
                    return chosen, start, end
        return chosen, start, rows.size

    def key(self, pod: PodInfo, number: int, rows: NDArray[np.intp]) -> NDArray[Any]:
        """Return a key of the order of nodes for rows that are candidates."""
        search = self._search
        if number not in search.stable_keys:
            return search.node_key(number, pod, self._candidates(pod, rows))
        keyed = self._keyed.get(number)
        if keyed is None:
            keyed = self._keyed[number] = np.zeros(self._found.size, np.bool_)
        known = keyed[rows]
        if np.count_nonzero(known) < known.size:
            new = rows[~known]
            if new.size == known.size == self._found.size:
                new = np.arange(new.size)
            if self._compared is None or not np.array_equal(self._compared.rows, new):
                self._compared = self._candidates(pod, new)
            values = search.node_key(number, pod, self._compared)
            if number not in self._keys:
                self._keys[number] = np.zeros(self._found.size, values.dtype)
            self._keys[number][new] = values
            keyed[new] = True
        return self._keys[number][rows]

    def look(self, attempt: PreemptionAttempt, rows: NDArray[np.intp]) -> None:
        """Find out about those rows of which nothing is known."""
        if 2 * rows.size < self._found.size:
            unknown = rows[self._found[rows] == UNKNOWN]
            unknown.sort()
        else:
            flags = np.zeros(self._found.size, np.bool_)
            flags[rows] = True
            flags &= self._found == UNKNOWN
            unknown = flags.nonzero()[0]
        if unknown.size:
            try:
                self._run(attempt, unknown)
            except PolicySchedError:
                self._forget(unknown)
                raise

    def _run(self, attempt: PreemptionAttempt, rows: NDArray[np.intp]) -> None:
        if self._units is not None:
            spanning = self._units.span(rows, self._search.order(attempt.pod).column)
            for row in rows[spanning].tolist():
                self._run_units(attempt, self._units, row)
            rows = rows[np.logical_not(spanning)]
        if rows.size <= thresholds.LOOP_ROWS:
            for row in rows.tolist():
                if not self._run_one(attempt, row):
                    break
            else:
                return
        victims = self._search.victims(attempt.pod, rows)
        some = victims.some
        count = np.count_nonzero(some)
        if count < rows.size:
            self._reasons[rows] = self._no_victims
            self._reasons[victims.rows[some]] = NOTHING
        if count < thresholds.SPARSE * some.size or count <= thresholds.LOOP_ROWS:
            victims = victims.at(np.flatnonzero(some))
            some = np.ones(count, np.bool_)
        self._found[rows] = NOTHING_TO_EVICT
        self._found[victims.rows[some]] = INFEASIBLE
        together = _together(attempt, victims)
        if together is None:
            result = dry_run.search_all(attempt, victims)
            if count < some.size:
                places = np.flatnonzero(some)
                victims, result = victims.at(places), result.at(places)
            self._take(victims, result)
            return
        for search, places in (
            (dry_run.search_all, np.flatnonzero(together & some)),
            (dry_run.search_each, np.flatnonzero(~together & some)),
        ):
            if places.size:
                part = victims.at(places)
                self._take(part, search(attempt, part))

    def _run_one(self, attempt: PreemptionAttempt, row: int) -> bool:
        """Do as `_run` for one row; False if a filter is no function of a row, or breaks."""
        search, static = self._search, self._static_fits(attempt)
        if static is None:
            return False
        column, violating = search.victims_on(attempt.pod, row)
        if not column:
            self._found[row], self._reasons[row] = NOTHING_TO_EVICT, self._no_victims
            return True
        infos = search.cache.pods.infos
        gone = None
        if static[row]:
            pods = [pod for _, place in column if (pod := infos[place]) is not None]
            try:
                gone = dry_run.search_one(attempt, row, pods)
            except Exception:  # noqa: BLE001 - the plugins, one by one, say which of them broke
                return False
        self._make_deep(1 + max(column)[0])
        self._forget_keys(row)
        self._gone[:, row] = False
        violations = 0
        for position in gone or ():
            self._gone[column[position][0], row] = True
            violations += position < violating
        self._violations[row] = violations
        self._breaks_budgets = self._breaks_budgets or violations > 0
        self._found[row] = CANDIDATE if gone else INFEASIBLE
        if gone is not None and not gone:
            self._reasons[row] = self._table.number(self._contradiction(row))
        return True

    def _run_units(self, attempt: PreemptionAttempt, units: VictimUnits, row: int) -> None:
        """Do as `_run` for one row whose pods may go with pods of other rows."""
        leaving = units.of_node(self._search.order(attempt.pod).column(row))
        if leaving is None:
            self._found[row], self._reasons[row] = NOTHING_TO_EVICT, self._no_victims
            return
        self._found[row] = INFEASIBLE
        gone = dry_run.search_units(attempt, row, leaving.units)
        if isinstance(gone, Status):
            self._reasons[row] = self._table.number(gone)
            return
        if not gone:
            self._reasons[row] = self._table.number(self._contradiction(row))
            return
        places = sorted(place for unit in gone for place in leaving.places[unit])
        self._by_units[row] = leaving.rows[places]
        self._violations[row] = np.count_nonzero(leaving.breaking[places])
        self._breaks_budgets = self._breaks_budgets or bool(self._violations[row])
        self._forget_keys(row)
        self._found[row] = CANDIDATE

    def _static_fits(self, attempt: PreemptionAttempt) -> NDArray[np.bool_] | None:
        """Return by row whether the filters pass that do not read pods.

        None where the others are no functions of a row, or that is not known.
        """
        filters = attempt.filter_dry_run
        if filters.node_by_node or filters.first_rejection(self._search.cache.overlay) is None:
            return None
        if not self._is_static_known:
            self._is_static_known = True
            self._static = filters.static_fits(self._search.cache.nodes, attempt.state, attempt.pod)
        return self._static

    def _take(self, victims: Victims, dry_run_result: DryRunResult) -> None:
        gone, rows = dry_run_result.gone, victims.rows
        some = np.logical_or.reduce(gone, axis=0)
        self._keep(victims, gone)
        self._found[rows[some]] = CANDIDATE
        for row in rows[dry_run_result.fits & ~some].tolist():
            self._reasons[row] = self._table.number(self._contradiction(row))
        for row, status in dry_run_result.statuses.items():
            self._reasons[row] = self._table.number(status)

    def _keep(self, victims: Victims, gone: NDArray[np.bool_]) -> None:
        depth, rows = gone.shape[0], victims.rows
        where: Any = slice(None) if rows.size == self._found.size else rows
        self._make_deep(depth)
        self._gone[:depth, where] = gone
        self._gone[depth:, where] = False
        self._forget_keys(where)
        violations = self._violations[where] = victims.violations(gone)
        self._breaks_budgets = self._breaks_budgets or bool(violations.any())

    def _make_deep(self, depth: int) -> None:
        """Make room for so many lines of the order of pods."""
        if depth > self._gone.shape[0]:
            more = np.zeros((depth - self._gone.shape[0], self._found.size), np.bool_)
            self._gone = np.concatenate([self._gone, more])

    def _forget_keys(self, rows: Any) -> None:
        for keyed in self._keyed.values():
            keyed[rows] = False

    def _contradiction(self, row: int) -> Status:
        """Return the error for a row where all victims were reprieved: the filters contradict
        themselves."""
        name = self._search.cache.nodes.names[row]
        return Status(Code.ERROR, (f'expected at least one victim pod on node "{name}"',))

    def candidates(self, pod: PodInfo, rows: NDArray[np.intp]) -> Candidates:
        """Return the candidates among rows that were looked at, in the rows' order."""
        return self._candidates(pod, rows[self._found[rows] == CANDIDATE])

    def _candidates(self, pod: PodInfo, rows: NDArray[np.intp]) -> Candidates:
        if self._by_units:
            listed = [self._victim_rows(pod, row) for row in rows.tolist()]
            block = np.full((max(map(len, listed), default=0), rows.size), -1, np.intp)
            for place, victims in enumerate(listed):
                block[: len(victims), place] = victims
            victims_of = PodRows(self._search.cache.pods, block)
            return Candidates(rows, victims_of, self._violations[rows], in_order=True)
        pods = self._search.order(pod).at(rows)
        self._make_deep(pods.depth)
        gone = self._gone[: pods.depth]
        if not pods.every:
            gone = gone.take(rows, axis=1)
        return Candidates(rows, pods.holding(gone), self._violations[rows], in_order=True)

    def victims_of(self, pod: PodInfo, row: int) -> tuple[PodInfo, ...]:
        """Return the victims on a row that is a candidate, the most important one first."""
        infos, rows = self._search.cache.pods.infos, self._victim_rows(pod, row)
        return tuple([info for row in rows if (info := infos[row]) is not None])

    def _victim_rows(self, pod: PodInfo, row: int) -> list[int]:
        """Return the rows of the pod table of what `victims_of` returns."""
        if row in self._by_units:
            by_units: list[int] = self._by_units[row].tolist()
            return by_units
        column = self._search.order(pod).column(row)
        return [column[line] for line in self._gone[:, row].nonzero()[0].tolist()]

    def rejections(self, attempt: PreemptionAttempt, rows: NDArray[np.intp]) -> Rejections:
        """Return why rows, ascending, that were looked at and are no candidates are none."""
        unexplained = rows[self._reasons[rows] == NOTHING]
        if unexplained.size:
            victims = self._search.victims(attempt.pod, unexplained)
            reasons = dry_run.why_not(attempt, victims.at(np.flatnonzero(victims.some)))
            self._reasons[list(reasons)] = self._table.numbers(list(reasons.values()))
        numbers = np.zeros(self._found.size, np.intp)
        numbers[rows] = self._reasons[rows]
        return Rejections(numbers, self._table)


def _together(attempt: PreemptionAttempt, victims: Victims) -> NDArray[np.bool_] | None:
    """Return the nodes that can be evaluated together: no filter reads across nodes; None: all."""
    filter_dry_run = attempt.filter_dry_run
    if not filter_dry_run.node_by_node:
        return None
    infos = attempt.cache.pods.infos
    rows = victims.rows.tolist()
    promised = attempt.nominations.nominated_pods_on(attempt.pod, rows)
    together = np.zeros(victims.rows.size, np.bool_)
    for place, row in enumerate(rows):
        leaving = (infos[i] for _, i in victims.column(place))
        together[place] = filter_dry_run.is_unaffected_by(
            attempt.state,
            attempt.pod,
            row,
            (pod for pod in leaving if pod is not None),
            promised.get(row, ()),
        )
    return together


class DryRuns:
    """The dry runs of one profile, by kind of pod; the least recently used is evicted first.

    They belong to the active filters: after a reload everything is evaluated again.
    """

    def __init__(self, search: Search) -> None:
        self._search = search
        self.evictable = search.evictable
        """The rows from which a pod may evict any other."""
        self._pipeline = ""
        self._kept: Lru[Hashable, DryRun] = Lru(KEPT_BYTES, lambda run: run.nbytes)
        self._latest: tuple[Hashable, DryRun] | None = None

    def of(self, attempt: PreemptionAttempt) -> DryRun:
        """Return the dry run of the pod's kind, up to date, or a fresh one."""
        kind = self._search.kind(attempt)
        if kind is None:
            return DryRun(self._search, attempt)
        if self._pipeline != attempt.filter_dry_run.pipeline:
            self._pipeline = attempt.filter_dry_run.pipeline
            self._kept.clear()
            self._latest = None
        if self._latest is not None:
            latest, again = self._latest
            if latest == kind:
                again.refresh(attempt)
                return again
            self._kept.put(latest, again)  # it may have another size
        run = self._kept.get(kind)
        if run is None:
            run = DryRun(self._search, attempt)
            self._kept.put(kind, run)
        self._latest = kind, run
        run.refresh(attempt)
        return run
