"""Patches: JSON merge patch, strategic merge patch, JSON patch."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from policy_sched.client.apimachinery.resources import ApiError
from policy_sched.embedded.store import patch as patches
from policy_sched.embedded.store.patch import json_patch, merge, strategic

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=10,
)


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_the_examples_of_rfc_7386(target: Any, patch: Any, result: Any) -> None:
    """Appendix A of the RFC; the target stays as it is."""
    before = repr(target)
    assert merge(target, patch) == result
    assert repr(target) == before


@given(PLAIN, PLAIN)
def test_a_merge_patch_may_be_applied_twice(target: Any, patch: Any) -> None:
    """The second time changes nothing."""
    once = merge(target, patch)
    assert merge(once, patch) == once


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        (
            {"conditions": [{"type": "A", "status": "True"}, {"type": "B"}]},
            {"conditions": [{"type": "A", "status": "False"}, {"type": "C"}]},
            {"conditions": [{"type": "A", "status": "False"}, {"type": "B"}, {"type": "C"}]},
        ),
        (
            {"containers": [{"name": "a"}, {"name": "b"}]},
            {"containers": [{"$patch": "delete", "name": "a"}]},
            {"containers": [{"name": "b"}]},
        ),
        (
            {"containers": [{"name": "a"}]},
            {"containers": [{"$patch": "replace"}, {"name": "c"}]},
            {"containers": [{"name": "c"}]},
        ),
        ({"tolerations": [{"key": "a"}]}, {"tolerations": []}, {"tolerations": []}),
        ({"finalizers": ["a"]}, {"finalizers": ["b"]}, {"finalizers": ["a", "b"]}),
        (
            {"finalizers": ["a", "b"]},
            {"$deleteFromPrimitiveList/finalizers": ["a"], "$setElementOrder/finalizers": ["b"]},
            {"finalizers": ["b"]},
        ),
        (
            {"labels": {"a": "1"}},
            {"labels": {"$patch": "replace", "b": "2"}},
            {"labels": {"b": "2"}},
        ),
        ({"labels": {"a": "1"}}, {"labels": {"$patch": "delete"}}, {"labels": {}}),
    ],
)
def test_strategic_merges_know_the_keys_of_lists(target: Any, patch: Any, result: Any) -> None:
    """Items are told apart by their merge key; directives replace and delete."""
    assert strategic(target, patch) == result


PORTS = [{"containerPort": 80, "name": "x"}, {"containerPort": 81, "name": "y"}]


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"ports": PORTS}, {"ports": [{"containerPort": 81, "name": "z"}]},
         {"ports": [PORTS[0], {"containerPort": 81, "name": "z"}]}),
        ({"ports": PORTS}, {"ports": [{"$patch": "delete", "containerPort": 80}]},
         {"ports": PORTS[1:]}),
        ({"ports": [{"port": 1}]}, {"ports": [{"port": 2}]}, {"ports": [{"port": 1}, {"port": 2}]}),
        ({"ports": [{"port": 1}]}, {"ports": []}, {"ports": []}),
        ({"ports": [{"endPort": 1}]}, {"ports": [{"protocol": "TCP"}]},
         {"ports": [{"protocol": "TCP"}]}),
        ({"ports": [1]}, {"ports": [2]}, {"ports": [2]}),
        ({"taints": [{"key": "a"}, {"key": "b"}]}, {"taints": [{"key": "b"}]},
         {"taints": [{"key": "b"}]}),
        ({"env": [{"name": "a"}]},
         {"env": [{"name": "b"}], "$setElementOrder/env": [{"name": "b"}, {"name": "a"}]},
         {"env": [{"name": "b"}, {"name": "a"}]}),
        ({"finalizers": ["a", "x"]},
         {"finalizers": ["b"], "$setElementOrder/finalizers": ["b", "a"]},
         {"finalizers": ["b", "a", "x"]}),
        ({"type": "Recreate", "other": 1}, {"$retainKeys": ["type"], "type": "RollingUpdate"},
         {"type": "RollingUpdate"}),
        ({"env": 5}, {"$setElementOrder/env": [1], "$setElementOrder/x": 5, "$retainKeys": 5},
         {"env": 5}),
    ],
)  # fmt: skip
def test_strategic_merges_tell_ports_apart_and_keep_the_order_of_a_file(
    target: Any, patch: Any, result: Any
) -> None:
    """As kubectl apply works patches out; what has no key of its own is replaced whole."""
    assert strategic(target, patch) == result


def test_items_without_their_key_are_refused() -> None:
    """As the API server refuses them."""
    with pytest.raises(ApiError, match="declared merge key: name"):
        strategic({}, {"containers": [{"image": "x"}]})


def test_json_patches_do_one_thing_after_the_other() -> None:
    """Add, remove, replace, move, copy, test; paths are escaped, "-" is the end of a list."""
    target = {"a": {"x/y": 1}, "l": [1, 2]}
    operations = [
        {"op": "test", "path": "/a/x~1y", "value": 1},
        {"op": "add", "path": "/l/-", "value": 3},
        {"op": "add", "path": "/l/0", "value": 0},
        {"op": "remove", "path": "/l/1"},
        {"op": "replace", "path": "/a/x~1y", "value": 5},
        {"op": "copy", "from": "/a", "path": "/b"},
        {"op": "move", "from": "/a", "path": "/c"},
    ]
    assert json_patch(target, operations) == {
        "l": [0, 2, 3],
        "b": {"x/y": 5},
        "c": {"x/y": 5},
    }
    assert target == {"a": {"x/y": 1}, "l": [1, 2]}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": 2},
        {"op": "remove", "path": "/none"},
        {"op": "replace", "path": "/l/7", "value": 1},
        {"op": "add", "path": "a", "value": 1},
        {"op": "spin", "path": "/a"},
    ],
)
def test_json_patches_that_do_not_apply_are_refused(operation: dict[str, Any]) -> None:
    """Whole: nothing of them is done."""
    target = {"a": 1, "l": [1]}
    with pytest.raises(ApiError) as caught:
        json_patch(target, [{"op": "add", "path": "/b", "value": 1}, operation])
    assert caught.value.code == 422
    assert target == {"a": 1, "l": [1]}


MANY = 50_000
NAMES = [f"n{number}" for number in range(MANY)]


@pytest.mark.parametrize(
    ("patch", "containers", "finalizers"),
    [
        ({"containers": [{"name": name, "image": "x"} for name in NAMES]}, MANY, MANY),
        ({"containers": [{"name": f"{name}-new"} for name in NAMES]}, 2 * MANY, MANY),
        ({"containers": [{"name": name, "$patch": "delete"} for name in NAMES]}, 0, MANY),
        ({"finalizers": [*NAMES, *(f"{name}-new" for name in NAMES)]}, MANY, 2 * MANY),
        ({"$deleteFromPrimitiveList/finalizers": NAMES}, MANY, 0),
        ({"$setElementOrder/finalizers": NAMES[::-1]}, MANY, MANY),
        ({"$setElementOrder/containers": [{"name": name} for name in NAMES[::-1]]}, MANY, MANY),
        ({"$retainKeys": [*NAMES, "containers", "finalizers"]}, MANY, MANY),
    ],
)
def test_strategic_merge_patches_are_linear(patch: Any, containers: int, finalizers: int) -> None:
    """150,000 containers or finalizers kept the API server busy for hours: it never got here."""
    target = {"containers": [{"name": name} for name in NAMES], "finalizers": list(NAMES)}
    result = strategic(target, patch)
    assert (len(result["containers"]), len(result["finalizers"])) == (containers, finalizers)


def test_items_keep_their_order() -> None:
    """Changed in place, new ones last, ordered if the patch says so."""
    target = {"containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}
    patch = {"containers": [{"name": "d"}, {"name": "b", "image": "x"}]}
    names = [container["name"] for container in strategic(target, patch)["containers"]]
    assert names == ["a", "b", "c", "d"]
    patch["$setElementOrder/containers"] = [{"name": name} for name in "dba"]
    names = [container["name"] for container in strategic(target, patch)["containers"]]
    assert names == ["d", "b", "a", "c"]


def test_a_json_patch_copies_no_more_than_its_limit() -> None:
    """Copies of the whole into itself doubled it with every operation."""
    double = {"op": "copy", "from": "", "path": "/a/-"}
    with pytest.raises(ApiError) as refused:
        json_patch({"a": ["x" * 1000]}, [double] * 100)
    assert refused.value.code == 413


def test_a_json_patch_changes_a_large_object_without_copying_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """10,000 operations after one that adds megabytes went through the whole object each."""
    sizes: list[int] = []
    monkeypatch.setattr(patches, "copied", lambda data: sizes.append(len(data)) or dict(data))
    operations = [{"op": "add", "path": "/big", "value": "x" * 1_000_000}]
    operations += [{"op": "add", "path": f"/k{n}", "value": n} for n in range(5_000)]
    result = json_patch({"a": 1}, operations)
    assert len(result) == 5_002
    assert sizes == [1]


def test_a_json_patch_shifts_no_more_items_than_its_limit() -> None:
    """A million items make room for each of ten thousand others at their head."""
    first = {"op": "add", "path": "/a", "value": [0] * 1_000_000}
    with pytest.raises(ApiError) as refused:
        json_patch({}, [first, *[{"op": "add", "path": "/a/0", "value": 1}] * 10_000])
    assert refused.value.code == 413


def test_a_value_is_not_moved_into_itself() -> None:
    """RFC 6902, 4.4; a patch that fails changes nothing."""
    target = {"a": {"b": {}}}
    with pytest.raises(ApiError) as refused:
        json_patch(target, [{"op": "move", "from": "/a", "path": "/a/b/c"}])
    assert refused.value.code == 422
    assert target == {"a": {"b": {}}}
