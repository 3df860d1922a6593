"""The hostile pods of ``bench Hostile``: an API server admits them, and they are what they say."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from policy_sched.bench import device_manifests, hostile
from policy_sched.bench.manifests import node
from policy_sched.language.cel import compile_selector
from policy_sched.model import KINDS, ApiObject, Node, Pod, PodInfo, ResourceClaim
from policy_sched.scheduler import Reject, Scheduler
from policy_sched.scheduler.setup import assemble, read


def _cases() -> list[hostile.Objects]:
    return [make() for _, make in hostile.HostilePods(pods=20, count=2).cases()]


def _decoded(plain: object) -> ApiObject:
    assert isinstance(plain, dict)
    objects: ApiObject = msgspec.convert(plain, KINDS[plain["apiVersion"], plain["kind"]])
    return objects


def _scheduler(tmp_path: Path, objects: hostile.Objects) -> Scheduler:
    """Return a scheduler with three nodes with devices, and the pods in its queue."""
    (tmp_path / "policies.yaml").write_text(hostile.POLICIES)
    plans, _ = read(None, (str(tmp_path),))
    fixed = [device_manifests.device_class(), *(hostile.machine_slice(i) for i in range(3))]
    things = [_decoded(thing) for _, thing in objects]
    others = [_decoded(thing) for thing in fixed]
    others += [thing for thing in things if not isinstance(thing, Pod)]
    scheduler = assemble(plans, objects=others)
    scheduler.handle.budget.units = 40_000
    for index in range(3):
        scheduler.cache.add_node(msgspec.convert(node(index), Node))
    for number, thing in enumerate(thing for thing in things if isinstance(thing, Pod)):
        meta = msgspec.structs.replace(thing.metadata, uid=f"pod-{number}")
        scheduler.add_pod(PodInfo.of(msgspec.structs.replace(thing, metadata=meta)))
    return scheduler


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (1, "3 cannot allocate all claims"),
        (2, "timed out trying to allocate devices"),
        (3, "timed out trying to allocate devices"),
    ],
)
def test_claims_are_in_vain(case: int, message: str, tmp_path: Path) -> None:
    """Each takes as much work as a claim may take, and no two are alike."""
    objects = _cases()[case]
    scheduler = _scheduler(tmp_path, objects)
    attempt = scheduler.pop()
    assert attempt is not None
    chosen = scheduler.choose(attempt)
    assert isinstance(chosen, Reject)
    assert message in chosen.message
    claims = [
        decoded for _, plain in objects if isinstance(decoded := _decoded(plain), ResourceClaim)
    ]
    assert len({msgspec.json.encode(claim.spec) for claim in claims}) == len(claims) == 2


def test_hostile_selectors_are_just_within_what_the_api_admits() -> None:
    """They are next to what kube-apiserver admits, not beyond."""
    for _, plain in _cases()[3]:
        claim = _decoded(plain)
        if isinstance(claim, ResourceClaim):
            asked = claim.spec.devices.requests[0].exactly
            assert asked is not None
            assert asked.selectors[0].cel is not None
            selector = compile_selector(asked.selectors[0].cel.expression, new=True)
            assert not selector.problems


def test_the_last_cases_are_a_rule_and_a_group(tmp_path: Path) -> None:
    """A rule that loops until its limit, and a group that fits into no rack."""
    *_, wordy, group = _cases()
    scheduler = _scheduler(tmp_path, wordy[:1])
    outcome = scheduler.schedule_one()
    assert outcome is not None
    assert not outcome.node
    assert len(group) == hostile.GROUPED * 20
    labels = {label for _, item in group for label in PodInfo.of(_pod(item)).labels.items()}
    assert len(labels) == 1


def _pod(plain: object) -> Pod:
    decoded = _decoded(plain)
    assert isinstance(decoded, Pod)
    return decoded


@pytest.mark.parametrize(("gap", "verdict"), [(200, "0.20 s, below"), (2500, "2.50 s, NOT below")])
def test_the_longest_gap_is_judged(gap: int, verdict: str) -> None:
    """The lease is to be renewed within a second, whatever comes."""
    cases = {
        name: hostile.HostileCase(2, ms, 10.0, 1.0, 2.0, 2.0)
        for name, ms in (("a", 100), ("b", gap))
    }
    result = hostile.Beside.of(10, 2, cases)
    assert (result.lease_gap_ms < hostile.MAY_TAKE_MS) is ("NOT" not in verdict)
    assert verdict in list(result.text_lines())[-1]
    assert result.document()["lease_gap_ms"] == gap
