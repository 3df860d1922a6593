"""Lines of watches: what is read at once is what a close look reads.

Lines come out whole, however the network cuts them.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, strategies as st

from policy_sched.client.apimachinery import POD
from policy_sched.client.kube.rest.decoding import Decoding, Lines, LineTooLong
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


@given(st.lists(st.binary(max_size=20)), st.lists(st.integers(0, 300)))
def test_cuts_do_not_matter(parts: list[bytes], cuts: list[int]) -> None:
    """Any way of cutting a stream into chunks gives the same lines."""
    stream = b"\n".join(parts)
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    lines = Lines()
    found = [line for start, end in pairwise(places) for line in lines.feed(stream[start:end])]
    whole, _, rest = stream.rpartition(b"\n")
    expected = [line.removesuffix(b"\r") for line in whole.split(b"\n")]
    assert found == [line for line in expected if line]
    assert lines.held == len(rest)


def test_a_line_without_end_is_not_held() -> None:
    """Beyond the limit a line is an error, in one chunk or in many."""
    with pytest.raises(LineTooLong):
        Lines(10).feed(b"x" * 11)
    with pytest.raises(LineTooLong):
        Lines(10).feed(b"x" * 11 + b"\n")
    with pytest.raises(LineTooLong):
        Lines(10).feed(b"short\n" + b"x" * 11 + b"\nshort\n")
    lines = Lines(10)
    lines.feed(b"x" * 6)
    with pytest.raises(LineTooLong):
        lines.feed(b"x" * 6)
