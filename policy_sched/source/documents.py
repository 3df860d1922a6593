"""YAML documents as plain data with the position of every part.

Theory of operation: PyYAML composes nodes whose marks are character offsets. Plain data is made
from the nodes with YAML's safe tags, and the nodes stay, so that a path such as
``("spec", "filter", 0, "expression")`` finds the node of its value or of its key.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, NoReturn

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from policy_sched.errors import Diagnostic
from policy_sched.source.file import SourceFile, Span, diagnostic
from policy_sched.source.scalars import content_end, content_start, scalar_offsets

YAML_SYNTAX: Final = "PS701"
MAX_POLICY_BYTES: Final = 1 << 20
"""The size up to which policy files are read: 1 MiB."""

MAX_VALUES: Final = 50_000
"""Values of one policy file, keys and aliases included; a command takes some 50 µs for each."""

MAX_EXPANSION: Final = 10
"""How many times larger than its file a document may become through aliases."""

MAX_DEPTH: Final = 100
"""How deep values may be nested, aliases included; composing takes stack for each level."""

MAX_NUMBER: Final = 100
"""Characters that a number may have; int() takes quadratic time, and str() fails beyond 4,300."""

SHOWN: Final = 60
"""Characters that a message shows of a key or a tag."""

Path = tuple[str | int, ...]
"""The path of a value: keys of mappings, indexes of sequences."""


class Marked:
    """One YAML document: its plain data in ``value``, and the position of every part.

    Keys are text as in JSON. Values that were written once and are used through aliases are one
    object: copy before changing.
    """

    def __init__(self, file: SourceFile, root: Node, value: Any) -> None:
        self.file = file
        self.value = value
        self._root = root
        self._keys: dict[int, dict[str, tuple[Node, Node]]] = {}

    def node(self, path: Path) -> Node | None:
        """Return the YAML node of the value at ``path``, or None if there is none."""
        node = self._root
        for step in path:
            entry = self._child(node, step)
            if entry is None:
                return None
            node = entry[1]
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
        entry = self._child(parent, path[-1]) if parent is not None and path else None
        if entry is None or entry[0] is None:
            return self.span(path)
        return self._span(entry[0])

    def path_at(self, line: int, column: int) -> Path:
        """Return the path of the innermost value that begins, or whose key begins, at a place.

        Between two values it is the one before.
        """
        path: Path = ()
        inner: Node | None = self._root
        while inner is not None:
            node, inner = inner, None
            chosen: str | int = 0
            for step, start, value in _parts(node):
                if self.file.position(start.start_mark.index) > (line, column):
                    break
                chosen, inner = step, value
            if inner is not None:
                path = (*path, chosen)
        return path

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
        offsets = scalar_offsets(self.file.text, self._scalar(path))
        last = len(offsets) - 1
        return lambda offset: offsets[min(max(offset, 0), last)]

    def _scalar(self, path: Path) -> ScalarNode:
        node = self.node(path)
        if not isinstance(node, ScalarNode):
            raise KeyError(path)
        return node

    def _child(self, node: Node, step: str | int) -> tuple[Node | None, Node] | None:
        """Return key and value node of one step; None if there is no such key or index."""
        if isinstance(node, MappingNode):
            keys = self._keys.get(id(node))
            if keys is None:
                pairs = (pair for pair in node.value if isinstance(pair[0], ScalarNode))
                keys = self._keys[id(node)] = {key_text(pair[0]): pair for pair in pairs}
            return keys.get(step) if isinstance(step, str) else None
        if isinstance(node, SequenceNode) and isinstance(step, int) and -1 < step < len(node.value):
            return None, node.value[step]
        return None

    def _span(self, node: Node) -> Span:
        start = content_start(self.file.text, node)
        return start, max(start, content_end(self.file.text, node))


def _parts(node: Node) -> Iterator[tuple[str | int, Node, Node]]:
    """Yield the parts of a collection: the step to each, where it begins, and its value."""
    if isinstance(node, MappingNode):
        for key, value in node.value:
            if isinstance(key, ScalarNode):
                yield key_text(key), key, value
    elif isinstance(node, SequenceNode):
        for number, item in enumerate(node.value):
            yield number, item, item


class Parsed(NamedTuple):
    """Documents that are not empty, problems, and whether the text was read to its end."""

    documents: list[Marked]
    problems: list[Diagnostic]
    ended: bool = False
    """Reading ended before the end of the text: what follows a syntax error cannot be read."""


def parse_documents(
    file: SourceFile, max_bytes: int | None = MAX_POLICY_BYTES
) -> tuple[list[Marked], list[Diagnostic]]:
    """Return the documents of a file that are not empty, and its problems.

    Syntax errors, duplicate keys, tags that are not safe, files beyond ``max_bytes`` or of more
    than `MAX_VALUES`, and documents that aliases blow up are PS701 diagnostics. A document with a
    duplicate key is returned (the last value counts), one that is wrong in another way is not.
    """
    if max_bytes is not None and len(file.text.encode(errors="replace")) > max_bytes:
        message = f"the file is larger than {max_bytes} bytes"
        return [], [diagnostic(file, 0, YAML_SYNTAX, message)]
    refused = unprintable(file)
    if refused is not None:
        return [], [refused]
    parsed = parse_text(file, file.text, MAX_VALUES)
    return parsed.documents, parsed.problems


def unprintable(file: SourceFile) -> Diagnostic | None:
    """Return the diagnostic of the first character that YAML does not allow; None without one."""
    bad = yaml.reader.Reader.NON_PRINTABLE.search(file.text)
    if bad is None:
        return None
    message = f"the character U+{ord(bad[0]):04X} is not allowed in YAML"
    hint = "the file looks like UTF-16: save it as UTF-8" if _like_utf16(file.text) else ""
    return diagnostic(file, bad.start(), YAML_SYNTAX, message, hint=hint)


def _like_utf16(text: str) -> bool:
    head = text[:64]
    return 3 * head.count("\0") > len(head) and head.strip("\0") != ""


def parse_text(file: SourceFile, text: str, max_values: float = math.inf) -> Parsed:
    """Return the documents of ``text``, which has every character where the file has it.

    A text of more than ``max_values`` values, or nested too deep, has none.
    """
    refused = _beyond_limits(file, text, max_values)
    if refused is not None:
        return Parsed([], [refused], ended=True)
    documents: list[Marked] = []
    problems: list[Diagnostic] = []
    builder = _Builder(file, problems)
    ended = True
    for root in _roots(file, text, problems):
        if root is None:
            ended = False
            break
        try:
            value = builder.document(root)
        except _RefusedError:
            continue
        if value is not None:
            documents.append(Marked(file, root, value))
    return Parsed(documents, problems, ended)


class Part(NamedTuple):
    """The position of a value in a file; ``column`` is that of its start, from 0."""

    start: int
    column: int
    end: int

    def text(self, file: SourceFile) -> str:
        """Return the value's text behind as many blanks as there are columns before it."""
        return " " * self.column + file.text[self.start : self.end]


