"""Plain data against the structs of the model: nulls, and values that do not fit."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
import msgspec.inspect as types
import pytest

from policy_sched.client.kube.rest.decoding import Decoding
from policy_sched.manifests.decode import decode_as
from policy_sched.manifests.struct_errors import MOST_PROBLEMS, Path, fit_partly
from policy_sched.model.cluster_objects import Node
from policy_sched.model.kinds import KINDS, Kind

Problem = tuple[Path, str, str, str]


def sample(shape: types.Type) -> Any:
    """Return plain data that fills every field of a shape once."""
    match shape:
        case types.StructType():
            return {field.encode_name: sample(field.type) for field in shape.fields}
        case types.DictType():
            return {"a": sample(shape.value_type)}
        case types.VarTupleType():
            return [sample(shape.item_type)]
        case types.UnionType():
            return sample(next(t for t in shape.types if not isinstance(t, types.NoneType)))
        case types.IntType():
            return 1
        case types.BoolType():
            return True
        case types.DateTimeType():
            return "2026-01-02T03:04:05Z"
    return "1"


def paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the path of everything inside a value."""
    if not isinstance(value, dict | list):
        return
    for key, one in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*path, key)
        if key not in ("template", "volumeClaimTemplates"):  # templates of pods and claims
            yield from paths(one, (*path, key))


def holder(value: Any, path: Path) -> Any:
    """Return the container of the last step of a path."""
    for step in path[:-1]:
        value = value[step]
    return value


@cache
def encoded(kind: Kind) -> bytes:
    """Return the JSON of an object of a kind with every field that the model knows."""
    value = sample(types.type_info(KINDS[kind])) | {"apiVersion": kind[0], "kind": kind[1]}
    return msgspec.json.encode(value)


def complete(kind: Kind) -> dict[str, Any]:
    """Return a new object of a kind with every field that the model knows."""
    value: dict[str, Any] = msgspec.json.decode(encoded(kind))
    return value


@pytest.mark.parametrize("kind", KINDS, ids="/".join)
def test_null_is_absent_wherever_it_stands(kind: Kind) -> None:
    """A node with images[].names: null, a CSINode with drivers: null: each was lost or frozen."""
    decoding, problems = Decoding(kind, KINDS[kind]), list[Problem]()
    for path in paths(complete(kind)):
        if path[-1] in ("apiVersion", "kind") and len(path) == 1:
            continue
        with_null, without = complete(kind), complete(kind)
        holder(with_null, path)[path[-1]] = None
        read = decode_as(with_null, KINDS[kind], lambda *problem: problems.append(problem))
        if path in (("metadata",), ("metadata", "name")):
            assert read is None
            assert problems.pop()[2].endswith("has no metadata.name")
            continue
        assert read is not None, (path, problems)
        assert decoding.object(msgspec.json.encode(with_null)) == read
        if not isinstance(path[-1], int) and path[-1] != "a":  # Go: a null item is a zero value
            del holder(without, path)[path[-1]]
            assert decoding.object(msgspec.json.encode(without)) == read, path


def test_null_items_of_lists_and_maps_are_zero_values() -> None:
    """Go decodes a null of a list of strings as "", of a map of quantities as 0."""
    manifest = {
        "metadata": {"name": "n", "labels": {"a": None}},
        "spec": {"taints": [None, {"key": "k"}]},
        "status": {"images": [{"names": [None]}], "capacity": {"cpu": None}},
    }
    read = Decoding(("v1", "Node"), Node).object(msgspec.json.encode(manifest))
    assert read.metadata.labels == {"a": ""}
    assert [taint.key for taint in read.spec.taints] == ["", "k"]
    assert read.status.images[0].names == ("",)
    assert read.status.capacity == {"cpu": 0}


@pytest.mark.parametrize("kind", KINDS, ids="/".join)
def test_a_partial_reading_drops_what_does_not_fit_and_keeps_the_rest(kind: Kind) -> None:
    """One field that cannot be read hides no other field of the object."""
    whole = fit_partly(complete(kind), KINDS[kind])
    assert whole == msgspec.convert(complete(kind), KINDS[kind])
    for path in paths(complete(kind)):
        if path[-1] == "parameters":
            continue  # of a driver: whatever they are fits
        odd, without = complete(kind), complete(kind)
        here = holder(odd, path)
        here[path[-1]] = 2.5 if isinstance(here[path[-1]], list) else ["fits nothing"]
        del holder(without, path)[path[-1]]
        assert fit_partly(odd, KINDS[kind]) == fit_partly(without, KINDS[kind]), path


@pytest.mark.parametrize(
    ("resource", "amount", "most"),
    [
        ("memory", "7Ei", "80Pi"),
        ("memory", 9e18, "80Pi"),
        ("cpu", "1E", "90071992547409"),
        ("example.com/gpu", "100P", "90071992547409920"),
    ],
)
def test_amounts_that_are_too_large_to_count(resource: str, amount: Any, most: str) -> None:
    """They were cut off without a word; the largest that is counted is accepted."""

    def problems(amount: Any, **pod: Any) -> list[Problem]:
        found: list[Problem] = []
        limits = {"resources": {"limits": {resource: amount}}}
        spec = {"containers": [{"name": "c", **limits}], **pod}
        value = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}, "spec": spec}
        decode_as(value, KINDS["v1", "Pod"], lambda *one: found.append(one))
        return found

    ((path, code, message, hint),) = problems(amount)
    assert path == ("spec", "containers", 0, "resources", "limits", resource)
    assert (code, "overflow" in hint) == ("PS707", True)
    assert message.endswith(f" must be less than or equal to {most}")
    assert not problems(most)
    sizes = {"resources": {"requests": {"storage": "7Ei"}}}  # sizes of volumes are compared only
    assert not problems(
        "1", volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": sizes}}}]
    )
    node = {"metadata": {"name": "n"}, "status": {"allocatable": {resource: amount, "pods": "9"}}}
    assert fit_partly(node, Node).status.allocatable == {"pods": "9"}


def test_an_object_with_very_many_problems_is_not_read_to_its_end() -> None:
    """A node with two thousand amounts that are lists took seconds with all its copies."""
    amounts: dict[str, Any] = {f"example.com/r{i}": [] for i in range(2 * MOST_PROBLEMS)}
    value = {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": "n"},
        "status": {"capacity": amounts, "phase": 1},
    }
    problems: list[Problem] = []
    assert decode_as(value, Node, lambda *problem: problems.append(problem)) is None
    assert len(problems) == MOST_PROBLEMS + 1
    assert problems[-1][2] == "the object has 1000 problems; the rest of it is not looked at"
    fitted = fit_partly(value, Node)
    assert (fitted.metadata.name, dict(fitted.status.capacity)) == ("n", {})
