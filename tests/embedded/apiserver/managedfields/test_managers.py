"""Server-side apply: files of managers put together, conflicts, and what goes again."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from hypothesis import given, strategies as st

from policy_sched.client.apimachinery.resources import ApiError
from policy_sched.embedded.apiserver.managedfields import managers as manager_rules
from policy_sched.embedded.apiserver.managedfields.fields import (
    KindLists,
    as_fields_v1,
    fields_of,
    from_fields_v1,
    text,
    without,
)
from policy_sched.embedded.apiserver.managedfields.managers import APPLY, UPDATE, ManagedFieldsEntry

Plain = dict[str, Any]
DEPLOYMENT = KindLists("Deployment")
applied = partial(manager_rules.applied, DEPLOYMENT)
updated = partial(manager_rules.updated, DEPLOYMENT)


def deployment(**spec: Any) -> Plain:
    """Return a deployment."""
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}


def by(
    manager: str, operation: str = APPLY, time: str = "t1", part: str = ""
) -> ManagedFieldsEntry:
    """Return the entry of a manager, without fields."""
    return ManagedFieldsEntry(manager, operation, "apps/v1", time, frozenset(), part)


def containers(*given: Plain) -> Plain:
    """Return a template with containers."""
    return {"spec": {"containers": list(given)}}


def managers(data: Plain) -> dict[str, Plain]:
    """Return the fields of each manager."""
    return {entry["manager"]: entry["fieldsV1"] for entry in data["metadata"]["managedFields"]}


def test_applying_creates_an_object_and_its_managed_fields() -> None:
    """Names, versions and the status have no manager."""
    file = deployment(replicas=1, template=containers({"name": "c", "args": ["a"]}))
    data = applied({}, {**file, "status": {"replicas": 7}}, by("me"), force=False)
    assert "status" not in data
    assert data["metadata"]["managedFields"] == [
        {
            "manager": "me",
            "operation": "Apply",
            "apiVersion": "apps/v1",
            "time": "t1",
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:spec": {
                    "f:replicas": {},
                    "f:template": {
                        "f:spec": {
                            "f:containers": {
                                'k:{"name":"c"}': {".": {}, "f:name": {}, "f:args": {}}
                            }
                        }
                    },
                }
            },
        }
    ]


def test_the_same_file_again_changes_nothing() -> None:
    """Not even the time."""
    file = deployment(replicas=1)
    data = applied({}, file, by("me"), force=False)
    assert applied(data, file, by("me", time="t2"), force=False) == data


def test_two_managers_have_parts_of_one_object() -> None:
    """Items of lists by their keys, labels one by one; equal values can be shared."""
    mine = deployment(replicas=2, template=containers({"name": "a", "image": "x"}))
    data = applied({}, mine, by("me"), force=False)
    yours = deployment(replicas=2, template=containers({"name": "b", "image": "y"}))
    data = applied(data, yours, by("you"), force=False)
    names = [container["name"] for container in data["spec"]["template"]["spec"]["containers"]]
    assert names == ["a", "b"]
    assert managers(data)["me"]["f:spec"]["f:replicas"] == {}
    assert managers(data)["you"]["f:spec"]["f:replicas"] == {}


def test_what_a_file_does_not_say_any_more_goes_unless_another_has_it() -> None:
    """Fields, items with all their defaults, and what is empty then."""
    file = deployment(replicas=2, paused=True, template=containers({"name": "a"}, {"name": "b"}))
    file["metadata"]["labels"] = {"x": "y"}
    data = applied({}, file, by("me"), force=False)
    data["spec"]["template"]["spec"]["containers"][1]["imagePullPolicy"] = "Always"
    data = applied(data, deployment(replicas=2), by("you"), force=False)
    less = deployment(template=containers({"name": "a"}))
    data = applied(data, less, by("me"), force=False)
    assert data["spec"] == {"replicas": 2, "template": containers({"name": "a"})}
    assert "labels" not in data["metadata"]


def test_an_item_is_kept_while_another_manager_owns_a_part() -> None:
    """Only fields without a manager are removed."""
    mine = deployment(template=containers({"name": "a", "image": "x"}))
    data = applied({}, mine, by("me"), force=False)
    yours = deployment(template=containers({"name": "a", "tty": True}))
    data = applied(data, yours, by("you"), force=False)
    data = applied(data, deployment(paused=True), by("me"), force=False)
    assert data["spec"] == {"paused": True, "template": containers({"name": "a", "tty": True})}


def test_conflicts_have_the_messages_of_kube_apiserver() -> None:
    """One by its path, several by manager; force takes the fields away."""
    data = applied({}, deployment(replicas=1, paused=True), by("me"), force=False)
    changed = deployment(replicas=3, paused=True)
    changed["metadata"]["managedFields"] = data["metadata"]["managedFields"]
    updated(data, changed, by("kubectl", UPDATE, "2026-01-01T00:00:00Z", "scale"))
    assert managers(changed)["me"] == {"f:spec": {"f:paused": {}}}
    with pytest.raises(ApiError) as refused:
        applied(changed, deployment(replicas=1), by("me"), force=False)
    described = '"kubectl" with subresource "scale" using apps/v1 at 2026-01-01T00:00:00Z'
    error = refused.value
    assert (error.code, error.reason) == (409, "Conflict")
    assert (
        error.message == f"Apply failed with 1 conflict: conflict with {described}: .spec.replicas"
    )
    assert error.details["causes"] == [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {described}",
            "field": ".spec.replicas",
        }
    ]
    with pytest.raises(ApiError) as refused:
        applied(changed, deployment(replicas=1, paused=False), by("you"), force=False)
    assert refused.value.message == (
        f"Apply failed with 2 conflicts: conflicts with {described}:\n- .spec.replicas\n"
        'conflicts with "me":\n- .spec.paused'
    )
    data = applied(changed, deployment(replicas=1, paused=False), by("you"), force=True)
    assert list(managers(data)) == ["you"]


def test_what_was_there_before_belongs_to_a_manager_of_its_own() -> None:
    """An object that was made without server-side apply."""
    live = deployment(replicas=1)
    with pytest.raises(ApiError, match=r'"before-first-apply" using apps/v1 at t1: \.spec\.rep'):
        applied(live, deployment(replicas=2), by("me"), force=False)
    assert managers(applied(live, deployment(replicas=1), by("me"), force=False)).keys() == {
        "me",
        "before-first-apply",
    }


def test_the_status_is_applied_apart() -> None:
    """By the subresource; its manager has only fields of it."""
    data = applied({}, deployment(replicas=1), by("me"), force=False)
    file = {**deployment(replicas=5), "status": {"conditions": [{"type": "A", "status": "True"}]}}
    data = applied(data, file, by("me", part="status"), force=False)
    assert data["spec"] == {"replicas": 1}
    assert data["status"] == file["status"]
    (_, entry) = data["metadata"]["managedFields"]
    assert (entry["subresource"], list(entry["fieldsV1"])) == ("status", ["f:status"])


def test_updates_are_noted_only_of_objects_that_were_applied() -> None:
    """And managers that a request takes away are gone."""
    live = deployment(replicas=1)
    data = deployment(replicas=2)
    updated(live, data, by("me", UPDATE))
    assert "managedFields" not in data["metadata"]
    live = applied({}, live, by("me"), force=False)
    same = json.loads(json.dumps(live))
    updated(live, same, by("you", UPDATE))
    assert same == live
    gone = deployment()
    del gone["spec"]
    updated(live, gone, by("you", UPDATE))
    assert "managedFields" not in gone["metadata"]
    reset = {**deployment(replicas=2), "metadata": {"name": "d", "managedFields": []}}
    updated(live, reset, by("you", UPDATE))
    assert reset["metadata"] == {"name": "d"}


def test_items_with_equal_keys_are_rejected() -> None:
    """Two of one key, none of it."""
    for wrong in (({"name": "a"}, {"name": "a"}), ({"image": "x"},)):
        with pytest.raises(ApiError, match=r"\.spec\.template\.spec\.containers: associative"):
            applied({}, deployment(template=containers(*wrong)), by("me"), force=False)


def test_paths_are_written_as_messages_have_them() -> None:
    """Fields, items by keys, items that are their own key."""
    pod = {
        "metadata": {"finalizers": ["f"]},
        "spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80}]}]},
    }
    shown = {text(path) for path in fields_of(KindLists("Pod"), pod)}
    port = '.spec.containers[name="c"].ports[containerPort=80,protocol="TCP"]'
    assert shown == {
        '.metadata.finalizers[="f"]', '.spec.containers[name="c"]',
        '.spec.containers[name="c"].name', port, f"{port}.containerPort",
    }  # fmt: skip


def test_sets_keep_values_of_other_managers() -> None:
    """Finalizers, for one."""
    mine = {**deployment(), "metadata": {"name": "d", "finalizers": ["a"]}}
    data = applied({}, mine, by("me"), force=False)
    yours = {**deployment(), "metadata": {"name": "d", "finalizers": ["b"]}}
    data = applied(data, yours, by("you"), force=False)
    assert data["metadata"]["finalizers"] == ["a", "b"]
    data = applied(data, deployment(paused=True), by("me"), force=False)
    assert data["metadata"]["finalizers"] == ["b"]


NAMES = st.sampled_from(["labels", "containers", "name", "env", "k:{", "f:x"])
VALUES = st.recursive(
    st.integers(0, 3) | st.text("ab", max_size=2) | st.none(),
    lambda inner: (
        st.dictionaries(
            st.sampled_from(["labels", "containers", "name", "env", "k:{", "f:x"]), inner
        )
        | st.lists(inner, max_size=3)
    ),
    max_leaves=12,
)
SPECS = st.dictionaries(st.sampled_from(["containers", "template", "finalizers", "x"]), VALUES)


def present(value: Any) -> Any:
    """Return plain data without fields that are null."""
    if isinstance(value, dict):
        return {key: present(item) for key, item in value.items() if item is not None}
    return [present(item) for item in value] if isinstance(value, list) else value


@given(SPECS, SPECS)
def test_any_two_applies_merge_and_unmerge(first: Plain, second: Plain) -> None:
    """By force the second one's values count; applied again nothing changes; emptied, all goes."""
    try:
        fields_of(DEPLOYMENT, deployment(**present(first)), strict=True)
        fields_of(DEPLOYMENT, deployment(**present(second)), strict=True)
    except ApiError:
        return
    item, two = deployment(**present(first)), deployment(**present(second))
    data = applied(applied({}, item, by("a"), force=True), two, by("b"), force=True)
    wanted, actual = (fields_of(DEPLOYMENT, each) for each in (two, data))
    said = {path: value for path, value in wanted.items() if path[0] == "f:spec"}
    assert all(actual[path] == value for path, value in said.items() if value not in ({}, []))
    assert applied(data, two, by("b", time="t2"), force=True) == data
    fields = frozenset(path for path in actual if path[0] == "f:spec")
    assert from_fields_v1(json.loads(json.dumps(as_fields_v1(fields)))) == fields
    assert without(DEPLOYMENT, {"spec": two["spec"]}, [("f:spec",)]) == {}


@given(VALUES)
def test_no_fields_that_a_client_sends_break_the_reader(data: Any) -> None:
    """What is no path is left out."""
    assert from_fields_v1(data) is not None
    live = deployment(x=1)
    live["metadata"]["managedFields"] = [{"fieldsV1": data}, data]
    updated(live, {**deployment(x=2), "metadata": {"name": "d"}}, by("me", UPDATE))
