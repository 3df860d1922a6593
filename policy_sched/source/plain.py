"""Large YAML, such as a snapshot of a cluster, read into plain data without the places of it all.

Theory of operation. `parse_documents` keeps a node with two marks for every value, which takes 50
times the size of the file. Here the events of the parser become plain data at once, one object of
a list after the other, and each object is kept as JSON, from which msgspec decodes it. Only where
an object begins and ends in the file is remembered. Whatever is not plain (tags, duplicate keys,
merge keys, numbers that JSON does not have) leaves an object without JSON: it is read a second
time by `parse_documents`, alone, which says what it means or what is wrong with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)
from yaml.nodes import ScalarNode

from policy_sched.errors import Diagnostic
from policy_sched.source.documents import (
    MAX_DEPTH,
    Parsed,
    key_text,
    parse_text,
    scalar_value,
    syntax_error,
    too_deep,
    unprintable,
)
from policy_sched.source.file import SourceFile

_Loader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
LIBYAML: Final = bool(yaml.__with_libyaml__)
"""Is PyYAML built with libyaml? Without it, reading takes 10 times as long."""

_KEPT: Final = 64
"""Characters of the longest plain scalar whose meaning is remembered."""
_MERGE: Final = "tag:yaml.org,2002:merge"
_ITEMS: Final = "items"
_LARGEST_INT: Final = 1 << 63


@dataclass(slots=True)
class Record:
    """An object, or another value, and where it stands: ``column`` counts from 0.

    ``json`` is None where the value is not plain.
    """

    start: int
    column: int
    end: int
    json: bytes | None = None

    def look(self, file: SourceFile) -> Parsed:
        """Return the value with its places, and what is wrong with it."""
        section = file.section(self.start - self.column, self.end)
        return parse_text(section, " " * self.column + section.text[self.column :])


@dataclass(slots=True)
class PlainDocument:
    """One document that is not empty.

    The values below the key ``items`` are records of their own. ``head`` is the rest of the
    mapping, or None where the document is not plain; then ``whole`` has to be looked at.
    """

    whole: Record
    head: Any = None
    items: list[Record] | None = None

    def json(self) -> bytes | None:
        """Return the whole document as JSON, None if a part of it is not plain."""
        if self.items is None or self.whole.json is None:
            return self.whole.json
        items = [msgspec.Raw(item.json) for item in self.items if item.json is not None]
        if len(items) < len(self.items):
            return None
        return msgspec.json.encode({**self.head, _ITEMS: items})


def plain_documents(file: SourceFile) -> tuple[list[PlainDocument], list[Diagnostic]]:
    """Return the documents of a file that are not empty, and what ends the file early.

    The diagnostics are those of `parse_documents`; those of a single document are left to a
    second look at it.
    """
    refused = unprintable(file)
    if refused is not None:
        return [], [refused]
    reader = _Reader(file)
    documents: list[PlainDocument] = []
    try:
        documents.extend(reader.documents())
    except yaml.MarkedYAMLError as error:
        return documents, [syntax_error(file, error)]
    except _TooDeepError as error:
        return [], [too_deep(file, error.offset)]
    finally:
        reader.close()
    return documents, []


class _TooDeepError(Exception):
    """Values are nested too deep at ``offset``."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


class _NotPlain:
    """Stands for the meaning of a scalar that needs a second look."""


_NOT_PLAIN: Final = _NotPlain()
_resolver: Final[Any] = yaml.resolver.Resolver()


def _meaning(text: str) -> Any:
    """Return what a plain scalar means."""
    node = ScalarNode(_resolver.resolve(ScalarNode, text, (True, False)), text)
    try:
        value = scalar_value(node)
    except ValueError:
        return _NOT_PLAIN
    if isinstance(value, float) and not math.isfinite(value):
        return _NOT_PLAIN
    if isinstance(value, int) and not -_LARGEST_INT <= value < _LARGEST_INT:
        return _NOT_PLAIN
    return value


def _key(text: str) -> Any:
    """Return what a plain key means: text as in JSON."""
    tag = _resolver.resolve(ScalarNode, text, (True, False))
    if tag == _MERGE or _meaning(text) is _NOT_PLAIN:
        return _NOT_PLAIN
    return key_text(ScalarNode(tag, text))


class _Remembered(dict[str, Any]):
    """Meanings of plain scalars: those of a snapshot are the same few, a million times."""

    def __init__(self, meaning: Any) -> None:
        super().__init__()
        self._meaning = meaning

    def __missing__(self, text: str) -> Any:
        value = self._meaning(text)
        if len(text) <= _KEPT:
            if len(self) > 1 << 16:
                self.clear()
            self[text] = value
        return value


