"""Conflicts that a witness accepts: two bindings unaware of each other, as in kube-scheduler."""

from __future__ import annotations

from policy_sched.client.apimachinery.object import Key
from policy_sched.client.apimachinery.resources import POD
from policy_sched.model.pod import Pod
from policy_sched.model.pod_info import PodInfo
from policy_sched.testing import make_node, make_pod
from tests.scheduler.life import Life
from tests.scheduler.witness import Witness


def one_node(*names: str) -> Life:
    """Return a life with a node of 4 cpus, and pending pods of 3."""
    life = Life()
    life.node("n0")
    life.hear()
    for name in names:
        life.pod(name, 3, high=False, gated=False)
    return life


def bound(life: Life) -> list[str]:
    """Return the names of the pods that are on a node."""
    return [pod.metadata.name for pod in life.pods() if pod.spec.node_name]


def uids(life: Life) -> list[str]:
    """Return the UIDs of all pods."""
    return [pod.metadata.uid for pod in life.pods()]


def test_two_schedulers_unaware_of_each_other_overcommit_a_node() -> None:
    """The scheduler decides by the events it has, and the kubelet rejects the last pod."""
    life = one_node("theirs", "ours")
    life.hear()
    life.bind_elsewhere(0, 0, careful=True)
    life.tick()
    life.schedule()  # the other scheduler's, not delivered to this one either
    life.schedule()
    assert bound(life) == ["theirs", "ours"]
    assert life.free(life.nodes()[0]) < 0
    assert life.witness.complaints == []
    assert life.witness.excuses(uids(life))
    life.settle()
    assert bound(life) == ["theirs"]


def test_a_scheduler_that_sees_a_full_node_avoids_it() -> None:
    """A pod that another scheduler bound counts once its event arrived."""
    life = one_node("theirs", "ours")
    life.hear()
    life.bind_elsewhere(0, 0, careful=True)
    life.hear()
    life.schedule()
    life.schedule()
    assert bound(life) == ["theirs"]


def test_an_assumed_pod_survives_an_update_before_its_binding() -> None:
    """A pod that waits for Permit is bound although another scheduler has filled its node."""
    life = one_node("ours")
    life.chaos.faults["permit"] = "slow"
    life.go_on()
    life.pod("theirs", 3, high=False, gated=False)
    life.bind_elsewhere(1, 0, careful=True)
    life.hear()
    (waiting,) = life.scheduler.handle.waiting_pods
    waiting.allow("Chaos")
    life.tick()
    assert sorted(bound(life)) == ["ours", "theirs"]
    assert life.witness.complaints == []
    assert life.witness.excuses(uids(life))


def test_what_one_of_two_knew_is_not_excused() -> None:
    """A decision must leave capacity for the pods whose events arrived."""
    witness = Witness()
    first, second = (PodInfo.of(make_pod(name, cpu="3")) for name in ("first", "second"))
    witness.came(make_node("n0"))
    witness.came(make_pod("first", cpu="3", node_name="n0"))
    witness.other_bindings(first.uid, ())
    witness.decided(second, "n0")
    witness.sent(second.uid)
    witness.undone(second)
    witness.answered(second.uid, bound=True)
    assert witness.complaints == [
        "default/second takes 3000 of n0, which has 1000",
        "default/second was given up before the cluster had answered",
    ]
    assert not witness.excuses([first.uid, second.uid])


def test_an_unschedulable_or_deleted_node_receives_no_pod() -> None:
    """Unschedulable nodes accept no pods, and nominations use capacity, too."""
    witness = Witness()
    pod = PodInfo.of(make_pod("p", cpu="1"))
    other = PodInfo.of(make_pod("other", cpu="4"))
    witness.came(make_node("open"))
    witness.came(make_node("closed", unschedulable=True))
    witness.nominated = lambda node: [other] if node == "open" else []
    for node in ("closed", "nowhere", "open"):
        witness.decided(pod, node)
        witness.undone(pod)
    assert [complaint.split(", ")[1] for complaint in witness.complaints] == ["which has 0"] * 3


def test_a_pod_that_is_gone_takes_nothing() -> None:
    """The witness drops a deleted pod."""
    life = one_node("first")
    life.settle()
    assert list(life.witness.counted().values()) == ["n0"]
    stored = life.store.find(POD, "default", "first")
    assert stored is not None
    assert isinstance(stored.typed, Pod)
    life.cluster.delete(Key(POD, "default", "first"))
    life.settle()
    assert life.witness.counted() == {}
