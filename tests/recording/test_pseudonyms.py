"""Pseudonyms: stable for a key, and equal exactly where the names are."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from policy_sched.recording.pseudonyms import Pseudonyms, _Order

KEY = b"0123456789abcdef"
NAMES = st.from_regex(r"[a-z0-9]([a-z0-9._-]{0,20}[a-z0-9])?", fullmatch=True)


@given(left=NAMES, other=NAMES)
def test_they_are_equal_where_the_names_are(left: str, other: str) -> None:
    """Also with another object of the same key, whatever came before."""
    names = Pseudonyms(KEY)
    assert (names.name(left) == names.name(other)) is (left == other)
    assert Pseudonyms(KEY).name(other) == names.name(other)


def test_they_tell_nothing_without_the_key() -> None:
    """They are labels of DNS of one length, and others with another key."""
    name = Pseudonyms(KEY).name("payments-prod")
    assert len(name) == 12
    assert name.isalnum()
    assert name[0] == "n"
    assert Pseudonyms(b"another key of 16").name("payments-prod") != name


@pytest.mark.parametrize("text", ["", "default", "kube-system", "42", "-7", "+3", "true", "amd64"])
def test_what_kubernetes_gives_and_numbers_stay(text: str) -> None:
    """Gt and Lt compare numbers; an empty name is none."""
    assert Pseudonyms(KEY).name(text) == text


@pytest.mark.parametrize(
    ("text", "stays"),
    [
        ("topology.kubernetes.io/zone", True),
        ("node-role.kubernetes.io/worker", True),
        ("scheduling.x-k8s.io/pod-group", True),
        ("topology.gke.io/zone", True),
        ("pod-template-hash", True),
        ("acme.com/team", False),
        ("nvidia.com/gpu.product", False),
        ("app", False),
        ("k8s.io", False),
    ],
)
def test_keys_of_kubernetes_stay(text: str, stays: bool) -> None:
    """The others are names of somebody's own."""
    assert (Pseudonyms(KEY).key(text) == text) is stays


def test_patterns_keep_what_policies_mention() -> None:
    """A pattern holds for keys, values, names and images."""
    names = Pseudonyms(KEY, ["nvidia.com/*", "spot"])
    assert names.key("nvidia.com/gpu.product") == "nvidia.com/gpu.product"
    assert names.name("spot") == "spot"
    assert names.name("spots") != "spots"


def test_names_that_consist_of_others() -> None:
    """Zones of a volume, images with tags, disks with paths, UIDs of names, claims of pods."""
    names = Pseudonyms(KEY)
    a, b = names.name("a"), names.name("b")
    assert names.name("a__b") == f"{a}__{b}"
    assert names.image("a") == a
    assert names.image("a:latest") == f"{a}:latest"
    assert names.image("a:b") == f"{a}:{b}"
    assert names.image("host:5000/a").isalnum()
    assert names.path("aws://a/vol-b") == f"aws://{a}/vol-{b}"
    assert names.uid("a/b") == f"{a}/{b}"
    assert len(names.uid("6f1c")) == 36
    names.derive("a-b", ("a", "b"))
    assert names.name("a-b") == f"{a}-{b}"


def test_numbers_keep_an_order() -> None:
    """What is taken in the order of names is taken in the order of pseudonyms."""
    names = Pseudonyms(KEY)
    names.number(["c", "a", "b", "default"])
    assert [names.name(text)[:8] for text in "abc"] == ["n000001-", "n000002-", "n000003-"]
    assert names.name("default") == "default"


def test_what_is_forgotten_is_made_again() -> None:
    """So that a long recording needs no memory for pods that are gone."""
    names = Pseudonyms(KEY)
    names.number(["a", "b"])
    names.derive("web-data", ("web", "data"))
    before = [names.name(text) for text in ("a", "b", "web-data", "web", "other")]
    names.forget()
    assert len(names) == 3
    assert [names.name(text) for text in ("a", "b", "web-data", "web", "other")] == before


@given(texts=st.lists(st.text("abcdef", min_size=1, max_size=4), unique=True, max_size=60))
def test_an_order_holds_whenever_names_come(texts: list[str]) -> None:
    """Names that come later are numbered in between."""
    order = _Order()
    numbers = {text: order.number(text) for text in texts}
    assert all(number.isdecimal() for number in numbers.values())
    assert sorted(texts, key=lambda text: f"n{numbers[text]}-x") == sorted(texts)


def test_the_names_can_be_written_down() -> None:
    """What is replaced is listed by its pseudonym, and nothing else."""
    names = Pseudonyms(KEY)
    pseudonym = names.name("web")
    names.name("default")
    assert names.names == {pseudonym: "web"}
