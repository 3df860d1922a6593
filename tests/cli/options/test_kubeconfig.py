"""The option --kubeconfig of run: which cluster, which lease, and what does not go together."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy_sched.cli.input.live_cluster import IN_CLUSTER
from policy_sched.cli.options.kubeconfig import check_alone, chosen, connected
from policy_sched.errors import ClusterError, PolicyError
from policy_sched.instance.app.cluster_instance import ClusterInstance
from policy_sched.instance.observability.log import Record
from policy_sched.profiles.reload.inputs import PolicyFiles

KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k}}]
clusters: [{name: k, cluster: {server: "http://127.0.0.1:1"}}]
"""
CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
"""


def instance(tmp_path: Path, config: str = "") -> ClusterInstance:
    """Return an instance for a kubeconfig and a configuration."""
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    (tmp_path / "config.yaml").write_text(CONFIG + config)
    records: list[Record] = []
    files = PolicyFiles(str(tmp_path / "config.yaml"), ())
    return connected(files, str(tmp_path / "kubeconfig"), 0, records.append)


def test_the_lease_is_our_own_unless_the_configuration_names_one(tmp_path: Path) -> None:
    """kube-scheduler's lease is taken only if a configuration names it, and sets durations."""
    candidacy = instance(tmp_path).candidacy
    assert candidacy is not None
    assert (candidacy.namespace, candidacy.name) == ("kube-system", "policy-sched")
    assert candidacy.election.settings.lease_duration == 15
    named = "leaderElection: {resourceName: kube-scheduler, leaseDuration: 30s}\n"
    candidacy = instance(tmp_path, named).candidacy
    assert candidacy is not None
    assert candidacy.name == "kube-scheduler"
    assert candidacy.election.settings.lease_duration == 30


def test_without_an_election_it_always_leads(tmp_path: Path) -> None:
    """leaderElect: false: no lease at all."""
    alone = instance(tmp_path, "leaderElection: {leaderElect: false}\n")
    assert alone.candidacy is None
    assert alone.leads


def test_nothing_is_decided_before_the_cluster_was_read(tmp_path: Path) -> None:
    """A step without an answer of the server decides nothing, and is not ready."""
    waiting = instance(tmp_path)
    assert waiting.step() == 0
    assert not waiting.ready
    assert not waiting.leads


def test_options_of_the_embedded_cluster_do_not_go_together_with_it(tmp_path: Path) -> None:
    """--cluster, --data and --serve are about a cluster in this process."""
    with pytest.raises(ClusterError, match="--kubeconfig does not go together with --data"):
        check_alone("file", {"--cluster": (), "--data": "x", "--serve": None})
    check_alone(None, {"--data": "x"})


def test_the_configuration_may_name_the_kubeconfig(tmp_path: Path) -> None:
    """As kube-scheduler's does; the option counts before it, and so do the embedded cluster's."""
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG)
    assert chosen(None, str(config), {}) is None
    config.write_text(CONFIG + "clientConnection: {kubeconfig: /etc/kubernetes/scheduler.conf}\n")
    assert chosen(None, str(config), {"--cluster": ()}) == "/etc/kubernetes/scheduler.conf"
    assert chosen("mine", str(config), {}) == "mine"
    assert chosen(None, str(config), {"--serve": "8080"}) is None
    assert chosen(None, None, {}) is None
    with pytest.raises(ClusterError, match="--kubeconfig does not go together with --serve"):
        chosen("mine", str(config), {"--serve": "8080"})


def test_a_bad_kubeconfig_and_a_missing_pod_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong file is a Diagnostic; outside a pod there is no cluster to be in."""
    bad = tmp_path / "bad"
    bad.write_text("current-context: x\n")
    with pytest.raises(PolicyError, match="there is no context 'x'"):
        connected(PolicyFiles(None, ()), str(bad), 0, lambda _record: None)
    bad.write_bytes(b"\xff")
    with pytest.raises(PolicyError, match="the kubeconfig is not UTF-8"):
        connected(PolicyFiles(None, ()), str(bad), 0, lambda _record: None)
    with pytest.raises(FileNotFoundError):  # as of any other file: the exit code is 2
        connected(PolicyFiles(None, ()), str(tmp_path / "none"), 0, lambda _record: None)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ClusterError, match="not in a cluster"):
        connected(PolicyFiles(None, ()), IN_CLUSTER, 0, lambda _record: None)
