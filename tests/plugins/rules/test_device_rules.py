"""Rules over devices in a whole scheduler: which device a claim gets, and what nodes may read."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import combinations, product
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from policy_sched.errors import PolicyError
from policy_sched.explain import explain
from policy_sched.model import ApiObject, PodInfo
from policy_sched.plugins.dynamicresources.device_rules import _MOST_RATED, Ratings
from policy_sched.profiles.reload.inputs import PolicyFiles
from policy_sched.profiles.reload.store import PolicyStore, ReloadResult
from policy_sched.scheduler import Scheduler
from policy_sched.scheduler.setup import assemble, read
from policy_sched.scheduler.setup.factory import assemble_with_assembly
from policy_sched.scheduler.setup.reload import Reloader
from policy_sched.testing import FakeClock, make_node
from tests.examples import scaled
from tests.plugins.dynamicresources.world import (
    DRIVER,
    device_class,
    devices_of,
    exactly,
    pod_with,
    resource_claim,
    resource_slice,
    schedule,
)

Plain = dict[str, Any]
RANKED = """
  devices:
    filter:
    - expression: '!device.attributes[?"broken"].?bool.orValue(false)'
      message: broken
    score: {expression: 'device.attributes[?"rank"].?int.orValue(0)'}
"""


def plans_of(*sections: str, folder: Path, weights: tuple[int, ...] = ()) -> Any:
    """Return the plans of a profile with policies P0, P1 and so on of these sections."""
    text = "---".join(
        f"\napiVersion: policysched.dev/v1alpha1\nkind: Policy\nmetadata: {{name: P{i}}}\nspec:"
        + section
        for i, section in enumerate(sections)
    )
    (folder / "policy.yaml").write_text(text)
    enabled = [{"name": f"P{i}", "weight": weight} for i, weight in enumerate(weights)]
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"multiPoint": {"enabled": enabled}}}],
    }
    return read(config if weights else None, [str(folder / "policy.yaml")])[0]


def scheduler_of(plans: Any, nodes: list[str], objects: list[ApiObject]) -> Scheduler:
    """Return a scheduler whose cluster has nodes and objects."""
    scheduler = assemble(plans, objects=objects)
    for name in nodes:
        scheduler.cache.add_node(make_node(name, cpu="8"))
    return scheduler


def published(devices: list[Plain]) -> list[Plain]:
    """Return devices of a slice with a rank, a numa node, and whether they are broken."""
    return [
        {
            "name": f"d{i}",
            "attributes": {
                "rank": {"int": one["rank"]},
                "numa": {"int": one["numa"]},
                "broken": {"bool": one["broken"]},
            },
        }
        for i, one in enumerate(devices)
    ]


@pytest.fixture(scope="module")
def ranked(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the plans of a profile whose policy ranks devices by an attribute."""
    return plans_of(RANKED, folder=tmp_path_factory.mktemp("ranked"))


@settings(max_examples=scaled(60), deadline=None)
@given(
    devices=st.lists(
        st.fixed_dictionaries(
            {"rank": st.integers(-2, 2), "numa": st.integers(0, 1), "broken": st.booleans()}
        ),
        max_size=6,
    ),
    counts=st.lists(st.integers(1, 2), min_size=1, max_size=3),
    match=st.booleans(),
)
def test_the_first_solution_by_score_is_taken(
    ranked: Any, devices: list[Plain], counts: list[int], match: bool
) -> None:
    """Requests in order, each with its devices by score and then in order: the first that works."""
    constraints = [{"matchAttribute": f"{DRIVER}/numa"}] if match else []
    asked = [exactly(f"r{i}", count) for i, count in enumerate(counts)]
    claim = resource_claim("c", *asked, constraints=constraints)
    objects = [device_class(), resource_slice("n", published(devices)), claim]
    scheduler = scheduler_of(ranked, ["n"], objects)
    placed = schedule(scheduler, pod_with("p", "c")) == ["n"]
    got = [int(name.removeprefix("n/d")) for name in devices_of(scheduler, "c")]
    expected = brute_force(devices, counts, match=match)
    assert placed == (expected is not None)
    assert got == (expected or [])


