"""Mirrors: what is told is always a story that makes sense."""

from __future__ import annotations

from hypothesis import given, strategies as st

from policy_sched.client.kube.cache import store
from policy_sched.model.meta import ApiObject, ObjectMeta


def thing(name: str, uid: str, version: int) -> ApiObject:
    """Return an object."""
    meta = ObjectMeta(name=name, namespace="d", uid=uid, resource_version=str(version))
    return ApiObject(metadata=meta)


THINGS = st.builds(thing, st.sampled_from("abc"), st.sampled_from("uvw"), st.integers(1, 9))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("present"), THINGS),
        st.tuples(st.just("absent"), THINGS),
        st.tuples(st.just("replace"), st.lists(THINGS, max_size=4)),
    ),
    max_size=30,
)


@given(STEPS)
def test_changes_lead_from_the_old_state_to_the_new_one(
    steps: list[tuple[str, ApiObject | list[ApiObject]]],
) -> None:
    """The changes alone give the content of the store, and fit each other."""
    mirror: store.Store[ApiObject] = store.Store()
    heard: dict[tuple[str, str], ApiObject] = {}
    for what, given_ in steps:
        if isinstance(given_, list):
            changes = mirror.replace(given_)
        elif what == "present":
            changes = mirror.upsert(given_)
        else:
            changes = mirror.delete(given_)
        for change in changes:
            hear(heard, change)
        assert {k: v.metadata.uid for k, v in heard.items()} == {
            (m.metadata.namespace, m.metadata.name): m.metadata.uid for m in mirror
        }


def hear(heard: dict[tuple[str, str], ApiObject], change: store.Change[ApiObject]) -> None:
    """Take a change as an informer's user does."""
    meta = change.object.metadata
    key = meta.namespace, meta.name
    before = heard.get(key)
    if change.type is store.ChangeType.ADDED:
        assert before is None
        assert change.old is None
        heard[key] = change.object
    elif change.type is store.ChangeType.MODIFIED:
        assert before is change.old
        assert change.old is not None
        assert change.old.metadata.uid == meta.uid
        assert change.old.metadata.resource_version != meta.resource_version
        heard[key] = change.object
    else:
        assert before is not None
        assert change.new is None
        assert before.metadata.uid == meta.uid
        del heard[key]


def test_a_list_without_news_changes_nothing() -> None:
    """Objects of the same version are the ones that are held already."""
    mirror: store.Store[ApiObject] = store.Store()
    first = thing("a", "u", 1)
    mirror.replace([first])
    assert mirror.replace([thing("a", "u", 1)]) == []
    assert mirror.get("d", "a") is first


def test_a_long_list_is_compared_in_pieces() -> None:
    """No piece is longer than a thousand objects, and together they are what changed."""
    mirror: store.Store[ApiObject] = store.Store()
    mirror.replace(thing(f"old-{i}", "u", 1) for i in range(2500))
    new = [thing(f"new-{i}", "u", 1) for i in range(1500)]
    pieces = list(mirror.replacing(new))
    assert max(map(len, pieces)) == store.PIECE
    assert pieces.count([]) == 2, "the list is looked through before anything is told"
    names = [change.object.metadata.name for piece in pieces for change in piece]
    assert names == [f"old-{i}" for i in range(2500)] + [f"new-{i}" for i in range(1500)]


def test_the_same_version_of_the_same_object_is_held_once() -> None:
    """What is read again gives way to what is held; anything else stands for itself."""
    mirror: store.Store[ApiObject] = store.Store()
    held = thing("a", "u", 1)
    mirror.upsert(held)
    assert mirror.held(thing("a", "u", 1)) is held
    for other in (thing("a", "u", 2), thing("a", "v", 1), thing("b", "u", 1)):
        assert mirror.held(other) is other
