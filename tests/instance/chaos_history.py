"""The changes of nodes and pods that an API server recorded, and their invariants.

A killed server may not have recorded its last change; the objects it finds at its next start
come between ``begins`` and ``begun``, and stand for that.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ENDED = ("Succeeded", "Failed")
Line = dict[str, Any]


@dataclass
class Findings:
    """Violations, and when (ns since 1970) pods were bound, by the prefix of their names."""

    wrong: list[str] = field(default_factory=list)
    bound_at: dict[str, list[int]] = field(default_factory=dict)
    pods: dict[str, Line] = field(default_factory=dict)
    were_bound: set[str] = field(default_factory=set)
    bindings: int = 0


class Book:
    """Reads lines in order."""

    def __init__(self) -> None:
        self.found = Findings()
        self._room: dict[str, int] = {}
        self._used: Counter[str] = Counter()
        self._node_of: dict[str, str] = {}
        self._there: list[Line] | None = None

    def take(self, line: Line) -> None:
        """Read a line."""
        if "begins" in line:
            self._there = []
        elif "begun" in line:
            assert self._there is not None
            there = {one["uid"] for one in self._there}
            for uid in self.found.pods.keys() - there:
                self._leave(uid)
            for one in self._there:
                self._pod(one)
            self._there = None
        elif "server" in line:
            self._room[line["server"]] = line["cpu"]
        elif self._there is not None:
            self._there.append(line)
        else:
            self._pod(line)

    def _pod(self, line: Line) -> None:
        uid, node = line["uid"], line["node"]
        before = self._node_of.get(uid, "")
        if before and node != before:
            self.found.wrong.append(f"{line['name']} was bound to {before}, then to {node!r}")
        if node and not before:
            self._node_of[uid] = node
            self.found.bindings += 1
            self.found.were_bound.add(line["name"])
            self.found.bound_at.setdefault(line["name"].partition("-")[0], []).append(line["at"])
        self._leave(uid)
        if line["phase"] == "Failed":
            self.found.wrong.append(f"{line['name']} was turned away by {node}")
        if line["gone"]:
            return
        self.found.pods[uid] = line
        if node and line["phase"] not in ENDED:
            self._used[node] += line["cpu"]
            if self._used[node] > self._room[node]:
                full = f"{self._used[node]} of {self._room[node]}"
                self.found.wrong.append(f"{node} is overcommitted by {line['name']}: {full}")

    def _leave(self, uid: str) -> None:
        """Release a pod's resources."""
        old = self.found.pods.pop(uid, None)
        if old is not None and old["node"] and old["phase"] not in ENDED:
            self._used[old["node"]] -= old["cpu"]


def lines_of(path: Path) -> Iterator[Line]:
    """Yield the lines; one that a kill has cut off is left out."""
    with path.open("rb") as file:
        for text in file:
            try:
                yield json.loads(text)
            except json.JSONDecodeError:
                continue


def read(lines: Iterable[Line]) -> Findings:
    """Return the findings of lines."""
    book = Book()
    for line in lines:
        book.take(line)
    return book.found
