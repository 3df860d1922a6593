"""Large YAML, such as a snapshot of a cluster, read into plain data without the places of it all.

Theory of operation. `parse_documents` keeps a node with two marks for every value, which takes 50
times the size of the file. Here the events of the parser become plain data at once, one object of a
list after the other, and each object is kept as JSON, from which msgspec decodes it. Only where an
object begins and ends in the file is remembered. An alias is the value that its anchor names, and
merge keys copy the keys of such values; how many characters aliases stand for is counted, and
bounded, before anything is written out. An object that JSON cannot hold or that is invalid YAML
(unknown tags, duplicate keys, NaN) has no JSON. It is parsed a second time, alone and with
positions, which gives its value or its problems.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec
import yaml
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
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
    MAX_EXPANSION,
    MERGE,
    SCALAR_TAGS,
    TAG,
    YAML_SYNTAX,
    Loader,
    Parsed,
    Part,
    key_text,
    parse_part,
    scalar_value,
    syntax_error,
    too_deep,
    too_large,
    unprintable,
)
from policy_sched.source.file import SourceFile, diagnostic

LIBYAML: Final = bool(yaml.__with_libyaml__)
"""Is PyYAML built with libyaml? Without it, reading takes 10 times as long."""

_KEPT: Final = 64
"""Characters of the longest plain scalar whose meaning is remembered."""
_ITEMS: Final = "items"
_COLLECTION_TAGS: Final = {MappingStartEvent: f"{TAG}map", SequenceStartEvent: f"{TAG}seq"}
MAX_LOOK: Final = 1 << 20
"""Characters of an object that is read with its places, which takes 50 times as much memory."""
_LARGEST_INT: Final = 1 << 63


class PlainRecord(msgspec.Struct):
    """An object, or another value, and its position: ``column`` counts from 0.

    ``json`` is None if the value is not plain. ``anchors`` has the positions of the document's
    anchored values, ``mistake`` the offset of the first part that is not plain.
    """

    start: int
    column: int
    end: int
    json: bytes | None = None
    anchors: Mapping[str, Part] | None = None
    mistake: int = 0

    def look(self, file: SourceFile) -> Parsed:
        """Return the value with its places, and its problems."""
        if self.end - self.start > MAX_LOOK:
            message = "a key, tag, alias or number is not valid here"
            hint = f"in {MAX_LOOK >> 10} KiB or less of YAML the message would say what is wrong"
            at = max(self.mistake, self.start)
            return Parsed([], [diagnostic(file, at, YAML_SYNTAX, message, hint=hint)])
        return parse_part(file, Part(self.start, self.column, self.end), self.anchors or {})


class PlainDocument(msgspec.Struct):
    """One document that is not empty.

    The values below the key ``items`` are records of their own. ``head`` is the rest of the
    mapping, or None where the document is not plain; then ``whole`` has to be looked at, unless
    ``refused`` is the reason why nothing of the document is read.
    """

    whole: PlainRecord
    head: Any = None
    items: list[PlainRecord] | None = None
    refused: Diagnostic | None = None

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


class _TooLargeError(Exception):
    """Aliases make a document too large."""


class _NotPlain:
    """Marks a scalar that has to be read again with positions."""


_NOT_PLAIN: Final = _NotPlain()
_MERGE_KEY: Final = _NotPlain()
"""Marks the key ``<<``."""
_resolver: Final[Any] = yaml.resolver.Resolver()


def _meaning(text: str, tag: str = "") -> Any:
    """Return what a plain scalar means, or one with a tag."""
    tag = tag or _resolver.resolve(ScalarNode, text, (True, False))
    try:
        value = scalar_value(ScalarNode(tag, text))
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
    if tag == MERGE:
        return _MERGE_KEY
    if _meaning(text) is _NOT_PLAIN:
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


class _Anchor(msgspec.Struct):
    """A value with a name. It is ``open`` until it has been read.

    ``size`` is in characters with all aliases in it written out; ``height`` is how many levels
    of collections it has below its own, -1 for a scalar.
    """

    start: Any
    value: Any = None
    size: int = 0
    height: int = -1
    plain: bool = False


class _Reader:
    """Makes plain data of events; ``_plain``: whether the current record is plain."""

    def __init__(self, file: SourceFile) -> None:
        self._file = file
        self._parser = Loader(file.text)
        self._event: Callable[[], Any] = self._parser.get_event
        self._values = _Remembered(_meaning)
        self._keys = _Remembered(_key)
        self._plain = True
        self._mistake = 0
        self._end = 0
        self._anchors: dict[str, _Anchor] = {}
        self._parts: dict[str, Part] = {}
        self._deepest = 0
        self._written_out = 0
        self._merging = False
        self._most = MAX_EXPANSION * max(file.size, 1024)

    def close(self) -> None:
        """Free what the parser holds."""
        self._parser.dispose()

    def documents(self) -> Iterator[PlainDocument]:
        """Yield the documents that are not empty."""
        event = self._event()
        while not isinstance(event, StreamEndEvent):
            if isinstance(event, DocumentStartEvent):
                document = self._document(event)
                if document is not None:
                    yield document
            event = self._event()

    def _document(self, opened: Any) -> PlainDocument | None:
        self._anchors, self._parts = {}, {}
        items: list[list[PlainRecord]] = []
        event = first = self._event()
        self._plain = True
        try:
            if isinstance(event, MappingStartEvent) and not event.anchor and not event.tag:
                value: Any = self._mapping(1, items)
            else:
                value = self._value(event, 1)
        except _TooLargeError:
            return self._refused(first)
        plain = self._plain
        event = self._event()
        # Directives, where there are any, define the tags of the document.
        mark = opened.start_mark if opened.tags or opened.version else first.start_mark
        whole = PlainRecord(mark.index, mark.column, event.end_mark.index)
        if value is None and plain:
            return None
        if plain:
            whole.json = _encoded(value)
        whole.mistake = self._mistake
        # Shorthands for tags are out of sight where an object is looked at alone.
        if whole.json is None or opened.tags:
            return PlainDocument(whole)
        return PlainDocument(whole, value, items[0] if items else None)

    def _refused(self, first: Any) -> PlainDocument:
        """Return the rest of a document that aliases make too large."""
        end = first.end_mark.index
        while type(event := self._event()) is not DocumentEndEvent:
            end = event.end_mark.index
        whole = PlainRecord(first.start_mark.index, first.start_mark.column, end)
        if self._merging and end - whole.start <= MAX_LOOK:
            return PlainDocument(whole)  # merged keys replace each other: a second look finds them
        return PlainDocument(whole, refused=too_large(self._file, whole.start, end))

    def _value(self, event: Any, depth: int) -> Any:
        """Return the value that an event begins."""
        kind = type(event)
        if event.anchor is not None:
            return self._alias(event, depth) if kind is AliasEvent else self._named(event, depth)
        if kind is ScalarEvent:
            if event.tag is not None:
                value = _tagged(event)
            elif not event.implicit[0]:
                return event.value
            else:
                value = self._values[event.value]
            if value is _NOT_PLAIN:
                self._not_plain(event)
            return value
        if event.tag is not None and event.tag != _COLLECTION_TAGS[kind]:
            self._not_plain(event)
        if depth > MAX_DEPTH:
            raise _TooDeepError(event.start_mark.index)
        self._deepest = max(self._deepest, depth)
        return self._mapping(depth) if kind is MappingStartEvent else self._sequence(depth)

    def _named(self, event: Any, depth: int) -> Any:
        """Return the value that an event with an anchor begins. Raises ComposerError."""
        kind, name, end = type(event), event.anchor, event.end_mark.index
        if name in self._anchors:
            words = "found duplicate anchor; first occurrence"
            first = self._anchors[name].start
            raise yaml.composer.ComposerError(words, first, "second occurrence", event.start_mark)
        anchor = self._anchors[name] = _Anchor(event.start_mark)
        event.anchor = None
        outside = self._plain, self._deepest, self._written_out
        self._plain, self._deepest = True, depth - 1
        anchor.value = self._value(event, depth)
        if kind is not ScalarEvent:
            end = self._end
        start = anchor.start.index
        anchor.size = end - start + self._written_out - outside[2]
        anchor.height, anchor.plain = self._deepest - depth, self._plain
        self._plain = outside[0] and self._plain
        self._deepest = max(self._deepest, outside[1])
        self._parts[name] = Part(start, anchor.start.column, end)
        return anchor.value

    def _alias(self, event: Any, depth: int) -> Any:
        """Return the value of an alias. Raises ComposerError if it is undefined."""
        anchor = self._anchors.get(event.anchor)
        if anchor is None:
            mark: Any = event.start_mark
            raise yaml.composer.ComposerError(None, None, "found undefined alias", mark)
        if not anchor.plain or depth + anchor.height > MAX_DEPTH:
            self._not_plain(event)
            return None
        self._written_out += anchor.size
        if self._written_out > self._most:
            raise _TooLargeError
        self._deepest = max(self._deepest, depth + anchor.height)
        return anchor.value

    def _sequence(self, depth: int) -> list[Any]:
        result = []
        while type(event := self._event()) is not SequenceEndEvent:
            result.append(self._value(event, depth + 1))
        self._end = _offset(event.end_mark)
        return result

    def _mapping(self, depth: int, items: list[list[PlainRecord]] | None = None) -> dict[str, Any]:
        """Return a mapping; a list below the key "items" goes to ``items``, if that is given."""
        result: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        while type(event := self._event()) is not MappingEndEvent:
            key: Any = _NOT_PLAIN
            if type(event) is ScalarEvent and event.tag is None and event.anchor is None:
                key = self._keys[event.value] if event.implicit[0] else event.value
            else:
                self._value(event, depth + 1)
            if key is _NOT_PLAIN or key in result:
                self._not_plain(event)
            event = self._event()
            if key is _MERGE_KEY:
                self._merge(event, self._value(event, depth + 1), merged)
                continue
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
        return {**merged, **result} if merged else result

    def _not_plain(self, event: Any) -> None:
        """Note that a part of the present record is not plain."""
        if self._plain:
            self._mistake = event.start_mark.index
        self._plain = False

    def _merge(self, event: Any, value: Any, merged: dict[str, Any]) -> None:
        """Add the keys that ``<<`` brings in; of several mappings the first counts."""
        self._merging = True
        for source in reversed(value) if isinstance(value, list) else [value]:
            if isinstance(source, dict):
                merged.update(source)
            else:
                self._not_plain(event)

    def _records(self) -> list[PlainRecord]:
        """Read the items of a list, each on its own."""
        outside, records = self._plain, []
        while type(event := self._event()) is not SequenceEndEvent:
            self._plain = True
            mark, self._end = event.start_mark, event.end_mark.index
            value = self._value(event, 3)
            json = _encoded(value) if self._plain else None
            end, mistake = self._end, self._mistake
            records.append(PlainRecord(mark.index, mark.column, end, json, self._parts, mistake))
        self._plain = outside
        return records


def _tagged(event: Any) -> Any:
    """Return what a scalar with a tag means."""
    is_scalar = event.tag.startswith(TAG) and event.tag.removeprefix(TAG) in SCALAR_TAGS
    return _meaning(event.value, event.tag) if is_scalar else _NOT_PLAIN


def _offset(mark: Any) -> int:
    return int(mark.index)


def _encoded(value: Any) -> bytes | None:
    """Return plain data as JSON, None if JSON cannot hold it."""
    try:
        return msgspec.json.encode(value)
    except (ValueError, OverflowError, RecursionError):
        return None