def parse_part(file: SourceFile, part: Part, anchors: Mapping[str, Part]) -> Parsed:
    """Return one value of a file, which may have aliases of anchors outside of it.

    The text as a whole has to be well formed. Positions are those of the file.
    """
    composed = _Composed(file, anchors)
    problems: list[Diagnostic] = []
    try:
        root = composed.node(part)
    except yaml.MarkedYAMLError as error:
        section = file.section(part.start - part.column, part.end)
        return Parsed([], [syntax_error(section, error)], ended=True)
    try:
        value = _Builder(file, problems).document(root)
    except _RefusedError:
        return Parsed([], problems)
    return Parsed([Marked(file, root, value)], problems)


class _Composed:
    """Composes nodes of parts of a file, with marks that count in the file."""

    def __init__(self, file: SourceFile, anchors: Mapping[str, Part]) -> None:
        self._file = file
        self._anchors = anchors
        self._named: dict[str, Node] = {}

    def node(self, part: Part) -> Node:
        """Return the node of a value, aliases resolved. Raises MarkedYAMLError."""
        text = part.text(self._file)
        aliases = _aliases_of_others(text)
        for start, (end, _) in aliases.items():
            # A scalar takes the alias's place, until its node is composed.
            text = f"{text[:start]}'{'_' * (end - start - 2)}'{text[end:]}"
        loader = Loader(text)
        try:
            root: Node = loader.get_single_node()
        finally:
            loader.dispose()
        outside = {start: name for start, (_, name) in aliases.items()}
        return self._placed(root, part.start - part.column, outside, {})

    def _placed(
        self, node: Node, base: int, outside: Mapping[int, str], done: dict[int, Node]
    ) -> Node:
        """Return a node, or the one in its place, with marks that count in the file."""
        if id(node) in done:
            return done[id(node)]
        name = outside.get(node.start_mark.index)
        if name is not None and isinstance(node, ScalarNode):
            done[id(node)] = placed = self._anchored(name)
            return placed
        done[id(node)] = node
        if isinstance(node, MappingNode):
            node.value = [
                (self._placed(key, base, outside, done), self._placed(value, base, outside, done))
                for key, value in node.value
            ]
        elif isinstance(node, SequenceNode):
            node.value = [self._placed(item, base, outside, done) for item in node.value]
        node.start_mark = _moved(node.start_mark, base)
        node.end_mark = _moved(node.end_mark, base)
        return node

    def _anchored(self, name: str) -> Node:
        if name not in self._named:
            self._named[name] = self.node(self._anchors[name])
        return self._named[name]


