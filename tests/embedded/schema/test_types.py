"""Types of fields: what is refused, in which words, and that nothing of a wrong type gets by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from policy_sched.client.apimachinery.resources import ApiError
from policy_sched.embedded.schema import types
from policy_sched.model import messages

Plain = dict[str, Any]
KINDS = sorted(message for message in messages.texts() if "/" in message)
OTHERS: dict[str, tuple[Any, ...]] = {
    "s": (1, True, [], {}), "x": (1, True, [], {}, "@"), "i": ("1", True, [], {}, 1.5, 2**31),
    "l": ("1", True, [], {}, 1.5, 2**63), "b": (1, "true", [], {}),
    "Time": (1, True, [], {}, "noon", ""), "MicroTime": (1, True, [], {}, "noon"),
    "Quantity": (True, [], {}, "x", "1q"), "IntOrString": (True, [], {}, 1.5, 2**31),
    "ExtraValue": (1, "x", True, {}, [1]), "Object": (1, "x", True, []),
}  # fmt: skip
"""Values that are not of a type."""
MESSAGE = (1, "x", True, [])
ANYTHING = ("FieldsV1", "RawExtension")


def wrong(kind: str) -> Iterator[tuple[str, Plain]]:
    """Yield an object for each field of a kind and each wrong value, and the field's name."""

    def inside(message: str, wrap: Any) -> Iterator[tuple[str, Plain]]:
        for name, field in messages.fields_of(message).items():

            def put(value: Any, name: str = name) -> Plain:
                outer: Plain = wrap({name: value})
                return outer

            yield from ((name, element) for element in of(field, put))

    def of(field: messages.MessageField, put: Any) -> Iterator[Plain]:
        def hold(value: Any) -> Plain:
            held: Plain = put({"k": value} if field.mapped else [value])
            return held

        item = hold if field.mapped or field.repeated else put
        values = OTHERS.get(field.type, () if field.type in ANYTHING else MESSAGE)
        yield from map(item, values)
        if field.mapped or field.repeated:
            yield from map(put, (1, "x", True, [] if field.mapped else {}))
        if field.type not in messages.LEAVES and field.type not in OTHERS:
            yield from (element for _, element in inside(field.type, item))

    yield from inside(kind, lambda data: data)


@pytest.mark.parametrize("kind", KINDS)
def test_no_field_of_a_wrong_type_gets_by(kind: str) -> None:
    """``updateStrategy: 1`` of a daemon set ended the process, and every start after that."""
    version, _, name = kind.rpartition("/")
    tried = 0
    for field, data in wrong(kind):
        with pytest.raises(ApiError) as refused:
            types.typed((version, name), data)
        assert refused.value.code == 400
        assert field in str(refused.value), (data, str(refused.value))
        tried += 1
    assert tried > 20


HEAD = 'Deployment in version "v1" cannot be handled as a Deployment: '


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"replicas": "a"},
         "string into Go struct field DeploymentSpec.spec.replicas of type int32"),
        ({"replicas": 2**31},
         "number 2147483648 into Go struct field DeploymentSpec.spec.replicas of type int32"),
        ({"template": {"spec": {"volumes": [{"name": 1}]}}},
         "number into Go struct field Volume.spec.template.spec.volumes.name of type string"),
        ({"selector": []},
         "array into Go struct field DeploymentSpec.spec.selector of type v1.LabelSelector"),
        ({"selector": {"matchLabels": {"a": "b", "c": True}}},
         "bool into Go struct field LabelSelector.spec.selector.matchLabels of type string"),
    ],
)  # fmt: skip
def test_the_words_are_those_of_kube_apiserver(spec: Plain, words: str) -> None:
    """Clients show them to people, who look for the field."""
    with pytest.raises(ApiError) as refused:
        types.typed(("apps/v1", "Deployment"), {"spec": spec})
    assert str(refused.value) == f"{HEAD}json: cannot unmarshal {words}"


@pytest.mark.parametrize(
    ("kind", "data", "words"),
    [
        (("v1", "Pod"),
         {"spec": {"containers": [{}, {"resources": {"limits": {"a": "1", "b": "x"}}}]}},
         "spec.containers[1].resources.limits.b: quantities must match the regular expression"),
        (("v1", "Secret"), {"data": {"a": "YQ==", "b": "@"}}, "data.b: illegal base64 data"),
        (("v1", "Node"), {"metadata": {"creationTimestamp": "noon"}},
         'metadata.creationTimestamp: parsing time "noon" as "2006-01-02T15:04:05Z07:00"'),
        (("v1", "Pod"), {"metadata": {"name": "\ud800"}}, "surrogates not allowed"),
        (("v1", "Pod"), {"kind": 5}, "number into Go struct field Pod.kind of type string"),
    ],
)  # fmt: skip
def test_unreadable_texts_are_reported_with_their_field(
    kind: tuple[str, str], data: Plain, words: str
) -> None:
    """A quantity, a time or base64 has the right JSON type and says nothing."""
    with pytest.raises(ApiError) as refused:
        types.typed(kind, data)
    assert words in str(refused.value)


def test_null_is_what_go_reads() -> None:
    """Fields that are null are left out, items are zeros; unknown fields are not looked at."""
    data = {
        "metadata": {"name": "p", "labels": {"a": None}, "creationTimestamp": None},
        "spec": {
            "tolerations": None,
            "containers": [None, {"args": [None, "x"], "resources": {"limits": {"cpu": None}}}],
        },
        "status": None,
        "other": [None],
    }  # fmt: skip
    assert types.typed(("v1", "Pod"), data) == {
        "metadata": {"name": "p", "labels": {"a": ""}},
        "spec": {"containers": [{}, {"args": ["", "x"], "resources": {"limits": {"cpu": "0"}}}]},
        "other": [None],
    }


def test_objects_of_right_types_are_unchanged() -> None:
    """Numbers as quantities, times with fractions, base64 in lines, anything where it may be."""
    data = {
        "metadata": {"name": "s", "creationTimestamp": "2026-01-02T03:04:05.123456+01:00"},
        "data": {"a": "YW\nJj"},
    }
    assert types.typed(("v1", "Secret"), data) is data
    quota = {"spec": {"hard": {"cpu": 1, "memory": "1Gi", "pods": 1.5}}}
    assert types.typed(("v1", "ResourceQuota"), quota) is quota
    revision = {"data": [1, {"x": "y"}], "revision": 2**62}
    assert types.typed(("apps/v1", "ControllerRevision"), revision) is revision