def brute_force(devices: list[Plain], counts: list[int], *, match: bool) -> list[int] | None:
    """Try every choice in the stated order."""
    allowed = [i for i, one in enumerate(devices) if not one["broken"]]
    order = sorted(allowed, key=lambda i: (-devices[i]["rank"], i))
    for chosen in product(*(combinations(order, count) for count in counts)):
        flat = [i for group in chosen for i in group]
        near = not match or len({devices[i]["numa"] for i in flat}) <= 1
        if len(set(flat)) == len(flat) and near:
            return flat
    return None


def test_without_a_score_the_first_device_that_is_allowed_is_taken(tmp_path: Path) -> None:
    """A filter alone leaves kube-scheduler's order."""
    section = "\n  devices: {filter: [{expression: 'device.index > 0'}]}\n"
    objects = [device_class(), resource_slice("n", ["a", "b", "c"]), resource_claim("c")]
    scheduler = scheduler_of(plans_of(section, folder=tmp_path), ["n"], objects)
    assert schedule(scheduler, pod_with("p", "c")) == ["n"]
    assert devices_of(scheduler, "c") == ["n/b"]


def test_scores_of_policies_are_added_by_their_weights(tmp_path: Path) -> None:
    """Two policies of one profile rate a device together."""
    one = "\n  devices: {score: {expression: device.index}}\n"
    other = "\n  devices: {score: {expression: 1 - device.index}}\n"
    for weights, device in (((3, 1), "n/b"), ((1, 3), "n/a")):
        objects = [device_class(), resource_slice("n", ["a", "b"]), resource_claim("c")]
        plans = plans_of(one, other, folder=tmp_path, weights=weights)
        scheduler = scheduler_of(plans, ["n"], objects)
        schedule(scheduler, pod_with("p", "c"))
        assert devices_of(scheduler, "c") == [device]


def test_match_conditions_guard_the_section(tmp_path: Path) -> None:
    """For a pod that the policy does not match, the first device is taken."""
    section = (
        "\n  matchConditions: [pod.priority > 0]\n  devices: {score: {expression: device.index}}\n"
    )
    claims = [resource_claim(name) for name in ("c", "d")]
    objects = [device_class(), resource_slice("n", ["a", "b", "c", "d"]), *claims]
    scheduler = scheduler_of(plans_of(section, folder=tmp_path), ["n"], objects)
    schedule(scheduler, pod_with("p", "c"), pod_with("q", "d", priority=1))
    assert devices_of(scheduler, "c") == ["n/a"]
    assert devices_of(scheduler, "d") == ["n/d"]


def test_a_node_scores_as_the_device_that_the_pod_gets_there(tmp_path: Path) -> None:
    """`allocation.score` is that of the best device, and that one is taken."""
    section = RANKED + "  score: {expression: allocation.score, normalize: MinMax}\n"
    ranks = {"n0": [0, 3], "n1": [5, 1], "n2": [4, 4]}
    slices = [
        resource_slice(node, published([{"rank": r, "numa": 0, "broken": False} for r in found]))
        for node, found in ranks.items()
    ]
    claims = [resource_claim(f"c{i}") for i in range(4)]
    objects = [device_class(), *slices, *claims]
    scheduler = scheduler_of(plans_of(section, folder=tmp_path, weights=(100,)), [*ranks], objects)
    pods = [pod_with(f"p{i}", f"c{i}") for i in range(4)]
    assert schedule(scheduler, *pods) == ["n1", "n2", "n2", "n0"]
    taken = [device for i in range(4) for device in devices_of(scheduler, f"c{i}")]
    assert taken == ["n1/d0", "n2/d0", "n2/d1", "n0/d1"]


