"""Reloads while pods wait for permission: the plugins now in force say what becomes of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy_sched.model.pod_info import PodInfo, QueueState
from policy_sched.profiles.reload.store import ReloadResult
from policy_sched.testing import make_pod
from tests.profiles.policy_texts import HEAD, config, write
from tests.scheduler.setup.test_reload import World


class Held(World):
    """A world whose profile "one" has a policy with a permit section."""

    def permit(self, section: str) -> None:
        """Write the section, and load it; "" for no policy."""
        path = self.folder / "hold.yaml"
        if section:
            write(path, f"{HEAD.replace('NAME', 'Hold')}  permit: {section}\n")
        else:
            path.unlink()
        names = ["Keep", "Gate", "Hold"] if section else ["Keep", "Gate"]
        write(self.folder / "config.yaml", config({"one": names}, "Sort"))
        reloaded = self.reload()
        assert reloaded.result is ReloadResult.LOADED, reloaded

    def held(self) -> PodInfo:
        """Return a pod that was chosen a node and waits for ten minutes at most."""
        self.permit("{allow: 'false', timeout: 10m, message: held}")
        pod = PodInfo.of(make_pod("p", labels={"app": "a"}, scheduler_name="one"))
        self.scheduler.add_pod(pod)
        self.schedule()
        assert self.scheduler.handle.waiting_pods.get(pod.uid) is not None
        return pod

    def due(self) -> list[str]:
        """Do what is due; return the messages of the attempts that ended."""
        return [outcome.message for outcome in self.scheduler.run_due()]


@pytest.fixture
def world(tmp_path: Path) -> Held:
    """One profile that is about to hold a pod."""
    return Held(tmp_path, ("one",))


def test_a_pod_that_the_new_policy_allows_is_bound(world: Held) -> None:
    """A pod that waited on Permit went on waiting under a rule that nobody wanted any more."""
    pod = world.held()
    world.permit('{allow: \'pod.labels["app"] == "a"\', timeout: 10m, message: held}')
    assert world.scheduler.has_woken()
    assert world.due() == [""]
    assert pod.uid in world.client.bindings


def test_a_pod_is_bound_when_the_policy_is_gone(world: Held) -> None:
    """Without a Permit plugin nothing is waited for."""
    pod = world.held()
    world.permit("")
    assert world.due() == [""]
    assert pod.uid in world.client.bindings


def test_a_pod_that_the_new_policy_rejects_gives_its_node_back(world: Held) -> None:
    """Without a timeout the rule does not let it wait; the message is the new one."""
    pod = world.held()
    world.permit("{allow: 'false', message: not today}")
    assert world.due() == ["0/1 nodes are available: 1 not today."]
    assert world.client.bindings == {}
    assert world.place(pod) is QueueState.BACKOFF
    assert not world.scheduler.cache.is_assumed(pod.uid)


def test_a_pod_that_waits_on_has_waited_since_it_was_held(world: Held) -> None:
    """The new timeout counts from the start of the wait, and is looked at when it is due."""
    world.held()
    world.clock.advance(60)
    world.permit("{allow: 'false', timeout: 2m, message: longer}")
    assert world.due() == []
    world.clock.advance(59)
    assert world.due() == []
    world.clock.advance(1)
    (message,) = world.due()
    assert "rejected due to timeout after waiting 2m0s at plugin Hold" in message


def test_a_later_change_of_what_the_new_rule_reads_counts(world: Held) -> None:
    """The pod is evaluated again by the new rule, not by the old one."""
    pod = world.held()
    world.permit("{allow: 'node.podCount >= 2', timeout: 10m, message: alone}")
    assert world.due() == []
    (node,) = [world.scheduler.cache.node_of(pod.uid)]
    assert node is not None
    other = PodInfo.of(make_pod("other", node_name=node, phase="Running"))
    world.scheduler.cache.add_pod(other)
    assert world.due() == [""]
    assert pod.uid in world.client.bindings


def test_a_reload_that_changes_another_profile_leaves_it_alone(tmp_path: Path) -> None:
    """Only the profiles that changed are asked."""
    world = Held(tmp_path, ("one",))
    pod = world.held()
    waiting = world.scheduler.handle.waiting_pods.get(pod.uid)
    names = {"one": ["Keep", "Gate", "Hold"], "two": ["Keep"]}
    write(world.folder / "config.yaml", config(names, "Sort"))
    assert world.reload().changes.added == ("two",)
    assert world.due() == []
    assert waiting is not None
    assert not waiting.ended
