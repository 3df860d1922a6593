"""Lines of watches: what is read at once is what a close look reads."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from policy_sched.client.apimachinery import POD
from policy_sched.client.kube.rest.decoding import Decoding
from policy_sched.client.kube.rest.errors import Malformed
from policy_sched.model.pod import Pod
from policy_sched.testing import make_pod

NAMED = {"metadata": {"name": "a", "namespace": "b", "uid": "c", "resourceVersion": "7"}}
REQUESTS = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}]
OBJECTS = {
    "a pod": msgspec.to_builtins(make_pod("p")),
    "requests": {**NAMED, "spec": {"containers": REQUESTS}},
    "fields that are not known": {**NAMED, "spec": {"more": 1}, "other": []},
    "nulls": {**NAMED, "spec": None, "status": None},
    "another kind": {**NAMED, "apiVersion": "v1", "kind": "Node"},
    "a quantity below zero": {
        **NAMED,
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "-1"}}}]},
    },
    "a field of another type": {**NAMED, "spec": {"priority": "high"}},
    "a status": {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired"},
    "no name": {"metadata": {}},
    "nothing": {},
}


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR", "MOVED"])
@pytest.mark.parametrize("thing", OBJECTS.values(), ids=OBJECTS)
def test_a_line_is_read_alike_at_once_and_closely(kind: str, thing: object) -> None:
    """The event or the refusal is the same for every type of event and every object."""
    decoding = Decoding(POD, Pod)
    line = msgspec.json.encode({"type": kind, "object": thing})
    assert answer(decoding.event, line) == answer(decoding._event_closely, line)


def answer(read: Callable[[bytes], object], line: bytes) -> object:
    """Return what a line is read as, or why it cannot be read."""
    try:
        return read(line)
    except Malformed as error:
        return str(error)