def test_a_rule_that_aborts_names_the_device(tmp_path: Path) -> None:
    """The attempt fails with the rule, the reason and the device."""
    section = (
        "\n  devices: {filter: [{expression: 'device.attributes[\"tier\"].int > 0', "
        "onError: Abort}]}\n"
    )
    objects = [device_class(), resource_slice("n", ["a"]), resource_claim("c")]
    scheduler = scheduler_of(plans_of(section, folder=tmp_path), ["n"], objects)
    scheduler.add_pod(pod_with("p", "c"))
    outcome = scheduler.schedule_one()
    assert outcome is not None
    expected = "rule P0.devices.filter[0]: no such key 'tier' (device gpu.example.com/n/a)"
    assert expected in outcome.message


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("devices: {}", "spec.devices: Required value: filter, score, or both"),
        (
            "devices: {score: {expression: device.fre}}",
            "Device has no field 'fre'; did you mean 'free'?",
        ),
        (
            "devices: {filter: [{expression: device.shares}]}",
            "devices.filter must be bool, found int",
        ),
        (
            "filter: [{expression: device.allocated}]",
            "`device` is not available in filter",
        ),
        (
            "devices: {filter: [{expression: now > pod.creationTime}]}",
            "`now` is not available in devices.filter",
        ),
    ],
)
def test_mistakes_are_told_when_the_policy_is_read(
    tmp_path: Path, section: str, message: str
) -> None:
    """Each with its place, as in any other section."""
    with pytest.raises(PolicyError) as error:
        plans_of(f"\n  {section}\n", folder=tmp_path)
    (found, *_) = error.value.diagnostics
    assert message in found.message
    assert found.line > 1


def test_explanations_name_scores_and_the_rules_that_refuse(tmp_path: Path) -> None:
    """Of the best node every device; of a node without devices the rule, with its message."""
    broken = {"rank": 9, "numa": 0, "broken": True}
    devices = [{"rank": rank, "numa": 0, "broken": False} for rank in (3, 80)]
    objects = [
        device_class(),
        resource_slice("n0", published([*devices, broken])),
        resource_slice("n1", published([broken])),
        resource_claim("c"),
    ]
    scheduler = scheduler_of(plans_of(RANKED, folder=tmp_path), ["n0", "n1"], objects)
    pod = pod_with("p", "c")
    lines = list(explain(scheduler, pod).text_lines())
    start = lines.index("Devices of n0 for request r:")
    assert lines[start + 1 : start + 4] == [
        "  d1  score 80, chosen",
        "  d0  score 3",
        "  d2  rejected by rule P0.devices.filter[0] (broken)",
    ]
    scheduler.cache.remove_node(scheduler.handle.nodes.nodes[scheduler.handle.nodes.row_of["n0"]])
    text = "\n".join(explain(scheduler, pod).text_lines())
    assert "n1  1 device: 1 rejected by rule P0.devices.filter[0] (broken)" in text


SEEDED = """
from policy_sched.policytest.runner import run_scenario
from policy_sched.policytest.scenario import load_scenarios
for name in ("device-packing", "device-locality", "share-packing"):
    for scenario in load_scenarios(f"policies/{name}/tests.yaml"):
        for step in run_scenario(scenario):
            print(step.pod, step.got)
"""


