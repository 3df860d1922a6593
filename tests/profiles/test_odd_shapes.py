"""Documents with odd values in odd places: each is reported as a problem of the file."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

import pytest
import yaml

from policy_sched.profiles.check.check import check_open
from policy_sched.profiles.format.formatting import format_file
from policy_sched.profiles.models.defaults import policies_directory

ODD: list[Any] = [
    None, 5, -1, 1.5, True, "", "x y", [], {}, ["a"], {"a": 1}, [None], {"a": None}, 10**30, [[1]],
    "node.name", {"expression": "1"},
]  # fmt: skip
FILES = [
    "gang/policy.yaml", "gentle-preemption/policy.yaml", "fragmentation-gradient/policy.yaml",
    "rack-spread/tests.yaml", "example-cluster/config.yaml",
]  # fmt: skip
ROUNDS = 40


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values in a document, its own left out."""
    inner = list(value.items()) if isinstance(value, dict) else []
    inner += list(enumerate(value)) if isinstance(value, list) else []
    found = [(*path, key) for key, _ in inner]
    return found + [place for key, one in inner for place in places(one, (*path, key))]


def changed(document: Any, random: Random) -> Any:
    """Return a document in which one value is another, or is not there."""
    document = copy.deepcopy(document)
    *path, last = random.choice(places(document))
    parent = document
    for step in path:
        parent = parent[step]
    if random.random() < 0.2:
        del parent[last]
    else:
        parent[last] = copy.deepcopy(random.choice(ODD))
    return document


@pytest.mark.parametrize("name", FILES)
def test_no_shape_is_too_odd(name: str) -> None:
    """Check and format give problems with a place in the file, or none; they never fail."""
    random = Random(name)
    text = (policies_directory() / name).read_text(encoding="utf-8")
    documents = [one for one in yaml.load_all(text, yaml.CSafeLoader) if one]
    for _ in range(ROUNDS):
        document = changed(random.choice(documents), random)
        odd = yaml.dump(document, Dumper=yaml.CSafeDumper, sort_keys=False)
        lines = odd.count("\n") + 1
        found = [*check_open("odd.yaml", odd), *format_file("odd.yaml", odd)[1]]
        assert all(1 <= one.line <= lines and one.column >= 1 for one in found), odd
