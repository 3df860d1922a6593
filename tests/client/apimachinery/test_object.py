"""Selectors in text form, as requests carry them."""

from __future__ import annotations

import pytest

from policy_sched.client.apimachinery.object import Stored, field_match, label_match
from policy_sched.client.apimachinery.resources import POD, ApiError
from tests.embedded.store.test_store import new_store
from tests.embedded.world import pod


def stored(**spec: str) -> Stored:
    """Return a pod labelled ``app: web`` and ``tier: 1``."""
    given = pod("p", **spec)
    given["metadata"]["labels"] = {"app": "web", "tier": "1"}
    return new_store().create(given)


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("app=web", True),
        ("app==web,tier=1", True),
        ("app=web,tier=2", False),
        ("app!=db", True),
        ("none!=x", True),
        ("app in (db, web)", True),
        ("app notin (db,web),tier=1", False),
        ("app", True),
        ("!app", False),
        ("!none,app", True),
        ("none=", False),
    ],
)
def test_labels_are_selected(text: str, selected: bool) -> None:
    """Equality, sets, presence, and all of them at once."""
    assert label_match(text)(stored()) is selected


@pytest.mark.parametrize("text", ["-x=1", "app=-", "app in ()"])
def test_what_is_no_selector_is_refused(text: str) -> None:
    """With 400."""
    with pytest.raises(ApiError) as caught:
        label_match(text)
    assert caught.value.code == 400


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("metadata.name=p", True),
        ("metadata.namespace!=default", False),
        ("spec.nodeName=", True),
        ("spec.nodeName=n", False),
        ("status.phase=Pending,spec.schedulerName=default-scheduler", True),
        ("status.phase!=Succeeded,status.phase!=Failed", True),
        ("spec.hostNetwork=false", False),
    ],
)
def test_fields_are_selected(text: str, selected: bool) -> None:
    """Dotted paths; a field that is missing is empty."""
    assert field_match(text)(stored()) is selected


def test_a_field_selector_needs_an_operator() -> None:
    """Presence of a field cannot be asked for."""
    with pytest.raises(ApiError, match="invalid field selector"):
        field_match("spec.nodeName")


def test_lists_take_both_kinds_and_a_namespace() -> None:
    """All of it must hold."""
    store = new_store()
    for name, app in (("a", "web"), ("b", "db")):
        given = pod(name)
        given["metadata"]["labels"] = {"app": app}
        store.create(given)
    assert [one.name for one in store.select(POD, "default", "app=web")] == ["a"]
    assert store.select(POD, "", "app=web", "metadata.name=b") == []
    assert store.select(POD, "other") == []
