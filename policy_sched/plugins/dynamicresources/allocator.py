"""The allocator: which devices a pod's claims get on one node; upstream's first solution.

Theory of operation. Depth first over claims, requests and devices; whatever comes first in the
order of pools and devices and lets everything after it work too is taken. A step that tries
something is a generator: it yields the step that comes after, is sent whether that worked, and
undoes what it took if not. So the depth of the search is not the depth of Python's stack.

Where devices are equal for all requests, one that did not work out stands for the others: with them
in its place everything would happen again. That leaves the first solution what it is, and most
searches short. The others are paid for, device by device, and end when nothing is left to pay with.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from policy_sched.model import Quantity
from policy_sched.plugins.dynamicresources.device_rules import Ranking
from policy_sched.plugins.dynamicresources.devices import (
    DeviceId,
    DeviceView,
    NodeView,
    SelectorResults,
    Value,
    consumption,
)
from policy_sched.plugins.dynamicresources.pools import AllocatedState, NodePools, Pool
from policy_sched.plugins.dynamicresources.requests import (
    ALL,
    AllocationError,
    ClaimPlan,
    Constraint,
    MatchAttribute,
    PreparedClaim,
    Request,
)

MAX_RESULTS: Final = 32
"""Devices of one claim."""
INVALID_POOLS: Final = "invalid resource pools were encountered"


#: Units of trying a device, and of each constraint and each 8 counters that it is tried against.
_TRY: Final = 2
_COUNTERS: Final = 8
#: Units of the search on a node before any device is tried: some 30 us.
_NODE: Final = 10


class NodeError(AllocationError):
    """Nothing was found on this node, and something is wrong with its devices."""


class AllocatedDevice(msgspec.Struct, frozen=True):
    """A device that was chosen; ``consumed`` where it may be shared."""

    request: Request
    device: DeviceView
    consumed: Mapping[str, Quantity] | None
    score: float = 0.0
    """What rules say of it."""


Candidate: TypeAlias = tuple[DeviceView, Pool]
Offered: TypeAlias = Callable[[Request], Sequence[Candidate] | None]


class _TooMany(Exception):  # noqa: N818 - it passes from step to step
    """A claim would get more devices than it may have."""


def _aborted(why: str) -> AllocationError:
    return AllocationError(f"filter operation aborted: {why}", why)


Step: TypeAlias = Generator["Step", bool, bool]
"""One decision: yields what comes after it, and is sent whether that worked."""


class Allocator(msgspec.Struct):
    """Allocates on one node.

    ``spend`` takes the units that the search costs, nothing unless given. ``stop`` says why it is
    to end now, "" as long as it is not. ``offered`` returns the devices that are worth trying for
    a request, which it selects; None where it does not know. ``ranking`` is what rules make of
    them. ``results`` are those of selectors.
    """

    node: NodeView
    pools: Sequence[Pool]
    state: AllocatedState
    stop: Callable[[], str] = lambda: ""
    offered: Offered | None = None
    ranking: Ranking | None = None
    spend: Callable[[int], None] = lambda _units: None
    results: SelectorResults = msgspec.field(default_factory=SelectorResults)
    _claims: list[PreparedClaim] = msgspec.field(default_factory=list)
    _results: list[list[AllocatedDevice]] = msgspec.field(default_factory=list)
    _allocated: dict[DeviceId, list[int]] = msgspec.field(default_factory=dict)
    _consumed: dict[DeviceId, dict[str, int]] = msgspec.field(default_factory=dict)
    _available: dict[str, dict[tuple[str, str], int]] = msgspec.field(default_factory=dict)
    _charged: dict[str, dict[tuple[str, str], int]] = msgspec.field(default_factory=dict)
    _devices: dict[int, Sequence[Candidate]] = msgspec.field(default_factory=dict)
    _selected: set[int] = msgspec.field(default_factory=set)
    _units: list[int] = msgspec.field(default_factory=list)
    _compared: bool = False
    _equal: Callable[[Candidate], Hashable] | None = None
    """What a device has in common with those that are equal to it; None: no two are."""

    def allocate(self, plans: Sequence[ClaimPlan]) -> list[list[AllocatedDevice]] | None:
        """Return the devices of each claim, None if they cannot all be had.

        Raises AllocationError, NodeError where only this node is concerned, and DeadlineExceeded.
        """
        why = self.stop()
        if why:
            raise _aborted(why)
        units = _NODE * len(plans)
        for plan in plans:
            if plan.fixed is None:
                units += self._all_of(plan)
        self.spend(units)
        allows = None if self.ranking is None else self.ranking.allows
        for plan in plans:
            claim = plan.on_node(self.node, self.pools, self.capacity_left, self.results, allows)
            self._claims.append(claim)
            self._units.append(_TRY + len(claim.constraints))
            self._results.append([])
        only = self._only_request()
        done = None if only is None else self._without_search(only)
        if self._run(self._claim(0)) if done is None else done:
            return self._results
        if any(pool.invalid for pool in self.pools):
            raise NodeError(INVALID_POOLS)
        return None

    def _all_of(self, plan: ClaimPlan) -> int:
        """Return how many devices are looked at for requests of all devices."""
        requests = [request for alternatives in plan.requests for request in alternatives]
        count = sum(isinstance(request, Request) and request.mode == ALL for request in requests)
        if not count:
            return 0
        return count * sum(len(view.devices) for pool in self.pools for view in pool.slices)

    def _only_request(self) -> Request | None:
        """Return the request where there is only one, for so many devices."""
        if len(self._claims) != 1 or len(self._claims[0].requests) != 1:
            return None
        request = self._claims[0].requests[0][0]
        return request if request.mode != ALL and request.count and not request.sub else None

    def _without_search(self, request: Request) -> bool | None:
        """Take the devices of the only request, if none is taken in vain.

        Returns whether it can have them, None where that takes a search.
        """
        if request.count == 1:
            return self._first(request)
        constraints, devices = self._claims[0].constraints, self._usable(request)
        if id(request) not in self._selected or any(
            constraint.consumed_counters for constraint, _ in devices
        ):
            return None
        if not all(isinstance(constraint, MatchAttribute) for constraint in constraints):
            return None
        return self._matching(request, devices)

    def _matching(self, request: Request, devices: Sequence[Candidate]) -> bool:
        """Take devices that have attributes in common.

        A search would try the first device, and then what is behind it with the same values. So the
        solution is the first devices of the group that begins first, of those that are large
        enough.
        """
        self._look(0)
        self.spend(len(devices))
        names = [
            constraint.name
            for constraint in self._claims[0].constraints
            if isinstance(constraint, MatchAttribute)
            and constraint.covers(request.parent, request.sub)
        ]
        groups: dict[tuple[Value, ...], list[Candidate]] = {}
        for candidate in devices:
            values: tuple[Value, ...] = ()
            for name in names:
                value = candidate[0].attribute(name)
                if value is None:
                    break
                values = (*values, value)
            else:
                groups.setdefault(values, []).append(candidate)
        for group in groups.values():
            if len(group) >= request.count:
                self.spend(self._units[0] * request.count)
                for device, pool in group[: request.count]:
                    self._take(0, request, device, pool)
                return True
        return False

    def _first(self, request: Request) -> bool:
        """Take the first device that a request can have."""
        self._look(0)
        passed_over = () if request.admin_access else self.state.devices
        for device, pool in self._usable(request):
            if device.id not in passed_over:
                self.spend(self._units[0])
                if self._take(0, request, device, pool):
                    return True
        return False

    def _run(self, first: Step) -> bool:
        """Run steps until the first one has its result."""
        stack, result, failure = [first], None, None
        while stack:
            step = stack[-1]
            try:
                if failure is not None:
                    error, failure = failure, None
                    after = step.throw(error)
                elif result is None:
                    after = next(step)
                else:
                    after = step.send(result)
                stack.append(after)
                result = None
            except StopIteration as stopped:
                stack.pop()
                result = bool(stopped.value)
            except _TooMany as error:
                stack.pop()
                failure, result = error, None
        return failure is None and bool(result)

    def _claim(self, index: int) -> Step:
        """Allocate a claim and those behind it."""
        if index == len(self._claims):
            return True
        try:
            return (yield self._request(index, 0))
        except _TooMany:
            return False

    def _request(self, index: int, number: int) -> Step:
        """Allocate a request of a claim and those behind it."""
        requests = self._claims[index].requests
        if number == len(requests):
            return (yield self._claim(index + 1))
        alternatives = requests[number]
        if not alternatives[0].sub:
            return (yield self._begin(index, number, alternatives[0]))
        too_many: _TooMany | None = None
        failed_plainly = False
        for request in alternatives:
            try:
                if (yield self._begin(index, number, request)):
                    return True
                failed_plainly = True
            except _TooMany as error:
                too_many = error
        if too_many is not None and not failed_plainly:
            raise too_many
        return False

    def _begin(self, index: int, number: int, request: Request) -> Step:
        if request.mode == ALL:
            if not request.all_devices:
                return False
            return (yield self._all(index, number, request, 0))
        return (yield self._some(index, number, request, 0, 0))

    def _look(self, index: int) -> None:
        """Raise an error if the search is to end, or if the claim has as many as it may."""
        why = self.stop()
        if why:
            raise _aborted(why)
        if len(self._results[index]) >= MAX_RESULTS:
            raise _TooMany

    def _all(self, index: int, number: int, request: Request, at: int) -> Step:
        """Take the rest of a list of devices, every one of them."""
        if at == len(request.all_devices):
            return (yield self._request(index, number + 1))
        self._look(index)
        device, pool = request.all_devices[at]
        self.spend(self._units[index])
        if not self._take(index, request, device, pool):
            return False
        try:
            done = yield self._all(index, number, request, at + 1)
        except _TooMany:
            self._undo(index, request, device, pool)
            raise
        if not done:
            self._undo(index, request, device, pool)
        return done

    def _some(self, index: int, number: int, request: Request, have: int, start: int) -> Step:
        """Take one more of the devices from ``start`` on."""
        if have == request.count:
            return (yield self._request(index, number + 1))
        self._look(index)
        devices = self._usable(request)
        failed: set[Hashable] = set()
        for at in range(start, len(devices)):
            device, pool = devices[at]
            if failed and self._equal is not None and self._equal(devices[at]) in failed:
                self.spend(1)
                continue
            self.spend(self._units[index])
            if not self._take(index, request, device, pool):
                continue
            try:
                done = yield self._some(index, number, request, have + 1, at + 1)
            except _TooMany:
                self._undo(index, request, device, pool)
                raise
            if done:
                return True
            self._undo(index, request, device, pool)
            if not device.shareable:
                if not self._compared:
                    self._equal, self._compared = self._comparison(), True
                if self._equal is not None:
                    failed.add(self._equal(devices[at]))
        return False

    def _comparison(self) -> Callable[[Candidate], Hashable] | None:
        """Return what tells whether two devices are equal for all requests; None: no two are.

        Equal ones have the same values of attributes to match, capacities, counters and taints, and
        are offered to the same requests. Other devices are told apart by more than that: where a
        selector may fail, all devices are asked, and ``distinctAttribute`` and admin access depend
        on which devices were tried before.
        """
        if self.ranking is not None:
            return None  # rules may refuse devices, or fail, only when a request comes to them
        names: dict[str, None] = {}
        wanted = [
            wanted_request
            for claim in self._claims
            for sub in claim.requests
            for wanted_request in sub
        ]
        for claim in self._claims:
            for constraint in claim.constraints:
                if not isinstance(constraint, MatchAttribute):
                    return None
                names[constraint.name] = None
        if any(request.admin_access or request.mode == ALL for request in wanted):
            return None
        offered: dict[int, int] = {}
        for number, request in enumerate(wanted):
            for device, _ in self._usable(request):
                offered[id(device)] = offered.get(id(device), 0) | 1 << number
                if device.blocking and device.consumed_counters:
                    return None  # if it is refused for its taint, it stays charged, as upstream
            if id(request) not in self._selected:
                return None
        keys: dict[int, Hashable] = {}

        def equal(candidate: Candidate) -> Hashable:
            device, pool = candidate
            key = keys.get(id(device))
            if key is None:
                values = tuple(map(device.attribute, names))
                counted = (pool.id, device.consumed_counters) if device.consumed_counters else ()
                capacity = tuple(device.capacity.items())
                consumed = frozenset(self.state.consumed.get(device.id, {}).items())
                key = keys[id(device)] = (
                    values, offered.get(id(device)), device.shareable, device.blocking, capacity,
                    consumed, counted,
                )  # fmt: skip
            return key

        return equal

    def _usable(self, request: Request) -> Sequence[Candidate]:
        """Return the devices that are tried for a request, in order."""
        candidates = self._devices.get(id(request))
        if candidates is None:
            candidates = None if self.offered is None else self.offered(request)
            if candidates is None:
                pools = self.pools if isinstance(self.pools, NodePools) else NodePools(self.pools)
                candidates = pools.usable
            else:
                self._selected.add(id(request))
            if self.ranking is not None:
                if id(request) not in self._selected:
                    candidates = [
                        candidate
                        for candidate in candidates
                        if self._may_select(request, candidate[0])
                    ]
                candidates = self.ranking.ranked(request, candidates)
            self._devices[id(request)] = candidates
        return candidates

    def _may_select(self, request: Request, device: DeviceView) -> bool:
        """Return whether a request selects a device; where that fails, the search will find it."""
        try:
            return request.selects(device, self.node, self.results)
        except AllocationError:
            return True

    # One candidate.

    def _take(self, index: int, request: Request, device: DeviceView, pool: Pool) -> bool:
        """Take a device if it can be had; what a refusal leaves behind is upstream's, too.

        The caller spends what it costs.
        """
        if self._in_use(index, request, device):
            return False
        chosen = id(request) in self._selected
        if not chosen and not request.selects(device, self.node, self.results):
            return False
        sized = device.capacity or request.capacity
        if sized and self.capacity_left(request, device) is None:
            return False
        if device.consumed_counters and not self._charge(device, pool):
            return False
        if device.blocking and not request.tolerates(device):
            return False
        constraints = self._claims[index].constraints
        for count, constraint in enumerate(constraints):
            if not constraint.add(request.parent, request.sub, device):
                self._forget(constraints[:count], request, device)
                if request.mode == ALL:
                    raise AllocationError(
                        f"claim {self._claims[index].name}, request {request.name}: cannot add "
                        f"device {device.id} because a claim constraint would not be satisfied"
                    )
                return False
        consumed = self.capacity_left(request, device) if sized else {}
        if consumed is None:
            return False
        if device.shareable:
            total = self._consumed.setdefault(device.id, {})
            for name, amount in consumed.items():
                total[name] = total.get(name, 0) + amount.nanos
        else:
            self._allocated.setdefault(device.id, []).append(index)
        score = 0.0 if self.ranking is None else self.ranking.score(request, device.id)
        self._results[index].append(
            AllocatedDevice(request, device, consumed if device.shareable else None, score)
        )
        return True

    def _in_use(self, index: int, request: Request, device: DeviceView) -> bool:
        indexes = self._allocated.get(device.id, ())
        if request.admin_access:
            return index in indexes
        return bool(indexes) or device.id in self.state.devices

    def _forget(
        self, constraints: Sequence[Constraint], request: Request, device: DeviceView
    ) -> None:
        for constraint in constraints:
            constraint.remove(request.parent, request.sub, device)

    def _undo(self, index: int, request: Request, device: DeviceView, pool: Pool) -> None:
        """Give back the device that was taken last."""
        last = self._results[index].pop()
        self._forget(self._claims[index].constraints, request, device)
        if last.consumed is not None:
            total = self._consumed[device.id]
            for capacity, consumed in last.consumed.items():
                total[capacity] -= consumed.nanos
            return
        self._allocated[device.id].pop()
        if device.consumed_counters:
            charged = self._charged[pool.id[1]]
            for counters, name, amount in device.consumed_counters:
                charged[counters, name] -= amount

    def capacity_left(self, request: Request, device: DeviceView) -> Mapping[str, Quantity] | None:
        """Return what a request consumes of a device, None if the device has not so much."""
        if not device.capacity and not request.capacity:
            return {}
        used: Mapping[str, int] = self.state.consumed.get(device.id, {})
        more = self._consumed.get(device.id)
        if more:
            used = {name: used.get(name, 0) + more.get(name, 0) for name in {*used, *more}}
        return consumption(device, request.capacity, used)

    def _charge(self, device: DeviceView, pool: Pool) -> bool:
        """Charge a device to the counters of its pool, if they suffice."""
        if device.shareable and self._has_consumed(device.id):
            return True
        name = pool.id[1]
        available = self._available.get(name)
        if available is None:
            available = self._available[name] = pool.counters_left(self.state)
        self.spend(len(available) // _COUNTERS)
        charged = self._charged.setdefault(name, {})
        for counters, counter, amount in device.consumed_counters:
            charged[counters, counter] = charged.get((counters, counter), 0) + amount
        for key, left in available.items():
            if left < charged.get(key, 0):
                break
        else:
            return True
        for counters, counter, amount in device.consumed_counters:
            charged[counters, counter] -= amount
        return False

    def _has_consumed(self, device: DeviceId) -> bool:
        return device in self.state.consumed or any(self._consumed.get(device, {}).values())
