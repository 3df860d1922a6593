"""Promises about the key of a pod: the values of fields, and what plugins compute of the pod."""

from __future__ import annotations

import pytest

from policy_sched.framework import PodKey, Scope, Signature
from policy_sched.framework.evaluate import key_getter
from policy_sched.model import PodInfo
from policy_sched.testing import make_pod

FIELDS = frozenset({("priority",)})


@pytest.mark.parametrize("others", [0, 1])
def test_a_key_is_computed_only_where_it_may_not_be_none(others: int) -> None:
    """For a pod that has the attribute, and for all while the plugin knows of something."""
    known: dict[str, int] = {}
    keys = (
        PodKey(lambda pod: pod.name, "labels", (known,)),
        *[PodKey(lambda pod: pod.uid, "has_claims") for _ in range(others)],
    )
    key_of = key_getter(Signature(FIELDS, Scope.CLUSTER, keys=keys))
    plain, labelled = (PodInfo.of(make_pod("a", labels=one)) for one in ({}, {"app": "a"}))
    nones = (None,) * others
    assert key_of(plain) == (0, None, *nones)
    assert key_of(labelled) == (0, "a", *nones)
    known["b"] = 1
    assert key_of(plain) == (0, "a", *nones)


def test_keys_that_are_always_computed_have_others_beside_them() -> None:
    """A function of the pod that is no PodKey is called for each pod."""
    keys = (lambda pod: pod.name, PodKey(lambda pod: pod.uid, "has_claims"))
    key_of = key_getter(Signature(FIELDS, Scope.CLUSTER, keys=keys))
    assert key_of(PodInfo.of(make_pod("a"))) == (0, "a", None)