def _moved(mark: Any, base: int) -> yaml.Mark:
    return yaml.Mark("", mark.index + base, mark.line, mark.column, None, 0)


def _aliases_of_others(text: str) -> dict[int, tuple[int, str]]:
    """Return start, end and name of the aliases in a text whose anchors are not in it."""
    loader, names = Loader(text), set()
    aliases: dict[int, tuple[int, str]] = {}
    try:
        while loader.check_event():
            event: Any = loader.get_event()
            alias = isinstance(event, yaml.AliasEvent)
            name = getattr(event, "anchor", None)
            if name is None:
                continue
            if not alias:
                names.add(name)
            elif name not in names:
                start, end = event.start_mark, event.end_mark
                aliases[start.index] = end.index, name
    finally:
        loader.dispose()
    return aliases


def too_large(file: SourceFile, start: int, end: int) -> Diagnostic:
    """Return the diagnostic of a document that aliases make too large."""
    message = f"aliases make the document more than {MAX_EXPANSION} times larger"
    end = start + len(file.text[start:end].rstrip())
    return diagnostic(file, (start, end), YAML_SYNTAX, message)


def too_deep(file: SourceFile, offset: int, code: str = YAML_SYNTAX) -> Diagnostic:
    """Return the diagnostic of a value that is nested too deep."""
    message = f"values are nested more than {MAX_DEPTH} deep"
    return diagnostic(file, offset, code, message)


_JSON_TOKENS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[][{}]')
_BYTE: Final = re.compile(r" \(byte (\d+)\)$")


