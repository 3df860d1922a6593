"""Audited policies: what they would have changed is counted, and they decide nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace

from policy_sched.errors import PolicyError, TakesLong
from policy_sched.framework import Code, Status
from policy_sched.framework.evaluate import Evaluation, Evaluator
from policy_sched.instance.app import EmbeddedInstance, Sources
from policy_sched.instance.app.audit import Audits, Share
from policy_sched.instance.http.status_pages import audits
from policy_sched.instance.observability import DecisionLog, PolicyMetrics
from policy_sched.language.values import remaining
from policy_sched.model import PodInfo, QueuedPod
from policy_sched.profiles.reload import PolicyFiles
from policy_sched.scheduler import Attempt, Bind, Decision, Preempt, Profile, Reject
from policy_sched.scheduler.setup import assemble_with_assembly, read
from policy_sched.testing import make_node, make_pod
from tests import finite
from tests.examples import scaled

NODES = ("a", "b", "c")
CPUS = ("100m", "1", "2", "9")
PRIORITIES = (0, 1, 5)
ARRIVALS = finite.of(*((cpu, priority) for cpu in CPUS for priority in PRIORITIES)).strategy()
POLICY = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {{name: {name}}}
spec:
  enforcement: {enforcement}
  {section}
"""
FILTER = 'filter: [{expression: "node.name == %s", message: elsewhere}]'


def policy(tmp_path: Path, name: str, section: str, enforcement: str = "Audit") -> str:
    """Write a policy."""
    file = tmp_path / f"{name}.yaml"
    file.write_text(POLICY.format(name=name, section=section, enforcement=enforcement))
    return str(file)


def config(tmp_path: Path, *names: str) -> str:
    """Write a configuration that enables policies."""
    file = tmp_path / "config.yaml"
    enabled = ", ".join(f"{{name: {name}}}" for name in names)
    file.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        f"profiles: [{{plugins: {{multiPoint: {{enabled: [{enabled}]}}}}}}]\n"
    )
    return str(file)


class Audited:
    """A scheduler with three nodes, its audits, and what they count and log."""

    def __init__(self, configuration: str | None, files: list[str], *, audits: bool = True) -> None:
        plans, _ = read(configuration, files)
        self.scheduler, self.assembly = assemble_with_assembly(plans, seed=7)
        self.others: dict[str, Profile] = {}
        self.families = PolicyMetrics()
        self.counts = self.families.audit_decisions_total.values
        self.share = 0.1
        self.clock: Callable[[], float] = lambda: 0.0
        self.lines: list[dict[str, Any]] = []
        self.time = 0.0
        self.scheduler.observers.timer = lambda: self.time
        for name in NODES:
            self.scheduler.cache.add_node(make_node(name, cpu="4"))
        if audits:
            log = DecisionLog(self.lines.append, lambda: 0)

            def tick() -> float:
                return self.clock()  # tests set another

            self.audits = Audits(
                self.scheduler,
                lambda profile: {**self.assembly.current.audits.get(profile, {}), **self.others},
                self.families,
                log,
                Share(lambda: self.share, tick, tick),
            )

    def decide(self, *cpus: str) -> list[str]:
        """Decide pods with these requests; return their nodes."""
        nodes = []
        for i, cpu in enumerate(cpus):
            self.scheduler.add_pod(PodInfo.of(make_pod(f"p{i}", cpu=cpu)))
            outcome = self.scheduler.schedule_one()
            assert outcome is not None
            nodes.append(outcome.node)
        return nodes

    def examples(self, name: str) -> list[dict[str, Any]]:
        """Return the examples of what is audited."""
        listed = self.audits.document()["audits"]
        (found,) = [row["examples"] for row in listed if row["policy"] == name]
        return list(found)

    def results(self, name: str) -> dict[str, float]:
        """Return the counts of a policy by result."""
        self.audits.fold()
        return {result: n for (_, audited, result), n in self.counts.items() if audited == name}


