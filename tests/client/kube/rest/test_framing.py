"""Lines come out whole, however the network cuts them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from policy_sched.client.kube.rest.decoding import Lines, LineTooLong


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
        list(Lines(10).feed(b"x" * 11))
    with pytest.raises(LineTooLong):
        list(Lines(10).feed(b"x" * 11 + b"\n"))
    lines = Lines(10)
    list(lines.feed(b"x" * 6))
    with pytest.raises(LineTooLong):
        list(lines.feed(b"x" * 6))
