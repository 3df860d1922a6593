"""The log of ``run`` on standard output: lines of JSON, or of text as klog writes them."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from typing import Final

import msgspec

from policy_sched.serve.decision_log import Record, Write
from policy_sched.serve.line_writer import LineWriter

_encode = msgspec.json.Encoder().encode
_LETTERS: Final = {"info": "I", "warning": "W", "error": "E"}


def writer(logging_format: str) -> Write:
    """Return what writes records to standard output, at the end of the turn they are from."""
    form = as_json if logging_format == "json" else as_text
    lines = LineWriter(sys.stdout.buffer)
    return lambda record: lines(form(record))


def as_json(record: Record) -> bytes:
    """Return a record as a line of JSON."""
    return _encode(record) + b"\n"


def as_text(record: Record) -> bytes:
    """Return a record as a line of klog: level, time, process, source, message, facts."""
    facts = dict(record)
    seconds, level, message = facts.pop("ts"), facts.pop("level"), facts.pop("msg")
    at = datetime.fromtimestamp(seconds, UTC).strftime("%m%d %H:%M:%S.%f")
    head = f"{_LETTERS[level]}{at} {os.getpid():7d} policy_sched] {json.dumps(message)}"
    told = "".join(f" {key}={_value(value)}" for key, value in facts.items())
    return f"{head}{told}\n".encode()


def _value(value: object) -> str:
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return _encode(value).decode()
