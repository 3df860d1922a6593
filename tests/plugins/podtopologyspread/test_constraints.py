"""ConstraintCache: a pod's own constraints, or its workload's defaults."""

from __future__ import annotations

from typing import Any

import pytest

from policy_sched.cluster.listers import ApiObjects
from policy_sched.model import cluster_objects
from policy_sched.model.meta import HOSTNAME, ZONE, LabelSelector, ObjectMeta, OwnerReference
from policy_sched.model.pod_info import PodInfo
from policy_sched.model.selectors import NOTHING, equality_selector
from policy_sched.plugins.podtopologyspread.constraints import NONE, ConstraintCache
from policy_sched.testing import make_pod

LIST = {
    "defaultingType": "List",
    "defaultConstraints": [
        {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}
    ],
}


def service(namespace: str = "default", **selector: str) -> cluster_objects.Service:
    meta = ObjectMeta(name=f"s-{namespace}-{'-'.join(selector)}", namespace=namespace)
    return cluster_objects.Service(
        kind="Service", metadata=meta, spec=cluster_objects.ServiceSpec(selector=selector)
    )


def owned(kind: str, api_version: str, **labels: str) -> PodInfo:
    pod = make_pod(labels=labels)
    pod.metadata.owner_references = (
        OwnerReference(api_version=api_version, kind=kind, name="web", controller=True),
    )
    return PodInfo.of(pod)


def test_a_pod_of_no_workload_has_none() -> None:
    """Without a Service or controller that selects it, default constraints do not apply."""
    book = ConstraintCache({}, ApiObjects([service(app="db"), service("other", app="web")]))
    assert book.of(PodInfo.of(make_pod(labels={"app": "web"}))) is NONE


def test_services_that_select_the_pod_define_the_spread_selector() -> None:
    """The selectors of all of them together; system defaults are hostname and zone, softly."""
    book = ConstraintCache({}, ApiObjects([service(app="web"), service(tier="fe"), service()]))
    found = book.of(PodInfo.of(make_pod(labels={"app": "web", "tier": "fe", "x": "y"})))
    assert [(c.spread.topology_key, c.spread.max_skew) for c in found.soft] == [
        (HOSTNAME, 3),
        (ZONE, 5),
    ]
    assert (found.hard, found.all_labels) == ((), False)
    assert found.soft[0].selector == equality_selector({"app": "web", "tier": "fe"})


@pytest.mark.parametrize(
    ("kind", "api_version", "owner"),
    [
        ("ReplicationController", "v1", cluster_objects.ReplicationController(
            kind="ReplicationController",
            metadata=ObjectMeta(name="web"),
            spec=cluster_objects.ReplicationControllerSpec(selector={"app": "web"}),
        )),
        *(
            (kind.__name__, "apps/v1", kind(
                kind=kind.__name__,
                metadata=ObjectMeta(name="web"),
                spec=cluster_objects.WorkloadSpec(
                    selector=LabelSelector(match_labels={"app": "web"})
                ),
            ))
            for kind in (cluster_objects.ReplicaSet, cluster_objects.StatefulSet)
        ),
    ],
)  # fmt: skip
def test_the_controller_defines_the_spread_selector(
    kind: str, api_version: str, owner: Any
) -> None:
    """Upstream looks the owner up: it must exist, in the right API group."""
    pod = owned(kind, api_version, app="web")
    found = ConstraintCache(LIST, ApiObjects([owner])).of(pod)
    assert [c.selector for c in found.hard] == [equality_selector({"app": "web"})]
    assert found.all_labels
    assert ConstraintCache(LIST, ApiObjects([service(a="b")])).of(pod) is NONE
    assert ConstraintCache(LIST, ApiObjects([owner])).of(owned(kind, "x/v1", app="web")) is NONE


def test_objects_that_come_later_count() -> None:
    """A new Service makes the default constraints apply from then on."""
    objects = ApiObjects()
    book = ConstraintCache({}, objects)
    pod = PodInfo.of(make_pod(labels={"app": "web"}))
    assert book.of(pod) is NONE
    objects.put(service(app="web"))
    assert len(book.of(pod).soft) == 2


def test_own_constraints_keep_default_ones_away() -> None:
    """Even if they are all of the other kind."""
    own = [{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "ScheduleAnyway"}]
    pod = PodInfo.of(make_pod(labels={"app": "web"}, topology_spread_constraints=own))
    found = ConstraintCache(LIST, ApiObjects([service(app="web")])).of(pod)
    assert (found.hard, len(found.soft)) == ((), 1)


def test_match_label_keys_join_the_selector() -> None:
    """With the pod's own values; keys that the pod does not have are skipped."""
    own = [
        {
            "maxSkew": 1,
            "topologyKey": "a",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
            "matchLabelKeys": ["hash", "missing"],
        }
    ]
    book = ConstraintCache({}, ApiObjects())
    for value in ("1", "2"):
        pod = PodInfo.of(make_pod(labels={"hash": value}, topology_spread_constraints=own))
        (constraint,) = book.of(pod).hard
        assert constraint.selector.matches({"app": "web", "hash": value})
        assert not constraint.selector.matches({"app": "web", "hash": "3"})


def test_an_empty_selector_counts_no_pod_but_selects_its_own() -> None:
    """kube-scheduler's own inconsistency, kept."""
    own = [
        {
            "maxSkew": 1,
            "topologyKey": "a",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {},
        }
    ]
    pod = PodInfo.of(make_pod(topology_spread_constraints=own))
    (constraint,) = ConstraintCache({}, ApiObjects()).of(pod).hard
    assert constraint.selector.matches({})
    assert constraint.match.parts[0][1] is NOTHING


def test_a_selector_that_is_not_valid_is_an_error() -> None:
    """It is reported when the pod is decided, not when it is read."""
    selector = {"matchExpressions": [{"key": "a", "operator": "Near"}]}
    own = [
        {"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule",
         "labelSelector": selector}
    ]  # fmt: skip
    found = ConstraintCache({}, ApiObjects()).of(
        PodInfo.of(make_pod(topology_spread_constraints=own))
    )
    assert "Near" in found.error
