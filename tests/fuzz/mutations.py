"""Changes of a valid document that somebody careless or hostile could make."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any, Final

from tests.fuzz.corpus import BOMBS

Plain = Any
NUMBERS: Final = {
    "@huge@": "9" * 5000,
    "@exponent@": "1e999999999",
    "@nan@": "NaN",
    "@infinity@": "-Infinity",
    "@half@": "0.1",
}
"""Numbers that Python's JSON cannot write, by the words that stand for them in documents."""

SCALARS: Final[tuple[Plain, ...]] = (
    None, True, False, 0, -1, 1, 2**31 - 1, -(2**31), 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**70),
    1.5, -0.0, 1e308, *NUMBERS, "", " ", "a", "\x00", "\ud800", "é", "\u202e", "::warning::x",
    "\n::error::y", "../../etc/passwd", "/proc/self/environ", "/dev/zero", "*", "=", "a=b,c in (d",
    "(" * 3000, "9" * 5000, "1Gi1", "-1", "0.1m", "1e400", "1h" * 3000, "P1D", "2026-13-45",
    "x" * 100_000, "{{ .Values.x }}", "${HOME}", "yes", "0x10", "1_000", "%s%n", "a\nb: c",
    "'", '"',
)  # fmt: skip
KEYS: Final = ("", "a", "\x00", "metadata", "spec", "x" * 300, "::error::", "$patch", "<<", "0")
INDICATORS: Final = ('!!int "+"', "&a ", "*a", "<<: ", "--- ", "!x ")
_MANY: Final = 2000
_DEEP: Final = 300
_LARGEST: Final = 10 << 20
"""Characters of a mutated document; several times the largest body that a server reads."""


def hostile(random: Random) -> Plain:
    """Return a value that no schema expects."""
    choice = random.randrange(10)
    if choice < 6:
        return random.choice(SCALARS)
    if choice == 6:
        return random.choice(([], {}, [None], {"": None}, [[]], [{}], {"a": {}}))
    if choice == 7:
        return [random.choice(SCALARS[:12])] * _MANY
    if choice == 8:
        return {f"k{number}": number for number in range(_MANY)}
    deep: Plain = 1
    for _ in range(_DEEP):
        deep = [deep] if random.random() < 0.5 else {"a": deep}
    return deep


def mutated(document: Plain, random: Random, most: int = 4) -> Plain:
    """Return a copy with a few changes in random places; with none if they make it too large."""
    holder = {"": copy.deepcopy(document)}
    for _ in range(random.randint(1, most)):
        _mutate(holder, random)
        if _characters(holder) > _LARGEST:  # equal items are one object, and grow together
            return copy.deepcopy(document)
    return holder[""]


def _mutate(holder: Plain, random: Random) -> None:
    places = list(_places(holder))
    parent, key = random.choice(places)
    choice = random.randrange(8)
    if choice < 3:
        value = parent[key]
        bomb = isinstance(value, str) and " " in value and random.random() < 0.3
        parent[key] = random.choice(BOMBS) if bomb else hostile(random)
    elif choice == 3 and parent is not holder:
        del parent[key]
    elif choice == 4 and isinstance(parent, dict) and parent is not holder:
        parent[random.choice(KEYS)] = parent.pop(key)
    elif choice == 5:
        other, there = random.choice(places)
        parent[key] = copy.deepcopy(other[there]) if other is not holder else None
    elif choice == 6 and isinstance(parent[key], list):
        parent[key] = (parent[key] * 300)[:_MANY]
    elif isinstance(parent[key], dict):
        parent[key][random.choice(KEYS)] = hostile(random)
    else:
        parent[key] = [parent[key]] if random.random() < 0.5 else {"a": parent[key]}


def _characters(node: Plain) -> int:
    """Return about how many characters a value has as JSON; counting ends beyond `_LARGEST`."""
    if isinstance(node, str):
        return len(NUMBERS.get(node, node)) + 2
    if not isinstance(node, (dict, list)):
        return 4
    counted = 2
    for one in node.items() if isinstance(node, dict) else node:
        counted += sum(map(_characters, one)) if isinstance(one, tuple) else _characters(one)
        if counted > _LARGEST:
            break
    return counted


def _places(node: Plain, depth: int = 0) -> list[tuple[Plain, Plain]]:
    """Return every place of a tree: a container and a key; of long lists only the beginning."""
    if depth > 30:
        return []
    keys: list[Plain] = []
    if isinstance(node, dict):
        keys = list(node)[:50]
    elif isinstance(node, list):
        keys = list(range(min(len(node), 50)))
    found = [(node, key) for key in keys]
    for key in keys:
        found += _places(node[key], depth + 1)
    return found


def text_of(document: Plain) -> str:
    """Return a document as JSON, numbers included that Python would not write."""
    text = json.dumps(document)
    for word, number in NUMBERS.items():
        text = text.replace(f'"{word}"', number)
    return text


def damaged(text: str, random: Random) -> str:
    """Return a text with a few characters changed, cut off or repeated."""
    for _ in range(random.randint(0, 3)):
        at = random.randrange(len(text) + 1)
        choice = random.randrange(5)
        if choice == 0:
            text = text[:at] + random.choice("\x00\x1b\t\n&*!{}[]%@`'\"\\\ufeff\ud800") + text[at:]
        elif choice == 1:
            text = text[:at]
        elif choice == 2:
            text = text[:at] + text[at + random.randrange(20) :]
        elif choice == 3:
            text = text[:at] + text[max(0, at - 30) : at] * 3 + text[at:]
        else:
            text = text[:at] + random.choice(INDICATORS) + text[at:]
    return text
