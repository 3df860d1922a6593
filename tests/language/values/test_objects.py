"""Promises of objects as records: JSON of annotations, and what is decoded of pods besides."""

from __future__ import annotations

import pickle
from typing import Any

import msgspec

from policy_sched import model
from policy_sched.language.stdlib import core_object, decoded_structs
from policy_sched.language.values import decoded_as, object_of, types
from policy_sched.language.values.objects import MAX_ANNOTATION, annotation_reader

KIND = types.ObjectType("inputs.x", (("name", types.STRING), ("level", types.INT)), bare=True)


def test_a_text_is_parsed_once() -> None:
    """Each rule parsed the text again."""
    reader = annotation_reader(KIND)
    first = reader.get('{"name": "a", "level": 3}')
    assert (first.f_name, first.f_level) == ("a", 3)
    assert reader.get('{"name": "a", "level": 3}') is first
    assert pickle.loads(pickle.dumps(reader)) is reader


def test_what_does_not_fit_is_nothing() -> None:
    """A text that is no JSON object, has other types, is nested deep or too long ended a rule."""
    reader = annotation_reader(KIND)
    long = '{"name": "' + "x" * MAX_ANNOTATION + '"}'
    texts = ("", "{", "[]", "3", '{"level": "3"}', '{"level": 1e99}', "[" * 50_000, long)
    assert [text for text in texts if text in reader] == []
    assert reader.get("{", 7) == 7


def part(kind: types.ObjectType, *paths: str) -> types.ObjectType:
    """Return a type with these fields alone."""
    fields = []
    for name, inner in kind.fields:
        inside = [rest for head, _, rest in (p.partition(".") for p in paths) if head == name]
        if inside:
            fields.append((name, _inner(inner, inside)))
    return msgspec.structs.replace(kind, fields=tuple(fields))


def _inner(kind: types.Type, inside: list[str]) -> types.Type:
    if isinstance(kind, types.ListType):
        return types.list_of(_inner(kind.element, inside))
    return part(kind, *inside) if isinstance(kind, types.ObjectType) and any(inside) else kind


POD = {
    "metadata": {"name": "p", "finalizers": ["a"]},
    "spec": {
        "hostPID": True,
        "containers": [{"name": "c", "env": [{"name": "A", "value": "1"}]}, {"name": "d"}],
        "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}],
    },
    "status": {"containerStatuses": [{"name": "c", "restartCount": 3}], "podIP": "10.0.0.1"},
}
PATHS = (
    *("metadata.finalizers", "spec.hostPID", "spec.containers.name", "spec.containers.env.name"),
    *("spec.volumes.emptyDir.sizeLimit", "status.containerStatuses.restartCount"),
    *("status.startTime", "spec.dnsConfig.nameservers"),
)


def test_fields_are_decoded_that_scheduling_does_not_read() -> None:
    """Each field of a pod that a rule wanted to read had to be added to the program."""
    kind = part(core_object("Pod"), *PATHS)
    struct = decoded_as(model.Pod, kind)
    pod = msgspec.json.decode(msgspec.json.encode(POD), type=struct)
    assert isinstance(pod, model.Pod)
    assert pod.spec.containers[1].name == "d"
    read = object_of(model.PodInfo.of(pod), kind)
    assert read.f_metadata.f_finalizers == ("a",)
    assert read.f_spec.f_hostPID is True
    assert [[e.f_name for e in c.f_env] for c in read.f_spec.f_containers] == [["A"], []]
    assert read.f_spec.f_volumes[0].f_emptyDir.f_sizeLimit == 2**30
    assert read.f_status.f_containerStatuses[0].f_restartCount == 3
    assert read.f_status.f_startTime == 0
    assert read.f_spec.f_dnsConfig.f_nameservers == ()


def test_what_was_decoded_without_them_has_their_zeros() -> None:
    """A pod that was decoded before a rule read more of it is no mistake."""
    kind = part(core_object("Pod"), *PATHS)
    pod = msgspec.json.decode(msgspec.json.encode(POD), type=model.Pod)
    read = object_of(pod, kind)
    assert read.f_spec.f_hostPID is False
    assert len(read.f_spec.f_containers) == 2
    assert not object_of(None, kind)


def test_a_struct_that_has_all_fields_stays_itself() -> None:
    """Decoding is as fast as before where no rule reads more than scheduling does."""
    kind = part(
        core_object("Pod"), "spec.nodeName", "status.phase", "metadata.ownerReferences.name"
    )
    assert decoded_as(model.Pod, kind) is model.Pod
    assert decoded_structs([kind]) == {}


def test_what_is_no_amount_is_nothing() -> None:
    """A field that only rules read is not checked when a file is read."""
    kind = part(core_object("Pod"), "spec.volumes.emptyDir.sizeLimit")
    bad: dict[str, Any] = {
        "metadata": {"name": "p"},
        "spec": {"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "many"}}]},
    }
    pod = msgspec.convert(bad, decoded_as(model.Pod, kind))
    assert not object_of(pod, kind)


def test_fields_of_two_policies_are_decoded_together() -> None:
    """Policies of one process may each read other fields."""
    whole = core_object("Pod")
    first, second = part(whole, "spec.containers.env.name"), part(whole, "spec.containers.args")
    struct = decoded_structs([first, second])["v1", "Pod"]
    plain = {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"args": ["x"], "env": [{"name": "A"}]}]},
    }
    pod = msgspec.convert(plain, struct)
    assert object_of(pod, first).f_spec.f_containers[0].f_env[0].f_name == "A"
    assert object_of(pod, second).f_spec.f_containers[0].f_args == ("x",)


def test_a_stated_quantity_of_zero_is_a_value() -> None:
    """A borrowing limit of 0 could not be told from none, so the queue borrowed without limit."""
    fields = (("most", types.QUANTITY), ("least", types.QUANTITY))
    kind = types.ObjectType("inputs.x", fields, bare=True)
    record = annotation_reader(kind).get('{"most": "0"}')
    assert bool(record.f_most)
    assert record.f_most == 0
    assert not record.f_least
    assert bool(pickle.loads(pickle.dumps(record.f_most)))
