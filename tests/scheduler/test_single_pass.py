"""One pass over the queue: each ready pod has a decision, and no pod is retried for its own."""

from __future__ import annotations

from pathlib import Path

from policy_sched.manifests.admission import set_creation_times
from policy_sched.model.pod_info import PodInfo
from policy_sched.policytest.scenario import load_scenarios
from policy_sched.scheduler.scheduler import single_pass
from policy_sched.scheduler.setup.factory import assemble, build, load_cluster, read
from policy_sched.simulate.one_shot import run_queue
from policy_sched.testing import make_node, make_pod

GANGS = str(Path(__file__).parents[1] / "conformance" / "gang.jsonl.gz")


def test_a_pod_that_fits_nowhere_is_decided_once() -> None:
    """Requeued pods wait for an event, of which there is none."""
    scheduler = build(None)
    scheduler.cache.add_node(make_node("a", cpu="1"))
    for name in ("p", "q", "r"):
        scheduler.add_pod(PodInfo.of(make_pod(name, cpu="1")))
    found = [(outcome.pod.name, outcome.node) for outcome in single_pass(scheduler)]
    assert found == [("p", "a"), ("q", ""), ("r", "")]
    assert list(single_pass(scheduler)) == []


def test_pods_that_become_ready_meanwhile_take_no_turn_from_others() -> None:
    """Groups whose pods were gated at first: every other pod is decided all the same."""
    (scenario,) = [one for one in load_scenarios(GANGS) if one.name == "gang-029"]
    plans, _ = read(scenario.config, scenario.policies, feature_gates=scenario.gates)
    objects = [*scenario.objects, *scenario.pending]
    set_creation_times(objects, scenario.now)
    scheduler = assemble(plans, objects=objects, now=lambda: scenario.now)
    pending = [PodInfo.of(pod) for pod in load_cluster(scheduler.cache, objects)]
    run = run_queue(scheduler, pending, lambda _more: None)
    assert [one.pod for one in run.placements] == [info.key for info in pending]