def test_each_policy_is_judged_by_itself_and_decides_nothing(tmp_path: Path) -> None:
    """The nodes are those of a scheduler without audits; results differ by policy."""
    files = [
        policy(tmp_path, "Nowhere", FILTER % "''"),
        policy(tmp_path, "OnlyA", FILTER % "'a'"),
        policy(tmp_path, "Harmless", "filter: [{expression: 'true', message: never}]"),
        policy(tmp_path, "LikesB", "score: {expression: \"node.name == 'b' ? 100 : 0\"}"),
    ]
    names = ("Nowhere", "OnlyA", "Harmless", "LikesB")
    audited = Audited(config(tmp_path, *names), files)
    cpus = ("1", "500m", "2", "1", "9", "100m")
    nodes = Audited(None, []).decide(*cpus)
    assert audited.decide(*cpus) == nodes
    bound = [node for node in nodes if node]
    assert len(bound) == len(cpus) - 1
    assert audited.results("Nowhere") == {"unschedulable": len(bound), "same": 1}
    only = audited.results("OnlyA")
    assert only["same"] == bound.count("a") + 1
    assert only["moved"] == len(bound) - bound.count("a")
    assert set(audited.results("Harmless")) <= {"same", "tie"}
    assert sum(audited.results("LikesB").values()) == len(cpus)
    line = next(line for line in audited.lines if line.get("policy") == "OnlyA")
    assert line["result"] == "moved"
    assert line["node"] in {"b", "c"}


def test_a_score_that_prefers_another_node_names_it(tmp_path: Path) -> None:
    """The log has the node that was chosen and the better one."""
    file = policy(tmp_path, "LikesB", "score: {expression: \"node.name == 'b' ? 100 : 0\"}")
    audited = Audited(config(tmp_path, "LikesB"), [file])
    nodes = audited.decide(*["100m"] * 6)
    moved = [line for line in audited.lines if line["result"] == "moved"]
    assert {line["better"] for line in moved} == {"b"}
    assert all(f", {line['node']} " in line["why"] for line in moved)
    assert all(line["why"].startswith("b has ") and "LikesB +100" in line["why"] for line in moved)
    assert len(moved) == sum(node != "b" for node in nodes) > 0


def test_audits_take_a_share_of_the_time(tmp_path: Path) -> None:
    """What is not evaluated is counted as skipped."""
    audited = Audited(
        config(tmp_path, "Harmless"),
        [policy(tmp_path, "Harmless", "filter: [{expression: 'true', message: never}]")],
    )
    ticks = iter(range(1000))
    audited.clock = lambda: float(next(ticks))
    audited.decide(*["100m"] * 20)
    results = audited.results("Harmless")
    evaluated = sum(n for result, n in results.items() if result != "skipped")
    assert results["skipped"] + evaluated == 20
    assert 1 <= evaluated < 10


def test_an_audited_policy_is_in_no_pipeline(tmp_path: Path) -> None:
    """Only the plan beside it has it, and the content differs from that without it."""
    file = policy(tmp_path, "Nowhere", FILTER % "''")
    (plan,), _ = read(config(tmp_path, "Nowhere"), [file])
    assert "Nowhere" not in plan.policies
    assert not any(name == "Nowhere" for names in plan.plan.points.values() for name, _ in names)
    assert "Nowhere" in plan.audits["Nowhere"].policies
    (without,), _ = read(None, [])
    assert without.content_hash != plan.content_hash
    assert not without.audits


def test_a_section_that_does_more_than_choose_is_refused(tmp_path: Path) -> None:
    """With its place, and what to do."""
    sections = "preEnqueue: [{expression: 'true'}]\n  permit: {allow: 'true'}"
    file = policy(tmp_path, "Gate", sections)
    with pytest.raises(PolicyError) as caught:
        read(config(tmp_path, "Gate"), [file])
    assert [
        (d.line, d.column, d.message, d.hint) for d in caught.value.diagnostics if d.file == file
    ] == [
        (
            line,
            3,
            f"spec.{name}: Unsupported: enforcement Audit is for filter and score alone",
            hint,
        )
        for line, name in ((6, "preEnqueue"), (7, "permit"))
        for hint in [f"delete {name}, or move it to a policy that is enforced"]
    ]