def json_problem(file: SourceFile, error: Exception, code: str = YAML_SYNTAX) -> Diagnostic:
    """Return the diagnostic of JSON that cannot be read: where it breaks off, or gets too deep."""
    if not isinstance(error, RecursionError):
        text, byte = _BYTE.sub("", str(error)), _BYTE.search(str(error))
        raw = file.text.encode(errors="replace")
        offset = len(raw[: int(byte[1])].decode(errors="ignore")) if byte else 0
        if text == "Input data was truncated":
            offset, text = len(file.text), "the text ends too early"
        return diagnostic(file, offset, code, f"not JSON: {text}")
    depth = offset = 0
    for token in _JSON_TOKENS.finditer(file.text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
        if depth > MAX_DEPTH:
            offset = token.start()
            break
    return too_deep(file, offset, code)


def syntax_error(file: SourceFile, error: yaml.MarkedYAMLError) -> Diagnostic:
    """Return the diagnostic of an error of the YAML parser, whose marks count in the file."""
    mark, where = error.problem_mark or error.context_mark, error.context_mark
    offset = min(mark.index if mark else 0, len(file.text))
    if error.problem == _TOO_DEEP:
        return too_deep(file, offset)
    context = ""
    if error.context and where is not None and where.index != offset:
        line, column = file.position(where.index)
        context = f"{error.context} that begins at {line}:{column}"
    problem = error.problem or error.context or "the text is not YAML"
    hint = "YAML is indented with spaces, not with tabs" if file.text[offset:][:1] == "\t" else ""
    return diagnostic(file, offset, YAML_SYNTAX, problem, hint=hint, context=context)


Loader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The fastest parser of YAML that is there: PyYAML may be built without libyaml."""


def yaml_values(text: str) -> list[Any]:
    """Return the values of the documents of a text that is known to be YAML."""
    return list(yaml.load_all(text, Loader))


_TOO_DEEP: Final = "exceeded maximum nesting depth"
"""What libyaml says of a text that is nested too deep for it."""


def _beyond_limits(
    file: SourceFile, text: str, max_values: float, loader_type: Any = Loader
) -> Diagnostic | None:
    """Return where a text goes too deep or holds too many values; None if it does neither.

    Errors of syntax are reported when the text is composed.
    """
    loader, depth, values = loader_type(text), 0, 0
    try:
        while loader.check_event():
            event = loader.get_event()
            if isinstance(event, yaml.NodeEvent):
                values += 1
                if values > max_values:
                    message = f"the file holds more than {max_values} values"
                    return diagnostic(file, _start(event), YAML_SYNTAX, message, hint="split it")
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > MAX_DEPTH:
                    return too_deep(file, _start(event))
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
    except yaml.MarkedYAMLError as error:
        # Newer versions of libyaml refuse 1,000 levels, before they tell of those that come first.
        deep = error.problem == _TOO_DEEP and loader_type is Loader
        if deep and error.problem_mark is not None:
            read = text[: error.problem_mark.index]
            return _beyond_limits(file, read, max_values, yaml.SafeLoader)
    except yaml.YAMLError:
        pass
    finally:
        loader.dispose()
    return None


def _start(event: yaml.Event) -> int:
    return event.start_mark.index if event.start_mark else 0


def _roots(file: SourceFile, text: str, problems: list[Diagnostic]) -> Iterator[Node | None]:
    """Yield the root nodes, None at the end; a syntax error becomes a diagnostic and ends it."""
    loader = Loader(text)
    try:
        while loader.check_node():
            yield loader.get_node()
        yield None
    except yaml.MarkedYAMLError as error:
        problems.append(syntax_error(file, error))
    finally:
        loader.dispose()


class _RefusedError(Exception):
    """The document is refused; a diagnostic has the reason."""


TAG: Final = "tag:yaml.org,2002:"
MERGE: Final = f"{TAG}merge"
SCALAR_TAGS: Final = ("str", "timestamp", "value", "null", "bool", "int", "float")
"""Tags that a scalar may have."""
_TEXT_TAGS: Final = frozenset({"str", "timestamp", "value"})
"""Tags whose scalars stay text; Kubernetes reads times as text too."""

_construct: Final = yaml.constructor.SafeConstructor()


def scalar_value(node: ScalarNode) -> str | int | float | bool | None:
    """Return what a scalar with a safe tag means. Raises ValueError if its text does not fit."""
    kind, text = node.tag.removeprefix(TAG), str(node.value)
    if kind in _TEXT_TAGS:
        return text
    if kind == "null":
        return None
    if kind in ("int", "float") and ":" in text:
        return text  # YAML 1.1 reads 12:30 as a number of base 60; Kubernetes does not
    if kind in ("int", "float") and len(text) > MAX_NUMBER:
        raise ValueError(f"a number of {len(text)} characters is too long, put it in quotes")
    try:
        if kind == "bool":
            return bool(_construct.construct_yaml_bool(node))
        if kind == "int":
            return int(_construct.construct_yaml_int(node))
        if kind == "float":
            return float(_construct.construct_yaml_float(node))
    except (ValueError, LookupError):
        pass  # LookupError: PyYAML looks for characters that the tag promises
    raise ValueError(f"the value is not a valid {kind}")


def key_text(node: ScalarNode) -> str:
    """Return a key as JSON has it: true and false for truth values, else the text."""
    if node.tag == f"{TAG}bool":
        return "true" if _construct.construct_yaml_bool(node) else "false"
    return str(node.value)


class _Built(NamedTuple):
    """A value, its size in characters with all aliases written out, and how deep it is."""

    value: Any
    size: int
    depth: int = 1


class _Builder:
    """Makes plain data of documents; each node is built once, however often it is aliased.

    Sizes are counted, and refused, before anything is written out: what aliases and merge keys
    repeat is shared.
    """

    def __init__(self, file: SourceFile, problems: list[Diagnostic]) -> None:
        self._file = file
        self._problems = problems
        self._built: dict[int, _Built] = {}
        self._open: set[int] = set()
        self._most = MAX_EXPANSION * max(file.size, 1024)
        self._merged = 0
        self._before = 0
        self._root: Node | None = None

    def document(self, root: Node) -> Any:
        """Return the plain data of a document. Raises _RefusedError."""
        self._root = root
        self._built.clear()
        self._open.clear()
        built = self._build(root)
        self._before += built.size
        return built.value

    def _build(self, node: Node) -> _Built:
        key = id(node)
        if key in self._built:
            return self._built[key]
        if key in self._open:
            self._refuse(node, "an alias refers to a value that contains it")
        self._open.add(key)
        if isinstance(node, MappingNode):
            built = self._mapping(node)
        elif isinstance(node, SequenceNode):
            built = self._sequence(node)
        else:
            assert isinstance(node, ScalarNode)
            built = self._scalar(node)
        self._open.discard(key)
        if built.depth > MAX_DEPTH + 1:
            self._refuse(node, f"aliases nest values more than {MAX_DEPTH} deep")
        self._built[key] = built
        return built

    def _counted(self, size: int) -> int:
        """Return a size or a number of merged keys; refuse the document if it is too large."""
        if self._before + size > self._most:
            assert self._root is not None
            start, end = self._root.start_mark.index, content_end(self._file.text, self._root)
            self._problems.append(too_large(self._file, start, end))
            raise _RefusedError
        return size

    def _scalar(self, node: ScalarNode) -> _Built:
        self._check_tag(node, SCALAR_TAGS)
        try:
            return _Built(scalar_value(node), 1 + len(node.value))
        except ValueError as error:
            self._refuse(node, str(error))

    def _sequence(self, node: SequenceNode) -> _Built:
        self._check_tag(node, ("seq",))
        result, total, depth = [], 1, 0
        for item in node.value:
            built = self._build(item)
            result.append(built.value)
            total = self._counted(total + built.size)
            depth = max(depth, built.depth)
        return _Built(result, total, depth + 1)

    def _mapping(self, node: MappingNode) -> _Built:
        self._check_tag(node, ("map",))
        own = [pair for pair in node.value if pair[0].tag != MERGE]
        self._check_keys(own)
        merged: dict[str, tuple[Node, Node]] = {}
        for key, value in node.value:
            if key.tag == MERGE:
                self._merge(value, merged)
        node.value = [*merged.values(), *own]  # so that paths lead to merged values too
        result, total, depth = {}, 1, 0
        for key, value in node.value:
            built = self._build(value)
            result[key_text(key)] = built.value
            total = self._counted(total + built.size + len(key.value))
            depth = max(depth, built.depth)
        return _Built(result, total, depth + 1)

    def _check_keys(self, pairs: list[tuple[Node, Node]]) -> None:
        seen: dict[str, Node] = {}
        for key, _ in pairs:
            if not isinstance(key, ScalarNode):
                self._refuse(key, "a key must be text")
            self._scalar(key)
            text = key_text(key)
            if text in seen:
                line, _ = self._file.position(seen[text].start_mark.index)
                message = f"duplicate key {shortened(text)}"
                self._report(key, message, f"the first one is in line {line}")
            seen[text] = key

    def _merge(self, node: Node, merged: dict[str, tuple[Node, Node]]) -> None:
        """Add the pairs that ``<<`` brings in; of several mappings the first counts."""
        nodes = node.value if isinstance(node, SequenceNode) else [node]
        for source in reversed(nodes):
            if not isinstance(source, MappingNode):
                self._refuse(source, "only mappings can be merged with <<")
            self._build(source)
            self._merged = self._counted(self._merged + len(source.value))
            merged.update((key_text(key), (key, value)) for key, value in source.value)

    def _check_tag(self, node: Node, allowed: tuple[str, ...]) -> None:
        if not node.tag.startswith(TAG) or node.tag.removeprefix(TAG) not in allowed:
            tag = node.tag.replace(TAG, "!!")
            self._refuse(node, f"the tag {shortened(tag, quote=False)} is not allowed here")

    def _report(self, node: Node, message: str, context: str = "") -> None:
        span = (int(node.start_mark.index), content_end(self._file.text, node))
        self._problems.append(diagnostic(self._file, span, YAML_SYNTAX, message, context=context))

    def _refuse(self, node: Node, message: str) -> NoReturn:
        self._report(node, message)
        raise _RefusedError


def shortened(text: str, *, quote: bool = True) -> str:
    """Return a text as a message shows it: in quotes, and at most 60 characters of it."""
    cut = text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."
    return repr(cut) if quote else cut