def test_the_same_devices_whatever_the_hash_seed() -> None:
    """Two processes with other hash seeds decide every step of the shipped tests alike."""
    root = Path(__file__).parents[3]
    found = {
        subprocess.run(
            [sys.executable, "-c", SEEDED],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
            cwd=root,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1
    assert "devices=" in found.pop()


def test_the_device_is_the_one_that_was_rated_before_the_pod_was_counted(tmp_path: Path) -> None:
    """A rule that reads what runs on the node sees it without the pod, also when it is reserved."""
    even = "node.podCount % 2 == 0 ? device.index : 0 - device.index"
    section = f"\n  devices: {{score: {{expression: '{even}'}}}}\n"
    claims = [resource_claim(f"c{i}") for i in range(3)]
    objects = [device_class(), resource_slice("n", ["a", "b", "c", "d"]), *claims]
    scheduler = scheduler_of(plans_of(section, folder=tmp_path), ["n"], objects)
    schedule(scheduler, *(pod_with(f"p{i}", f"c{i}") for i in range(3)))
    taken = [device for i in range(3) for device in devices_of(scheduler, f"c{i}")]
    assert taken == ["n/d", "n/a", "n/c"]


def test_pods_that_differ_in_what_rules_read_share_no_evaluation(tmp_path: Path) -> None:
    """Equal claims, other labels: each pod gets the device that the rules mean for it."""
    section = (
        "\n  devices: {filter: [{expression: "
        '\'device.attributes["rank"].int == int(pod.labels["rank"])\'}]}\n'
    )
    devices = published([{"rank": r, "numa": 0, "broken": False} for r in (1, 2, 1, 2)])
    claims = [resource_claim(f"c{i}") for i in range(5)]
    objects = [device_class(), resource_slice("n", devices), *claims]
    scheduler = scheduler_of(plans_of(section, folder=tmp_path), ["n"], objects)
    pods = [
        PodInfo.of(
            msgspec.structs.replace(
                pod.pod, metadata=msgspec.structs.replace(pod.pod.metadata, labels={"rank": rank})
            )
        )
        for i, rank in enumerate("21121")
        for pod in [pod_with(f"p{i}", f"c{i}")]
    ]
    assert schedule(scheduler, *pods) == ["n", "n", "n", "n", ""]
    taken = [devices_of(scheduler, f"c{i}") for i in range(5)]
    assert taken == [["n/d1"], ["n/d0"], ["n/d2"], ["n/d3"], []]


def test_a_reload_of_the_policy_changes_which_device_is_taken(tmp_path: Path) -> None:
    """Pods that its filter kept out are tried again, and are rated by the new rules."""
    narrow = "\n  devices: {filter: [{expression: device.index > 2}]}\n"
    plans_of(narrow, folder=tmp_path)
    store = PolicyStore(PolicyFiles(None, (str(tmp_path),)), FakeClock())
    claims = [resource_claim(f"c{i}") for i in range(3)]
    objects = [device_class(), resource_slice("n", ["a", "b", "c", "d"]), *claims]
    scheduler, assembly = assemble_with_assembly(store.current.plans, objects=objects)
    scheduler.cache.add_node(make_node("n", cpu="8"))
    reloader = Reloader(scheduler, assembly, store)
    pods = [pod_with(f"p{i}", f"c{i}") for i in range(2)]
    assert schedule(scheduler, *pods) == ["n", ""]
    plans_of("\n  devices: {score: {expression: device.index}}\n", folder=tmp_path)
    assert reloader.reload().result is ReloadResult.LOADED
    outcome = scheduler.schedule_one()
    assert outcome is not None
    assert (outcome.pod.name, outcome.node) == ("p1", "n")
    assert schedule(scheduler, pod_with("p2", "c2")) == ["n"]
    taken = [device for i in range(3) for device in devices_of(scheduler, f"c{i}")]
    assert taken == ["n/d", "n/c", "n/b"]


def test_all_devices_of_a_class_are_those_that_are_allowed(tmp_path: Path) -> None:
    """For a request of all devices the filter counts as a selector does."""
    section = "\n  devices: {filter: [{expression: 'device.name != \"b\"'}]}\n"
    every = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}
    objects = [
        device_class(),
        resource_slice("n", ["a", "b", "c"]),
        resource_claim("c", every),
    ]
    scheduler = scheduler_of(plans_of(section, folder=tmp_path), ["n"], objects)
    schedule(scheduler, pod_with("p", "c"))
    assert devices_of(scheduler, "c") == ["n/a", "n/c"]


def test_pods_that_rules_tell_apart_are_answered_apart(tmp_path: Path) -> None:
    """Their claims are alike, and the rules read a label of the pod: each gets its own devices."""
    plans = plans_of(
        """
  devices:
    filter:
    - expression: '(device.index % 2 == 0) == (pod.labels[?"team"].orValue("") == "a")'
""",
        folder=tmp_path,
    )
    teams = "abbaababbbaabbaabaabbbaaabab"
    claims = [resource_claim(f"c{i}") for i in range(len(teams))]
    nodes = ["n0", "n1", "n2"]
    slices = [resource_slice(node, [f"d{i}" for i in range(7)]) for node in nodes]
    scheduler = scheduler_of(plans, nodes, [device_class(), *slices, *claims])
    left = {"a": 12, "b": 9}
    for i, team in enumerate(teams):
        pod = pod_with(f"p{i}", f"c{i}")
        pod.pod.metadata.labels["team"] = team
        placed = schedule(scheduler, pod) != [""]
        assert placed == bool(left[team]), i
        left[team] -= placed
        for device in devices_of(scheduler, f"c{i}"):
            assert (int(device[-1]) % 2 == 0) == (team == "a")


def test_verdicts_of_requests_without_a_device_are_bounded_too() -> None:
    """Each request of another form is counted, also where no device was rated for it."""
    ratings = Ratings()
    most = 0
    for number in range(3 * _MOST_RATED // 2):
        ratings.of(number)
        most = max(most, len(ratings.kept))
    assert most <= _MOST_RATED + 1
    assert len(ratings.kept) < most
