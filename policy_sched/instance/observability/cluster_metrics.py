"""The numbers of an embedded cluster: what its controllers failed to do, what could not be read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

if TYPE_CHECKING:
    from policy_sched.embedded.store import ObjectStore

SYNC_ERRORS: Final = "policy_sched_controller_sync_errors"
SET_ASIDE: Final = "policy_sched_objects_set_aside"


class ClusterMetrics:
    """A collector of prometheus_client."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        text = "Failures of the embedded cluster's controllers, each of which is tried again."
        errors = CounterMetricFamily(SYNC_ERRORS, text, labels=("controller",))
        for controller, count in sorted(self._store.sync_errors.items()):
            errors.add_metric((controller,), float(count))
        yield errors
        text = "Stored objects that cannot be read and are left out of the cluster."
        yield GaugeMetricFamily(SET_ASIDE, text, float(len(self._store.set_aside)))
