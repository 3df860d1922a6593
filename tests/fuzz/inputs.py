"""Inputs of each kind, made from a source of randomness."""

from __future__ import annotations

import re
from functools import cache
from random import Random
from typing import Any

from tests.fuzz import corpus
from tests.fuzz.mutations import SCALARS, damaged, mutated, text_of
from tests.fuzz.worlds import world

Plain = Any
LONGEST = 10 << 20
"""Characters of an input: some more than anything that is read with its places may have."""
KINDS = (
    "policy", "test", "manifest", "kubeconfig", "expression", "claim", "slice", "group",
    "experiment", "snapshot",
)  # fmt: skip
WORLDS = ("claim", "slice", "group")
_TOKEN = re.compile(r"\w+|\"[^\"]*\"|[^\w\s]+|\s+")


@cache
def _seeds(kind: str) -> tuple[Plain, ...]:
    if kind == "policy":
        return tuple(corpus.policies())
    if kind == "test":
        return tuple(corpus.scenarios())
    if kind == "experiment":
        return tuple(corpus.experiments())
    return tuple(corpus.manifests()) if kind == "manifest" else (corpus.KUBECONFIG,)


@cache
def _expressions() -> tuple[str, ...]:
    """Return the expressions of shipped policies."""
    found: list[str] = []

    def collect(node: Plain) -> None:
        if isinstance(node, dict):
            found.extend(v for k, v in node.items() if k == "expression" and isinstance(v, str))
            for value in node.values():
                collect(value)
        elif isinstance(node, list):
            for value in node:
                collect(value)

    for one in corpus.policies():
        collect(one)
    return tuple(found)


def text(kind: str, random: Random) -> str:
    """Return an input of a kind: a valid one with a few changes of structure and of characters."""
    if kind == "expression":
        return _expression(random)
    if kind in WORLDS:
        return "\n".join(map(text_of, world(kind, random)))
    if kind == "snapshot":
        return text_of({"apiVersion": "v1", "kind": "List", "items": _some_objects(random)})
    document = mutated(random.choice(_seeds(kind)), random)
    written = text_of(document)[:LONGEST]
    return damaged(written, random) if random.random() < 0.3 else written


def _some_objects(random: Random) -> list[Plain]:
    found = [*random.sample(_seeds("manifest"), 3), *world("claim", random)]
    at = random.randrange(len(found))
    return [mutated(one, random, 2) if i == at else one for i, one in enumerate(found)]


def _expression(random: Random) -> str:
    tokens = _TOKEN.findall(random.choice(_expressions()))
    for _ in range(random.randint(1, 5)):
        at = random.randrange(len(tokens) + 1)
        choice = random.randrange(5)
        if choice == 0:
            tokens[at:at] = [random.choice(tokens or [" "])] * random.choice((1, 2, 500))
        elif choice == 1:
            del tokens[at : at + random.randint(1, 3)]
        elif choice == 2:
            tokens[at:at] = _TOKEN.findall(random.choice(_expressions()))
        elif choice == 3:
            tokens[at:at] = [repr(random.choice(SCALARS))]
        elif random.random() < 0.3:
            tokens[at:at] = [random.choice(corpus.BOMBS)]
    return "".join(tokens).replace("\x00", " ") or "true"
