"""YAML documents as plain data that remembers where everything stands.

Theory of operation: PyYAML composes nodes whose marks are character offsets. Plain data is made
from the nodes with YAML's safe tags, and the nodes stay, so that a path such as
``("spec", "filter", 0, "expression")`` finds the node of its value or of its key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NoReturn

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from policy_sched.errors import Diagnostic
from policy_sched.source.file import SourceFile, Span, diagnostic
from policy_sched.source.scalars import content_end, content_start, scalar_places

YAML_SYNTAX: Final = "PS701"
MAX_POLICY_BYTES: Final = 1 << 20
"""The size up to which policy files are read: 1 MiB."""

MAX_EXPANSION: Final = 10
"""How many times larger than its file a document may become through aliases."""

MAX_DEPTH: Final = 100
"""How deep values may stand in one another; each level takes of the stack that composing has."""

Path = tuple[str | int, ...]
"""Where a value is: keys of mappings, indexes of sequences."""


class Marked:
    """One YAML document: its plain data in ``value``, and where every part of it stands.

    Keys are text as in JSON. Values that were written once and are used through aliases are one
    object: copy before changing.
    """

    def __init__(self, file: SourceFile, root: Node, value: Any) -> None:
        self.file = file
        self.value = value
        self._root = root

    def node(self, path: Path) -> Node | None:
        """Return the YAML node of the value at ``path``, or None if there is none."""
        node = self._root
        for step in path:
            found = _child(node, step)
            if found is None:
                return None
            node = found[1]
        return node

    def span(self, path: Path) -> Span:
        """Return the span of the value at ``path``; of the closest outer value if there is none.

        A value used through an alias is found where it was written.
        """
        while (node := self.node(path)) is None:
            path = path[:-1]
        return self._span(node)

    def key_span(self, path: Path) -> Span:
        """Return the span of the key that leads to ``path``; of the value if no key does."""
        parent = self.node(path[:-1])
        found = _child(parent, path[-1]) if parent is not None and path else None
        if found is None or found[0] is None:
            return self.span(path)
        return self._span(found[0])

    def style(self, path: Path) -> str:
        """Return the style of the scalar at ``path``: ``|``, ``>``, a quote, or "" for plain.

        Raises KeyError if there is no scalar.
        """
        return self._scalar(path).style or ""

    def scalar_map(self, path: Path) -> Callable[[int], int]:
        """Return the function from an offset in a decoded scalar to the offset in the file.

        The length of the text maps to the end of the scalar. Raises KeyError if there is no
        scalar at ``path``.
        """
        places = scalar_places(self.file.text, self._scalar(path))
        last = len(places) - 1
        return lambda offset: places[min(max(offset, 0), last)]

    def _scalar(self, path: Path) -> ScalarNode:
        node = self.node(path)
        if not isinstance(node, ScalarNode):
            raise KeyError(path)
        return node

    def _span(self, node: Node) -> Span:
        start = content_start(self.file.text, node)
        return start, max(start, content_end(self.file.text, node))


def _child(node: Node, step: str | int) -> tuple[Node | None, Node] | None:
    """Return key and value node of one step; None if there is no such key or index."""
    if isinstance(node, MappingNode):
        for key, value in reversed(node.value):  # the last of equal keys counts
            if isinstance(key, ScalarNode) and _key_text(key) == step:
                return key, value
    elif isinstance(node, SequenceNode) and isinstance(step, int) and -1 < step < len(node.value):
        return None, node.value[step]
    return None


def parse_documents(
    file: SourceFile, max_bytes: int | None = MAX_POLICY_BYTES
) -> tuple[list[Marked], list[Diagnostic]]:
    """Return the documents of a file that are not empty, and what is wrong with it.

    Syntax errors, duplicate keys, tags that are not safe, files beyond ``max_bytes`` and
    documents that aliases blow up are PS701 diagnostics. A document with a duplicate key is
    returned (the last value counts), one that is wrong in another way is not.
    """
    if max_bytes is not None and len(file.text.encode(errors="replace")) > max_bytes:
        message = f"the file is larger than {max_bytes} bytes"
        return [], [diagnostic(file, 0, YAML_SYNTAX, message)]
    bad = yaml.reader.Reader.NON_PRINTABLE.search(file.text)
    if bad is not None:
        message = f"the character U+{ord(bad[0]):04X} is not allowed in YAML"
        return [], [diagnostic(file, bad.start(), YAML_SYNTAX, message)]
    documents: list[Marked] = []
    problems: list[Diagnostic] = []
    deep = _too_deep(file.text)
    if deep is not None:
        message = f"values stand in one another more than {MAX_DEPTH} deep"
        return [], [diagnostic(file, deep, YAML_SYNTAX, message)]
    for root in _roots(file, problems):
        try:
            value = _Builder(file, problems).document(root)
        except _RefusedError:
            continue
        if value is not None:
            documents.append(Marked(file, root, value))
    return documents, problems


_Loader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _too_deep(text: str) -> int | None:
    """Return where a text goes too deep, None if it does not; errors are told elsewhere."""
    loader, depth = _Loader(text), 0
    try:
        while loader.check_event():
            event = loader.get_event()
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > MAX_DEPTH:
                    mark = event.start_mark
                    return mark.index if mark else 0
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
    except yaml.YAMLError:
        pass
    finally:
        loader.dispose()
    return None


def _roots(file: SourceFile, problems: list[Diagnostic]) -> Iterator[Node]:
    """Yield the root nodes; a syntax error becomes a diagnostic and ends the file."""
    loader = _Loader(file.text)
    try:
        while loader.check_node():
            yield loader.get_node()
    except yaml.MarkedYAMLError as error:
        mark, where = error.problem_mark or error.context_mark, error.context_mark
        offset = min(mark.index if mark else 0, len(file.text))
        context = ""
        if error.context and where is not None and where.index != offset:
            line, column = file.position(where.index)
            context = f"{error.context} that begins at {line}:{column}"
        problem = error.problem or error.context or "the text is not YAML"
        problems.append(diagnostic(file, offset, YAML_SYNTAX, problem, context=context))
    finally:
        loader.dispose()


class _RefusedError(Exception):
    """The document is refused; a diagnostic says why."""


_TAG: Final = "tag:yaml.org,2002:"
_TEXT_TAGS: Final = frozenset({"str", "timestamp", "value"})
"""Tags whose scalars stay text; Kubernetes reads times as text too."""

_construct: Final = yaml.constructor.SafeConstructor()


def _scalar_value(node: ScalarNode) -> str | int | float | bool | None:
    """Return what a scalar with a safe tag means. Raises ValueError if its text does not fit."""
    kind, text = node.tag.removeprefix(_TAG), str(node.value)
    if kind in _TEXT_TAGS:
        return text
    if kind == "null":
        return None
    if kind == "bool":
        return bool(_construct.construct_yaml_bool(node))
    if kind in ("int", "float") and ":" in text:
        return text  # YAML 1.1 reads 12:30 as a number of base 60; Kubernetes does not
    if kind == "int":
        return int(_construct.construct_yaml_int(node))
    if kind == "float":
        return float(_construct.construct_yaml_float(node))
    raise ValueError(kind)


def _key_text(node: ScalarNode) -> str:
    """Return a key as JSON has it: true and false for truth values, else the text."""
    if node.tag == f"{_TAG}bool":
        return "true" if _construct.construct_yaml_bool(node) else "false"
    return str(node.value)


class _Builder:
    """Makes plain data of one document; each node is built once, however often it is aliased."""

    def __init__(self, file: SourceFile, problems: list[Diagnostic]) -> None:
        self._file = file
        self._problems = problems
        self._built: dict[int, tuple[Any, int]] = {}
        self._open: set[int] = set()

    def document(self, root: Node) -> Any:
        """Return the plain data of a document. Raises _RefusedError."""
        value, size = self._build(root)
        if size > MAX_EXPANSION * max(len(self._file.text), 1024):
            message = f"aliases make the document more than {MAX_EXPANSION} times larger"
            self._refuse(root, message)
        return value

    def _build(self, node: Node) -> tuple[Any, int]:
        """Return value and size, in characters with all aliases written out."""
        key = id(node)
        if key in self._built:
            return self._built[key]
        if key in self._open:
            self._refuse(node, "an alias leads back into the value that it stands for")
        self._open.add(key)
        if isinstance(node, MappingNode):
            built = self._mapping(node)
        elif isinstance(node, SequenceNode):
            built = self._sequence(node)
        else:
            assert isinstance(node, ScalarNode)
            built = self._scalar(node)
        self._open.discard(key)
        self._built[key] = built
        return built

    def _scalar(self, node: ScalarNode) -> tuple[Any, int]:
        self._check_tag(node, ("str", "timestamp", "value", "null", "bool", "int", "float"))
        try:
            return _scalar_value(node), 1 + len(node.value)
        except (ValueError, KeyError):
            self._refuse(node, f"{node.value!r} is not a valid {node.tag.removeprefix(_TAG)}")

    def _sequence(self, node: SequenceNode) -> tuple[Any, int]:
        self._check_tag(node, ("seq",))
        built = [self._build(item) for item in node.value]
        return [value for value, _ in built], 1 + sum(size for _, size in built)

    def _mapping(self, node: MappingNode) -> tuple[Any, int]:
        self._check_tag(node, ("map",))
        own = [pair for pair in node.value if pair[0].tag != f"{_TAG}merge"]
        self._check_keys(own)
        merged = [
            pair
            for key, value in node.value
            if key.tag == f"{_TAG}merge"
            for pair in self._merge_pairs(value)
        ]
        node.value = merged + own  # so that paths lead to merged values too
        result, total = {}, 1
        for key, value in node.value:
            result[_key_text(key)], size = self._build(value)
            total += size + len(key.value)
        return result, total

    def _check_keys(self, pairs: list[tuple[Node, Node]]) -> None:
        seen: dict[str, Node] = {}
        for key, _ in pairs:
            if not isinstance(key, ScalarNode):
                self._refuse(key, "a key must be text")
            self._scalar(key)
            text = _key_text(key)
            if text in seen:
                line, _ = self._file.position(seen[text].start_mark.index)
                self._report(key, f"duplicate key {text!r}", f"the first one is in line {line}")
            seen[text] = key

    def _merge_pairs(self, node: Node) -> list[tuple[Node, Node]]:
        """Return the pairs that ``<<`` brings in, the most important last."""
        nodes = node.value if isinstance(node, SequenceNode) else [node]
        pairs: list[tuple[Node, Node]] = []
        for source in reversed(nodes):
            if not isinstance(source, MappingNode):
                self._refuse(source, "only mappings can be merged with <<")
            self._build(source)
            pairs.extend(source.value)
        return pairs

    def _check_tag(self, node: Node, allowed: tuple[str, ...]) -> None:
        if not node.tag.startswith(_TAG) or node.tag.removeprefix(_TAG) not in allowed:
            tag = node.tag.replace(_TAG, "!!")
            self._refuse(node, f"the tag {tag} is not allowed here")

    def _report(self, node: Node, message: str, context: str = "") -> None:
        span = (int(node.start_mark.index), content_end(self._file.text, node))
        self._problems.append(diagnostic(self._file, span, YAML_SYNTAX, message, context=context))

    def _refuse(self, node: Node, message: str) -> NoReturn:
        self._report(node, message)
        raise _RefusedError
