"""What a policy's rules say of an event, for pods that they rejected."""

from __future__ import annotations

from pathlib import Path

from policy_sched import scheduler
from policy_sched.model.pod_info import PodInfo
from policy_sched.scheduler import setup
from policy_sched.testing import FakeClock, make_node, make_pod

POLICY = """apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: disks}
spec:
  filter:
  - {expression: "node.labels[?'disk'].orValue('') == 'ssd'", message: no ssd}
"""


def test_each_change_of_a_node_is_judged_anew(tmp_path: Path) -> None:
    """A pod waited for minutes though its node had changed, as a change before had not helped."""
    Path(tmp_path, "disks.yaml").write_text(POLICY, encoding="utf-8")
    clock = FakeClock(setup.EPOCH)
    decides = setup.build(None, [str(tmp_path)], now=clock)
    scheduler.node_seen(decides, make_node("n0", labels={"disk": "hdd"}))
    scheduler.pod_seen(decides, PodInfo.of(make_pod("p")))
    outcome = decides.schedule_one()
    assert outcome is not None
    assert not outcome.node
    for disk in ("tape", "ssd"):
        scheduler.node_seen(decides, make_node("n0", labels={"disk": disk}))
    clock.ns += 60 * 10**9  # longer than any backoff, shorter than what makes all pods try again
    outcome = decides.schedule_one()
    assert outcome is not None
    assert outcome.node == "n0"
