"""The metrics of an embedded cluster."""

from __future__ import annotations

from pathlib import Path

from tests.instance.app.test_embedded_instance import World


def test_failures_of_controllers_and_objects_set_aside_are_counted(tmp_path: Path) -> None:
    """An operator sees problems of the cluster's own parts on /metrics."""
    instance = World(tmp_path).start()
    store = instance.cluster.store
    store.sync_errors["daemonset"] += 3
    text = instance.metrics.text()
    assert 'policy_sched_controller_sync_errors_total{controller="daemonset"} 3.0' in text
    assert "policy_sched_objects_set_aside 0.0" in text
    instance.close()
