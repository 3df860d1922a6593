"""Rules over devices: which devices a request may have, and which of them is tried first.

Theory of operation. The allocator requests the candidates of a request. Without rules they are the
node's devices in upstream's order. With rules they are the devices that a request selects and the
rules allow, by score, the highest first; equals stay in upstream's order. So the search is the
same, depth first and exhaustive: constraints hold, and a solution is found whenever one exists.
A device is rated once for requests that are alike, until something changes that the rules read.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Final, Protocol, TypeAlias

import msgspec

from policy_sched.framework import Handle, PodKey, Scope
from policy_sched.language import values
from policy_sched.model import Amount, ClusterEventWithHint, PodInfo, Quantity, units
from policy_sched.plugins.dynamicresources.device_table import NodeDevice
from policy_sched.plugins.dynamicresources.devices import DeviceId, DeviceView
from policy_sched.plugins.dynamicresources.pools import Pool
from policy_sched.plugins.dynamicresources.requests import ALL, AllocationError, Request

Candidate: TypeAlias = tuple[DeviceView, Pool]
Kept: TypeAlias = dict[int, tuple[values.DeviceFacts, "DeviceVerdict"]]
_NO_SCORES: Final[Mapping[DeviceId, float]] = {}
_MOST_RATED: Final = 200_000


class DeviceVerdict(msgspec.Struct, frozen=True):
    """What rules say about a device for a request: its score, or the rule that refuses it."""

    score: float = 0.0
    refused_by: str = ""
    """The name of the rule, "" where none refuses the device."""
    message: str = ""

    @property
    def named(self) -> str:
        """The rule that refuses the device, and its message; "" where none does."""
        said = self.refused_by and self.message
        return f"{self.refused_by} ({self.message})" if said else self.refused_by


Rate: TypeAlias = Callable[[values.RequestFacts, values.DeviceFacts], DeviceVerdict]


class DeviceRules(Protocol):
    """The rules over devices of a profile."""

    scope: Scope
    """How far a change can reach what the rules say."""

    by_device: bool
    """Whether what they say of a device stays the same as long as the device does."""

    steady: bool
    """Whether what they say stays the same as long as the node and its devices do."""

    refuse: bool
    """Whether they may refuse a device."""

    events: Sequence[ClusterEventWithHint]
    """What can make rules allow a device that they refused."""

    def key(self, pod: PodInfo) -> Hashable:
        """Return what the rules read of a pod."""

    def rater(self, pod: PodInfo, row: int) -> Rate:
        """Return what gives the verdicts about devices of a row's node. Both raise RuleError."""


class RatedDevice(msgspec.Struct, frozen=True):
    """What rules say about a device for a request, and whether the request would get it."""

    request: values.RequestFacts
    device: values.DeviceFacts
    verdict: DeviceVerdict
    chosen: bool


class Allocating(Protocol):
    """Knows what pods' claims would get on a node, by the rules of a profile."""

    scope: Scope
    """How far a change can reach what a pod would get on a node."""

    claims_key: PodKey
    """What of a pod decides what it would get."""

    def would_allocate(self, pod: PodInfo, row: int) -> values.AllocationFacts:
        """Return what a pod would get on a row's node."""

    def considered(
        self, pod: PodInfo, row: int
    ) -> Iterator[tuple[values.RequestFacts, values.DeviceFacts]]:
        """Yield a pod's requests with the devices of a row's node that rules are evaluated on."""

    def ranking(self, pod: PodInfo, row: int) -> Ranking | None:
        """Return what rules make of the devices of a row's node, None without rules."""

    def rated(self, pod: PodInfo, row: int) -> list[RatedDevice]:
        """Return what rules say about the devices of a row's node; nothing without rules."""


class Allocations:
    """What allocates the devices of each profile, by the rules of the profile."""

    def __init__(self, _handle: Handle) -> None:
        self._by_profile: dict[str, dict[str, Allocating]] = {}

    def put(self, profile: str, rules: str, allocating: Allocating) -> None:
        """Note what allocates by rules; of a profile, those in force and those before are kept."""
        before = list(self._by_profile.get(profile, {}).items())[-1:]
        self._by_profile[profile] = {**dict(before), rules: allocating}

    def get(self, profile: str, rules: str) -> Allocating | None:
        """Return what allocates by rules, None if nothing does."""
        return self._by_profile.get(profile, {}).get(rules)

    def latest(self, profile: str) -> Allocating | None:
        """Return what allocates by the latest rules of a profile, None if there are none."""
        return next(reversed(self._by_profile.get(profile, {}).values()), None)


class Ratings(msgspec.Struct):
    """Verdicts that are kept: by what decides them, for each device as it is."""

    kept: dict[Hashable, Kept] = msgspec.field(default_factory=dict)
    count: int = 0

    def of(self, key: Hashable) -> Kept:
        """Return the verdicts that are decided by ``key``."""
        if self.count > _MOST_RATED:
            self.kept.clear()
            self.count = 0
        verdicts = self.kept.get(key)
        if verdicts is None:
            verdicts = self.kept[key] = {}
            self.count += 1
        return verdicts


