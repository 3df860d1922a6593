"""Positions in the file of the characters of a decoded YAML scalar.

Quoted and plain scalars are decoded once more from the raw text, noting where each character
comes from. In block scalars (``|`` and ``>``) every line's content is in the decoded text as it
stands, so the lines are laid against it one after the other.
"""

from __future__ import annotations

import re
from typing import Final

from yaml.nodes import Node, ScalarNode

_PROPERTIES: Final = re.compile(r"(?:[&!]\S*(?:\s+|#[^\n]*\n)*)*")
"""An anchor and a tag in front of a value, which belong to the node but not to the text."""

_BREAK: Final = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_FOLD: Final = re.compile("[ \t]*(?:\r\n|[\n\r\x85\u2028\u2029])[ \t\r\n\x85\u2028\u2029]*")
_ESCAPE_DIGITS: Final = {"x": 2, "u": 4, "U": 8}


def content_start(text: str, node: Node) -> int:
    """Return the offset of a node's value, behind its anchor and tag."""
    match = _PROPERTIES.match(text, node.start_mark.index, node.end_mark.index)
    return match.end() if match else int(node.start_mark.index)


def content_end(text: str, node: Node) -> int:
    """Return the offset behind a node's last character that is not blank."""
    start, end = int(node.start_mark.index), int(node.end_mark.index)
    while end > start and text[end - 1].isspace():
        end -= 1
    return end


def scalar_offsets(text: str, node: ScalarNode) -> list[int]:
    """Return the file offset of every character of a scalar, and of the end of its text."""
    start, end = content_start(text, node), int(node.end_mark.index)
    if node.style in ("|", ">"):
        return _block(text, start, end, node.value)
    if node.style in ("'", '"'):
        return _flow(text, start + 1, end - 1, node.style)
    return _flow(text, start, end, "")


def _flow(text: str, start: int, end: int, quote: str) -> list[int]:
    """Return the offsets of a plain or quoted scalar between two offsets."""
    offsets: list[int] = []
    at = start
    while at < end:
        fold = _FOLD.match(text, at, end)
        if fold is not None:
            offsets.extend(_folded(text, at, fold.end()))
            at = fold.end()
        elif quote == '"' and text[at] == "\\":
            at = _escape(text, at, end, offsets)
        else:
            offsets.append(at)
            at += 2 if quote == "'" and text[at] == "'" else 1
    offsets.append(end)
    return offsets


def _folded(text: str, start: int, end: int) -> list[int]:
    """Return the offsets of what a fold decodes to: one blank, or all line breaks but the first."""
    breaks = list(_BREAK.finditer(text, start, end))
    if breaks[0][0] in "\u2028\u2029" or len(breaks) == 1:
        return [match.start() for match in breaks]
    return [match.start() for match in breaks[1:]]


def _escape(text: str, at: int, end: int, offsets: list[int]) -> int:
    """Note the place of an escape of a double-quoted scalar; return the offset behind it."""
    joined = _BREAK.match(text, at + 1, end)
    if joined is None:
        offsets.append(at)
        return at + 2 + _ESCAPE_DIGITS.get(text[at + 1], 0)
    at = joined.end()
    while at < end and (text[at] in " \t" or _BREAK.match(text, at, end)):
        match = _BREAK.match(text, at, end)
        if match is not None:
            offsets.append(at)
        at = match.end() if match else at + 1
    return at


def _block(text: str, start: int, end: int, value: str) -> list[int]:
    """Return the offsets of a literal or folded scalar whose header begins at ``start``."""
    lines = _lines(text, start, end)
    indent = _indent(text, lines, value)
    offsets: list[int] = []
    breaks: list[int] = []
    for begin, finish in lines:
        if finish - begin > indent:
            _add_breaks(value, offsets, breaks)
            breaks = []
            offsets.extend(range(begin + indent, finish))
        breaks.append(finish)
    _add_breaks(value, offsets, breaks)
    offsets.append(offsets[-1] + 1 if offsets else start)
    return offsets


def _lines(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Return the spans of the lines behind a block scalar's header, without line breaks."""
    lines = []
    header = _BREAK.search(text, start, end)
    begin = header.end() if header else end
    while begin < end:
        match = _BREAK.search(text, begin, end)
        finish = match.start() if match else end
        lines.append((begin, finish))
        begin = match.end() if match else end
    return lines


def _indent(text: str, lines: list[tuple[int, int]], value: str) -> int:
    """Return how many blanks of each line are indentation.

    The first line with something in it has as many more blanks than the decoded text has there.
    """
    decoded = next((line for line in _BREAK.split(value) if line.strip(" ")), None)
    for begin, finish in lines:
        raw = text[begin:finish]
        if decoded is not None and raw.strip(" "):
            return (len(raw) - len(raw.lstrip(" "))) - (len(decoded) - len(decoded.lstrip(" ")))
    # Nothing but blanks: those that were kept follow the indentation.
    longest = max((finish - begin for begin, finish in lines), default=0)
    kept = max((len(line) for line in _BREAK.split(value)), default=0)
    return longest - kept


def _add_breaks(value: str, offsets: list[int], breaks: list[int]) -> None:
    """Note the offsets of the line breaks, or of the one blank, between two lines of content."""
    at = len(offsets)
    count = 0
    while at + count < len(value) and count < len(breaks) and _BREAK.match(value, at + count):
        count += 1
    if count == 0 and breaks and at < len(value):
        offsets.append(breaks[0])  # a line break that was folded into a blank
    else:
        offsets.extend(breaks[len(breaks) - count :] if at + count < len(value) else breaks[:count])
