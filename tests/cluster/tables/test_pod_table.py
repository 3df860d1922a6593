"""The pod table: one row per pod of the cache."""

from __future__ import annotations

import pytest

from policy_sched.cluster.cache import Cache
from policy_sched.cluster.tables.interning import Strings
from policy_sched.cluster.tables.pod_table import PodTable
from policy_sched.cluster.tables.schema import POD_TEXTS
from policy_sched.model.pod_info import PodInfo
from policy_sched.testing import make_node, make_pod


def info(name: str = "p", **fields: object) -> PodInfo:
    """Return a pod."""
    return PodInfo.of(make_pod(name, **fields))


@pytest.mark.parametrize("field", POD_TEXTS)
def test_texts_are_codes(field: str) -> None:
    """Every string field is a code of what the pod says; "" has a code too."""
    pods = PodTable(Strings())
    pod = info(service_account_name="sa", node_name="n")
    row = pods.add(pod, -1)
    text = pods.strings.text(pods.column((field,)).view[row])
    expected = {"serviceAccountName": "sa", "nodeName": "n", "name": "p", "namespace": "default"}
    assert text == expected.get(field, text)
    assert pods.column((field,)).view[row] != 0


def test_late_columns_equal_early_ones() -> None:
    """A column asked for after the pods came holds what it would have held before."""
    early, late = PodTable(Strings()), PodTable(Strings())
    keys = [
        ("label", "app"),
        ("request", "cpu"),
        ("priority",),
        ("annotation", "a"),
        ("limit", "cpu"),
    ]
    for key in keys:
        early.column(key)
    for pods in (early, late):
        pods.add(info(labels={"app": "web"}, cpu="1", priority=3, annotations={"a": "b"}), 0)
        pods.add(info("q"), 1)
    for key in keys:
        values = early.column(key).values[:2].tolist()
        texts = (
            [early.strings.text(v) for v in values] if key[0] in ("label", "annotation") else values
        )
        again = late.column(key).values[:2].tolist()
        assert texts == (
            [late.strings.text(v) for v in again] if key[0] in ("label", "annotation") else again
        )


def test_rows_are_reused_and_arrays_grow() -> None:
    """A freed row holds zeros and no node, and goes to the next pod; growth keeps the rest."""
    pods = PodTable(Strings())
    priority = pods.column(("priority",))
    rows = [pods.add(info(f"p{number}", priority=number), number) for number in range(50)]
    assert priority.values[:50].tolist() == list(range(50))
    version = pods.version
    pods.remove(rows[7])
    assert (priority.view[7], pods.node.view[7], pods.infos[7]) == (0, -1, None)
    assert pods.version > version
    assert pods.add(info("new"), 3) == 7
    assert pods.n == 50
    assert (pods.node.values[50:] == -1).all()


def test_an_assumed_pod_says_its_node() -> None:
    """The column nodeName shows the assumed node although the API object names none yet."""
    cache = Cache()
    cache.add_node(make_node("n"))
    column = cache.pods.column(("nodeName",))
    cache.assume(info(), "n")
    assert cache.pods.strings.text(column.view[0]) == "n"


def test_pods_with_affinity_are_known() -> None:
    """Pods with pod affinity or anti-affinity are listed while they are in the table."""
    cache = Cache()
    cache.add_node(make_node("n"))
    cache.add_pod(info("p", node_name="n", affinity={"podAffinity": {}}))
    cache.add_pod(info("q", node_name="n"))
    assert list(cache.pods.with_affinity) == ["default/p"]
    cache.update_pod(info("p", node_name="n"))
    assert not cache.pods.with_affinity
    cache.update_pod(info("q", node_name="n", affinity={"podAntiAffinity": {}}))
    cache.remove_pod(info("q"))
    assert not cache.pods.with_affinity