def test_a_reload_begins_an_audit_and_ends_it(tmp_path: Path) -> None:
    """What a policy would reject is counted while it is audited, and rejected afterwards."""
    file = policy(tmp_path, "Nowhere", FILTER % "''")
    configuration = config(tmp_path)
    lines: list[dict[str, Any]] = []
    files = PolicyFiles(configuration, (file,))
    instance = EmbeddedInstance(Sources(files), lambda: 10**18, lines.append)
    scheduler, store = instance.scheduler, instance.reloader.store
    scheduler.cache.add_node(make_node("a", cpu="4"))

    def decision(name: str) -> Decision | None:
        scheduler.add_pod(PodInfo.of(make_pod(name)))
        outcome = scheduler.schedule_one()
        assert outcome is not None
        return outcome.decision

    config(tmp_path, "Nowhere")
    instance.reload(store.prepare(), "test")
    assert isinstance(decision("p"), Bind)
    (shown,) = audits(instance)["audits"]
    assert (shown["policy"], shown["decisions"]) == ("Nowhere", {"unschedulable": 1})
    assert [example["pod"] for example in shown["examples"]] == ["default/p"]
    policy(tmp_path, "Nowhere", FILTER % "''", "Enforce")
    instance.reload(store.prepare(), "test")
    assert isinstance(decision("q"), Reject)
    (counted,) = [
        line
        for line in instance.metrics.text().splitlines()
        if line.startswith("policy_sched_audit_decisions_total{")
    ]
    assert 'policy="Nowhere"' in counted
    assert 'result="unschedulable"' in counted
    assert counted.endswith(" 1.0")
    assert audits(instance)["audits"] == []  # it decides by now
    instance.close()


def beside(configuration: str | None, files: list[str], own: Audited) -> None:
    """Audit another set beside the one of a scheduler."""
    plans, _ = read(configuration, files)
    own.others["Other"] = own.assembly.beside(plans[0])


def test_a_set_that_lets_pods_in_is_told(tmp_path: Path) -> None:
    """A pod that found no node would have had one."""
    file = policy(tmp_path, "Nowhere", FILTER % "''", "Enforce")
    own = Audited(config(tmp_path, "Nowhere"), [file])
    beside(None, [], own)
    assert own.decide("1", "9") == ["", ""]
    assert own.results("Other") == {"schedulable": 1, "same": 1}
    (example,) = own.examples("Other")
    assert (example["result"], example["pod"]) == ("schedulable", "default/p0")
    assert example["better"] in NODES
    assert "node" not in example


@pytest.mark.parametrize("seed", range(5))
def test_where_a_search_for_victims_begins_is_no_difference(tmp_path: Path, seed: int) -> None:
    """Three nodes are as good as each other: the same, or a tie."""
    file = policy(tmp_path, "Harmless", "filter: [{expression: 'true', message: never}]")
    own = Audited(config(tmp_path, "Harmless"), [file])
    for name in NODES:
        running = make_pod(f"on-{name}", cpu="4", node_name=name, priority=1)
        own.scheduler.cache.add_pod(PodInfo.of(running))
    own.scheduler.handle.random.seed(seed)
    own.scheduler.add_pod(PodInfo.of(make_pod("urgent", cpu="1", priority=9)))
    outcome = own.scheduler.schedule_one()
    assert outcome is not None
    assert isinstance(outcome.decision, Preempt)
    ((result, count),) = own.results("Harmless").items()
    assert (count, result in {"same", "tie"}) == (1, True)


def test_other_victims_are_a_difference(tmp_path: Path) -> None:
    """The pod on the node that is left has a higher priority: it goes only where it must."""
    file = policy(tmp_path, "OnlyA", FILTER % "'a'")
    own = Audited(config(tmp_path, "OnlyA"), [file])
    for name, priority in zip(NODES, (5, 1, 1), strict=True):
        running = make_pod(f"on-{name}", cpu="4", node_name=name, priority=priority)
        own.scheduler.cache.add_pod(PodInfo.of(running))
    own.scheduler.add_pod(PodInfo.of(make_pod("urgent", cpu="1", priority=9)))
    outcome = own.scheduler.schedule_one()
    assert outcome is not None
    assert isinstance(outcome.decision, Preempt)
    assert outcome.decision.node != "a"
    assert own.results("OnlyA") == {"victims": 1}
    (example,) = own.examples("OnlyA")
    assert (example["better"], example["why"]) == ("a", "evicts default/on-a")