class Ranking:
    """What rules make of the candidates of one pod's requests on one node."""

    def __init__(
        self,
        rules: DeviceRules,
        ratings: Ratings,
        pod: PodInfo,
        row: int,
        devices: Sequence[NodeDevice],
    ) -> None:
        self._rules = rules
        self._ratings = ratings
        self._pod = pod
        self._row = row
        self._facts = {id(device.view): device.facts for device in devices}
        self._rater: Rate | None = None
        self._scores: dict[tuple[str, str], dict[DeviceId, float]] = {}

    def ranked(self, request: Request, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return the candidates that rules allow, the best first. Raises AllocationError."""
        facts, kept = as_facts(request), self._kept(request)
        allowed: list[tuple[float, Candidate]] = []
        for candidate in candidates:
            device = self._facts.get(id(candidate[0]))
            if device is not None:
                verdict = self._verdict(request, facts, device, kept)
                if not verdict.refused_by:
                    allowed.append((verdict.score, candidate))
        allowed.sort(key=_best_first)
        scores = {candidate[0].id: score for score, candidate in allowed}
        self._scores[request.claim, request.full_name] = scores
        return [candidate for _, candidate in allowed]

    def score(self, request: Request, device: DeviceId) -> float:
        """Return the score of a device for a request, 0 where nothing was ranked for it."""
        return self._scores.get((request.claim, request.full_name), _NO_SCORES).get(device, 0.0)

    def allows(self, request: Request, device: DeviceView) -> bool:
        """Return whether a request may have a device. Raises AllocationError."""
        verdict = self.verdict(request, device)
        return verdict is None or not verdict.refused_by

    def verdict(self, request: Request, device: DeviceView) -> DeviceVerdict | None:
        """Return what rules say about a device, None of one that the node does not reach.

        Raises AllocationError.
        """
        facts = self._facts.get(id(device))
        if facts is None:
            return None
        return self._verdict(request, as_facts(request), facts, self._kept(request))

    def _kept(self, request: Request) -> Kept:
        if not self._rules.by_device:
            return {}
        return self._ratings.of((self._rules.key(self._pod), shape_of(request)))

    def _verdict(
        self, request: Request, facts: values.RequestFacts, device: values.DeviceFacts, kept: Kept
    ) -> DeviceVerdict:
        entry = kept.get(id(device))
        if entry is not None and entry[0] is device:
            return entry[1]
        try:
            if self._rater is None:
                self._rater = self._rules.rater(self._pod, self._row)
            verdict = self._rater(facts, device)
        except values.RuleError as error:
            raise _failure(request, error) from None
        kept[id(device)] = device, verdict
        self._ratings.count += 1
        return verdict


def _failure(request: Request, error: values.RuleError) -> AllocationError:
    return AllocationError(f"claim {request.claim}, request {request.name}: {error}")


def _best_first(rated: tuple[float, Candidate]) -> float:
    return -rated[0]


def shape_of(request: Request) -> Hashable:
    """Return what rules see of a request."""
    capacity = tuple(sorted((name, str(amount)) for name, amount in request.capacity.items()))
    named = request.full_name, request.class_name, request.mode, request.count
    return (*named, request.admin_access, capacity)


def _units(name: str, amount: Amount) -> int:
    """Return an amount in scheduler units, 0 for one that is no quantity."""
    try:
        return units(name, amount)
    except ValueError:
        return 0


def as_facts(request: Request) -> values.RequestFacts:
    """Return a request as rules see it."""
    return values.RequestFacts(
        name=request.full_name,
        device_class_name=request.class_name,
        allocation_mode=request.mode,
        count=0 if request.mode == ALL else request.count,
        admin_access=request.admin_access,
        capacity={name: _units(name, amount) for name, amount in request.capacity.items()},
    )


class DeviceAllocation(Protocol):
    """A device that the allocator chose."""

    @property
    def request(self) -> Request:
        """The request that it is for."""

    @property
    def device(self) -> DeviceView:
        """The device."""

    @property
    def consumed(self) -> Mapping[str, Quantity] | None:
        """What is consumed of its capacities, where it may be shared."""

    @property
    def score(self) -> float:
        """Its score."""


def allocation_facts(
    allocated: Sequence[Sequence[DeviceAllocation]], devices: Sequence[NodeDevice]
) -> values.AllocationFacts:
    """Return an allocation as rules see it; ``devices``: those of the node."""
    facts_by_id = {device.view.id: device.facts for device in devices}
    return values.AllocationFacts(
        tuple(
            values.AllocatedDeviceFacts(
                request=device.request.full_name,
                device=facts_by_id.get(device.device.id, values.NO_DEVICE),
                score=device.score,
                consumed_capacity=values.QualifiedNames(
                    device.device.id.driver,
                    {name: amount.units(name) for name, amount in (device.consumed or {}).items()},
                ),
            )
            for claim in allocated
            for device in claim
        )
    )
