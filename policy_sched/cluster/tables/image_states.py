"""Which nodes have which image: the cluster-wide state that image locality weighs.

Theory of operation: as upstream's cache, one state per image *name* (an image has several), shared
by all nodes that have it. Its size is what the first of them reported and stays until the last
one is gone, even where another architecture's image of that name has another size.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from policy_sched.model import Node


class ImageState:
    """Size in bytes of an image name and the rows of the live nodes that have it."""

    __slots__ = ("rows", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.rows: set[int] = set()


class Images:
    """The states of all image names on live nodes."""

    __slots__ = ("states", "watched")

    def __init__(self) -> None:
        self.states: dict[str, ImageState] = {}
        self.watched: dict[str, bool] = {}
        """Names that were looked up, and whether recently; only their changes are reported."""

    def size_on(self, name: str, row: int) -> int | None:
        """Return the size of an image if the row's node has it, else None."""
        state = self.states.get(name)
        return state.size if state is not None and row in state.rows else None

    def rows(self, name: str) -> Collection[int]:
        """Return the rows of the live nodes that have an image."""
        state = self.states.get(name)
        return () if state is None else state.rows

    def node_count(self, name: str) -> int:
        """Return how many live nodes have the image, and watch the name from now on."""
        self.watched[name] = True
        state = self.states.get(name)
        return 0 if state is None else len(state.rows)

    def watch(self, name: str) -> None:
        """Tell of changes of an image from now on."""
        self.watched[name] = True

    def forget(self, needed: Collection[str]) -> bool:
        """Stop watching names that were not needed or looked up recently; return whether any
        were."""
        idle = [
            name
            for name, referenced in self.watched.items()
            if not referenced and name not in needed
        ]
        for name in idle:
            del self.watched[name]
        for name in self.watched:
            self.watched[name] = False
        return bool(idle)

    def add(self, row: int, node: Node) -> None:
        """Count a node's images."""
        states = self.states
        for image in node.status.images:
            for name in image.names:
                state = states.get(name)
                if state is None:
                    state = states[name] = ImageState(image.size_bytes)
                state.rows.add(row)

    def remove(self, row: int, node: Node) -> None:
        """Take a node's images out of the count."""
        states = self.states
        for name, _ in names_of(node):
            state = states.get(name)
            if state is not None:
                state.rows.discard(row)
                if not state.rows:
                    del states[name]

    def outdated(self, row: int, node: Node) -> bool:
        """Return whether the last node with an image reports another size than the first one did.

        As upstream counts a node's images anew whenever it changes, it is believed then.
        """
        sizes: dict[str, int] = {}
        for name, size in names_of(node):
            sizes.setdefault(name, size)
        states = ((self.states.get(name), size) for name, size in sizes.items())
        return any(s and s.size != size and s.rows == {row} for s, size in states)

    def replace(self, row: int, old: Node, new: Node) -> bool:
        """Count ``new`` instead of ``old``; return whether a watched count or size changed."""
        names = {name for node in (old, new) for name, _ in names_of(node)}
        touched = names.intersection(self.watched)
        before = {name: self._summary(name) for name in touched}
        self.remove(row, old)
        self.add(row, new)
        return any(self._summary(name) != summary for name, summary in before.items())

    def _summary(self, name: str) -> tuple[int, int] | None:
        state = self.states.get(name)
        return None if state is None else (state.size, len(state.rows))


def names_of(node: Node) -> Iterator[tuple[str, int]]:
    """Yield each name of each image of a node, with the image's size in bytes."""
    for image in node.status.images:
        for name in image.names:
            yield name, image.size_bytes