def test_a_quiet_hour_is_not_saved_up(tmp_path: Path) -> None:
    """After it the share is that of a second, and what was spent too much is waited for."""
    del tmp_path
    share = Share(lambda: 0.1, lambda: 0.0)
    assert share.is_left(0.0)
    share.spend(0.5)
    assert not share.is_left(4.0)
    assert share.is_left(5.0)
    assert share.is_left(3605.0)
    share.spend(0.11)
    assert not share.is_left(3605.0)
    assert not Share(lambda: 0.0, lambda: 0.0).is_left(1.0)


def test_all_policies_of_a_pod_are_judged_or_none(tmp_path: Path) -> None:
    """So that their counts are of the same pods; what was skipped has its reason."""
    names = ("Nowhere", "Harmless")
    files = [
        policy(tmp_path, "Nowhere", FILTER % "''"),
        policy(tmp_path, "Harmless", "filter: [{expression: 'true', message: never}]"),
    ]
    own = Audited(config(tmp_path, *names), files)
    ticks = iter(range(1000))
    own.clock = lambda: float(next(ticks))
    own.decide(*["100m"] * 20)
    skipped = {name: own.results(name)["skipped"] for name in names}
    assert skipped["Nowhere"] == skipped["Harmless"] > 0
    listed = {row["policy"]: row for row in own.audits.document()["audits"]}
    assert listed["Nowhere"]["skipped"] == {"share": skipped["Nowhere"]}
    assert sum(listed["Nowhere"]["decisions"].values()) == 20


def test_without_a_share_nothing_is_evaluated(tmp_path: Path) -> None:
    """--audit-share 0 counts all pods as skipped."""
    own = Audited(config(tmp_path, "Nowhere"), [policy(tmp_path, "Nowhere", FILTER % "''")])
    own.share = 0.0
    own.decide("1", "1")
    assert own.results("Nowhere") == {"skipped": 2}


def test_the_last_ten_differences_are_kept(tmp_path: Path) -> None:
    """With pod, nodes and why, the oldest first."""
    own = Audited(config(tmp_path, "OnlyA"), [policy(tmp_path, "OnlyA", FILTER % "''")])
    own.decide(*["100m"] * 12)
    examples = own.examples("OnlyA")
    assert [example["pod"] for example in examples] == [f"default/p{i}" for i in range(2, 12)]
    assert {example["why"] for example in examples} == {"0/3 nodes are available: 3 elsewhere."}


def test_pods_with_devices_are_skipped_and_named(tmp_path: Path) -> None:
    """What a search for devices learns is kept, so it is not made."""
    own = Audited(config(tmp_path, "Nowhere"), [policy(tmp_path, "Nowhere", FILTER % "''")])
    claims = [{"name": "gpu", "resource_claim_name": "missing"}]
    pod = PodInfo.of(make_pod("p", resource_claims=claims))
    assert pod.may_use_devices
    attempt = Attempt(QueuedPod(pod, 0, 0), own.scheduler.profiles["default-scheduler"])
    own.scheduler.decide(attempt, own.scheduler.cache.nodes, Random(0))
    for told in own.scheduler.observers.decided:
        told(attempt, Reject(Status(Code.UNSCHEDULABLE), ""), 0.0)
    assert own.families.audit_skipped_total.values["default-scheduler", "Nowhere", "devices"] == 1


COSTLY = "pod.labels.all(a, pod.labels.all(b, pod.labels.all(c, a + b + c != node.name)))"


