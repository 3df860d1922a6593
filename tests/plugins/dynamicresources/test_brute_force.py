"""The allocator finds something exactly where trying everything does, and what it finds holds."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

from hypothesis import given, settings, strategies as st

from policy_sched.plugins.dynamicresources.allocator import Allocator
from policy_sched.plugins.dynamicresources.devices import DeviceId, NodeView
from policy_sched.plugins.dynamicresources.pools import AllocatedState, SliceIndex
from policy_sched.plugins.dynamicresources.requests import ClaimPlan
from tests.examples import scaled

from .world import DRIVER, device_class, exactly, resource_claim, resource_slice

Plain = dict[str, Any]

devices_of_node = st.lists(
    st.fixed_dictionaries({"numa": st.integers(0, 2), "big": st.booleans()}), max_size=6
)
requests_of_claim = st.lists(
    st.fixed_dictionaries({"count": st.integers(1, 2), "big": st.booleans()}),
    min_size=1,
    max_size=3,
)


def _works(
    devices: list[Plain], requests: list[Plain], chosen: tuple[tuple[int, ...], ...], match: bool
) -> bool:
    taken = [index for group in chosen for index in group]
    if len(taken) != len(set(taken)):
        return False
    for request, group in zip(requests, chosen, strict=True):
        if request["big"] and not all(devices[index]["big"] for index in group):
            return False
    return not match or len({devices[index]["numa"] for index in taken}) <= 1


@settings(max_examples=scaled(150), deadline=None)
@given(
    devices=devices_of_node,
    claims=st.lists(requests_of_claim, min_size=1, max_size=2),
    used=st.sets(st.integers(0, 5)),
    match=st.booleans(),
)
def test_the_first_solution_is_found(
    devices: list[Plain], claims: list[list[Plain]], used: set[int], match: bool
) -> None:
    """Requests in order, each with its devices in order: the first choice of all that works."""
    published = [
        {
            "name": f"d{index}",
            "attributes": {"numa": {"int": one["numa"]}, "big": {"bool": one["big"]}},
        }
        for index, one in enumerate(devices)
    ]
    big = [{"cel": {"expression": f'device.attributes["{DRIVER}"].big'}}]
    plans = []
    for number, requests in enumerate(claims):
        asked = [
            exactly(f"r{i}", one["count"], selectors=big if one["big"] else [])
            for i, one in enumerate(requests)
        ]
        constraints = [{"matchAttribute": f"{DRIVER}/numa"}] if match else []
        claim = resource_claim(f"c{number}", *asked, constraints=constraints)
        plans.append(ClaimPlan.of(claim, {"gpu": device_class()}.get))
    state = AllocatedState(frozenset(DeviceId(DRIVER, "n", f"d{index}") for index in used))
    node = NodeView("n", {})
    pools = SliceIndex([resource_slice("n", published)]).gather(node)
    found = Allocator(node, pools, state).allocate(plans)
    got = None
    if found is not None:
        got = [[int(one.device.id.device[1:]) for one in taken] for taken in found]
    assert got == _first(devices, claims, used, match=match)


def _first(
    devices: list[Plain], claims: list[list[Plain]], used: set[int], *, match: bool
) -> list[list[int]] | None:
    """Try everything in order."""
    free = [index for index in range(len(devices)) if index not in used]
    every = [request for requests in claims for request in requests]
    choices = [list(combinations(free, request["count"])) for request in every]
    for chosen in product(*choices):
        groups, at, fine = [], 0, len(set(sum(chosen, ()))) == sum(map(len, chosen))
        for requests in claims:
            part = chosen[at : at + len(requests)]
            at += len(requests)
            fine = fine and _works(devices, requests, part, match)
            groups.append([index for group in part for index in group])
        if fine:
            return groups
    return None