class _Reader:
    """Makes plain data of events; ``_plain`` tells of the current record whether it is plain."""

    def __init__(self, file: SourceFile) -> None:
        self._file = file
        self._parser = _Loader(file.text)
        self._event: Callable[[], Any] = self._parser.get_event
        self._values = _Remembered(_meaning)
        self._keys = _Remembered(_key)
        self._plain = True
        self._anchors = False
        self._names: set[str] = set()
        self._end = 0

    def close(self) -> None:
        """Free what the parser holds."""
        self._parser.dispose()

    def documents(self) -> Iterator[PlainDocument]:
        """Yield the documents that are not empty."""
        event = self._event()
        while not isinstance(event, StreamEndEvent):
            if isinstance(event, DocumentStartEvent):
                found = self._document(event)
                if found is not None:
                    yield found
            event = self._event()

    def _document(self, opened: Any) -> PlainDocument | None:
        self._names.clear()
        self._anchors = bool(opened.tags)  # a shorthand for tags is out of an object's sight, too
        items: list[list[Record]] = []
        event = first = self._event()
        self._plain = True
        if isinstance(event, MappingStartEvent) and not event.anchor and not event.tag:
            value: Any = self._mapping(1, items)
        else:
            value = self._value(event, 1)
        plain = self._plain
        event = self._event()
        # Directives, where there are any, say what the tags of the document mean.
        mark = opened.start_mark if opened.tags or opened.version else first.start_mark
        whole = Record(mark.index, mark.column, event.end_mark.index)
        if value is None and plain:
            return None
        if plain and not self._anchors:
            whole.json = _encoded(value)
        if whole.json is None:
            return PlainDocument(whole)
        return PlainDocument(whole, value, items[0] if items else None)

    def _value(self, event: Any, depth: int) -> Any:
        """Return the value that an event begins."""
        kind = type(event)
        if event.anchor is not None:
            self._anchor(event)
        if kind is AliasEvent:
            return None
        if event.tag is not None:
            self._plain = False
        if kind is ScalarEvent:
            if not event.implicit[0]:
                return event.value
            value = self._values[event.value]
            if value is _NOT_PLAIN:
                self._plain = False
            return value
        if depth > MAX_DEPTH:
            raise _TooDeepError(event.start_mark.index)
        return self._mapping(depth) if kind is MappingStartEvent else self._sequence(depth)

    def _anchor(self, event: Any) -> None:
        """Note an anchor, or that there is an alias. Raises ComposerError if it has no anchor."""
        if type(event) is AliasEvent and event.anchor not in self._names:
            mark: Any = event.start_mark
            raise yaml.composer.ComposerError(None, None, "found undefined alias", mark)
        self._names.add(event.anchor)
        self._anchors = True

    def _sequence(self, depth: int) -> list[Any]:
        result = []
        while type(event := self._event()) is not SequenceEndEvent:
            result.append(self._value(event, depth + 1))
        self._end = _offset(event.end_mark)
        return result

    def _mapping(self, depth: int, items: list[list[Record]] | None = None) -> dict[str, Any]:
        """Return a mapping; a list below the key "items" goes to ``items``, if that is given."""
        result: dict[str, Any] = {}
        while type(event := self._event()) is not MappingEndEvent:
            key: Any = _NOT_PLAIN
            if type(event) is ScalarEvent and event.tag is None and event.anchor is None:
                key = self._keys[event.value] if event.implicit[0] else event.value
            else:
                self._value(event, depth + 1)
            if key is _NOT_PLAIN or key in result:
                self._plain = False
            event = self._event()
            if (
                items is not None
                and key == _ITEMS
                and type(event) is SequenceStartEvent
                and event.anchor is None
                and event.tag is None
            ):
                items.append(self._records())
                result[key] = None
            else:
                result[key] = self._value(event, depth + 1)
        self._end = _offset(event.end_mark)
        return result

    def _records(self) -> list[Record]:
        """Read the items of a list, each on its own."""
        outside, records = self._plain, []
        while type(event := self._event()) is not SequenceEndEvent:
            self._plain = True
            mark, self._end = event.start_mark, event.end_mark.index
            value = self._value(event, 3)
            json = _encoded(value) if self._plain else None
            records.append(Record(mark.index, mark.column, self._end, json))
        self._plain = outside
        return records


def _offset(mark: Any) -> int:
    return int(mark.index)


def _encoded(value: Any) -> bytes | None:
    """Return plain data as JSON, None if JSON cannot hold it."""
    try:
        return msgspec.json.encode(value)
    except (ValueError, OverflowError, RecursionError):
        return None