@pytest.mark.parametrize(
    ("labels", "brief", "result", "why"),
    [
        (10, True, "tie", ""),
        (60, True, "skipped", "long"),
        (60, False, "tie", ""),
    ],
)
def test_what_an_audit_takes_is_bounded(
    tmp_path: Path, labels: int, brief: bool, result: str, why: str
) -> None:
    """In the event loop, where leases and probes wait, by the steps of a brief attempt."""
    section = f'filter: [{{expression: "{COSTLY}", message: never}}]'
    own = Audited(config(tmp_path, "Costly"), [policy(tmp_path, "Costly", section)])
    own.share = 1.0
    named, before = {f"l{i}": "" for i in range(labels)}, (remaining().shared, False)
    own.scheduler.add_pod(PodInfo.of(make_pod("p", cpu="1", labels=named)))
    attempt = own.scheduler.pop()
    assert attempt is not None
    attempt.brief = brief
    assert isinstance(own.scheduler.choose(attempt), Bind), "the pod itself takes nothing"
    assert own.results("Costly") == {result: 1}
    reasons = own.families.audit_skipped_total.values
    assert reasons["default-scheduler", "Costly", "long"] == (why == "long")
    assert (remaining().shared, remaining().exceeded) == before, "the next decision has all steps"


DECISION, LONG = 2e-4, 2e-2
"""Seconds of counted work: a decision, and what a brief attempt may take."""


class Costly(Evaluator):
    """What takes as long as a brief attempt may, and is given up then."""

    def __init__(self, tick: Callable[[float], None]) -> None:
        self.tick = tick

    def evaluate(self, pod: PodInfo) -> Evaluation:
        """Take time, and give up."""
        del pod
        self.tick(LONG)
        raise TakesLong("a rule takes long", worked=True)


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_a_costly_candidate_holds_up_neither_leases_nor_pods(share: float) -> None:
    """A turn of the event loop, between two renewals, holds one brief attempt more at most.

    Pods that queue are decided in the time that they take, and the share.
    """
    own = Audited(None, [])
    own.share, seconds = share, [0.0]

    def tick(taken: float) -> None:
        seconds[0] += taken

    profile = own.scheduler.profiles["default-scheduler"]
    own.others["Candidate"] = replace(profile, evaluator=Costly(tick))
    own.clock = lambda: seconds[0]
    own.scheduler.observers.deciding.append(lambda _: tick(DECISION))
    turns = []
    for i in range(5000):
        own.scheduler.add_pod(PodInfo.of(make_pod(f"p{i}", cpu="0")))
        attempt, begun = own.scheduler.pop(), seconds[0]
        assert attempt is not None
        attempt.brief = True
        chosen = own.scheduler.choose(attempt)
        assert own.scheduler.execute(attempt, chosen).node, "it is not decided again"
        own.scheduler.release(attempt.queued.info.uid)
        turns.append(seconds[0] - begun)
    assert max(turns) < 1.01 * (DECISION + LONG)
    reasons = own.families.audit_skipped_total.values
    tried = reasons["default-scheduler", "Candidate", "long"]
    assert own.results("Candidate") == {"skipped": 5000}
    assert tried > 1
    assert tried * LONG <= share * seconds[0] + LONG


PROFILE_OF_HISTORIES = """\
filter: [{expression: "pod.priority > 3 || node.name != 'n1'", message: kept free}]
  score: {expression: "node.name == 'n2' ? 100 : 0"}
"""


@settings(max_examples=scaled(20), deadline=None)
@given(data=st.data())
def test_decisions_are_equal_with_and_without_audits(data: st.DataObject) -> None:
    """Nodes, victims, messages and the state of all random sources, byte by byte."""
    with TemporaryDirectory() as folder:
        root = Path(folder)
        file = policy(root, "Audited", PROFILE_OF_HISTORIES)
        plain, audited = Audited(None, []), Audited(config(root, "Audited"), [file])
    steps = data.draw(st.lists(ARRIVALS, max_size=25))
    for number, (cpu, priority) in enumerate(steps):
        pod = make_pod(f"p{number}", cpu=cpu, priority=priority)
        said = []
        for world in (plain, audited):
            world.scheduler.add_pod(PodInfo.of(pod))
            outcome = world.scheduler.schedule_one()
            assert outcome is not None
            victims = [v.key for v in getattr(outcome.decision, "victims", ())]
            said.append((outcome.node, outcome.message, victims))
            for key in victims:
                world.scheduler.release(key)
        assert said[0] == said[1]
    states = [
        (w.scheduler.handle.random.getstate(), w.scheduler._rng.getstate())
        for w in (plain, audited)
    ]
    assert states[0] == states[1]
    assert sum(audited.results("Audited").values()) >= len(steps)
