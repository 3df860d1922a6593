"""Audited policies: what they would have changed is counted, and they decide nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from policy_sched.errors import PolicyError
from policy_sched.instance.app import EmbeddedInstance, Sources
from policy_sched.instance.app.audit import Audits
from policy_sched.instance.observability import DecisionLog
from policy_sched.model import PodInfo
from policy_sched.profiles.reload import PolicyFiles
from policy_sched.scheduler import Bind, Decision, Reject
from policy_sched.scheduler.setup import assemble_with_assembly, read
from policy_sched.testing import make_node, make_pod

NODES = ("a", "b", "c")
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
        self.scheduler, assembly = assemble_with_assembly(plans, seed=7)
        self.counts: dict[tuple[str, ...], float] = {}
        self.lines: list[dict[str, Any]] = []
        self.time = 0.0
        self.scheduler.observers.timer = lambda: self.time
        for name in NODES:
            self.scheduler.cache.add_node(make_node(name, cpu="4"))
        if audits:
            log = DecisionLog(self.lines.append, lambda: 0)
            Audits(self.scheduler, assembly, self.counts, log)

    def decide(self, *cpus: str) -> list[str]:
        """Decide pods with these requests; return their nodes."""
        nodes = []
        for i, cpu in enumerate(cpus):
            self.scheduler.add_pod(PodInfo.of(make_pod(f"p{i}", cpu=cpu)))
            outcome = self.scheduler.schedule_one()
            assert outcome is not None
            nodes.append(outcome.node)
        return nodes

    def results(self, name: str) -> dict[str, float]:
        """Return the counts of a policy by result."""
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
    assert audited.results("Nowhere") == {"unschedulable": len(bound)}
    only = audited.results("OnlyA")
    assert only.get("same", 0) == bound.count("a")
    assert only["moved"] == len(bound) - bound.count("a")
    assert set(audited.results("Harmless")) <= {"same", "tie"}
    assert sum(audited.results("LikesB").values()) == len(bound)
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
    assert len(moved) == sum(node != "b" for node in nodes) > 0


def test_audits_take_a_share_of_the_time(tmp_path: Path) -> None:
    """What is not evaluated is counted as skipped."""
    audited = Audited(
        config(tmp_path, "Harmless"),
        [policy(tmp_path, "Harmless", "filter: [{expression: 'true', message: never}]")],
    )
    ticks = iter(range(1000))
    audited.scheduler.observers.timer = lambda: float(next(ticks))
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
    instance.close()
