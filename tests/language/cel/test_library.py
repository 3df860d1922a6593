"""The environment of selectors: every function has a kernel and an example that holds."""

from __future__ import annotations

from typing import Final

import pytest

from policy_sched.language.cel import check_selector, compile_selector, device_record
from policy_sched.language.stdlib import Overload, policy_environment, selector_environment

DEVICE: Final = device_record(
    "dra.example.com", {"numa": 1}, {"memory": "40Gi"}, allow_multiple_allocations=False
)
SHARED: Final = {id(one) for one in policy_environment().overloads}
OWN: Final = [one for one in selector_environment().overloads if id(one) not in SHARED]


@pytest.mark.parametrize("overload", OWN, ids=lambda one: one.signature)
def test_examples_of_functions_hold(overload: Overload) -> None:
    """An example of the manual compiles, and has the value that stands behind its arrow."""
    written, _, value = overload.example.partition(" => ")
    selector = compile_selector(f"({written}) == ({value})" if value else written)
    assert selector.evaluate(DEVICE)[0] is True


def test_policies_and_selectors_share_their_functions() -> None:
    """A function that both have is one row of one table; Kubernetes' CEL leaves some out."""
    shared = [one for one in selector_environment().overloads if id(one) in SHARED]
    assert len(shared) > len(OWN)
    assert not any(one.ext for one in shared)
    names = {one.name for one in selector_environment().overloads}
    assert {"quantity", "semver", "matches", "ip", "url"} <= names
    assert not {"math.abs", "percent", "clamp", "trySemver"} & names


def test_what_new_objects_may_not_use() -> None:
    """A selector that is stored goes on compiling where kube-apiserver refuses a new one."""
    text = "device.attributes['a'].b.includes(1)"
    assert not compile_selector(text).error
    assert "undeclared reference to 'includes'" in compile_selector(text, new=True).error
    assert [one.code for one in check_selector(text)] == ["PS014"]
