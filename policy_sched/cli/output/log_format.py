"""The log of ``run`` on standard output: lines of JSON, or of text as klog writes them."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

import msgspec

from policy_sched.instance import observability

_encode = msgspec.json.Encoder().encode
_LETTERS: Final = {"info": "I", "warning": "W", "error": "E"}


def writer(logging_format: str) -> observability.Write:
    """Return what writes records to standard output, at the end of the turn they are from."""
    form = as_json if logging_format == "json" else as_text
    lines = observability.LineWriter(sys.stdout.buffer)
    reported = 0

    def write(record: observability.Record) -> None:
        nonlocal reported
        if lines.lost > reported and lines.writable:
            text = "Lines of the log are lost: there was no room for them"
            facts = {"ts": record["ts"], "level": observability.WARNING, "msg": text}
            lines(form({**facts, "lines": lines.lost - reported}))
            reported = lines.lost
        lines(form(record))

    return write


@contextmanager
def gathered(log: observability.DecisionLog) -> Iterator[None]:
    """Write into our log what libraries and Python itself warn of, while the context lasts."""
    handler = _Gathering(log)
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)


class _Gathering(logging.Handler):
    """Makes records of our form from those of `logging`."""

    def __init__(self, log: observability.DecisionLog) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write one."""
        level = observability.ERROR if record.levelno >= logging.ERROR else observability.WARNING
        facts: dict[str, object] = {"source": record.name}
        if record.exc_info is not None and record.exc_info[1] is not None:
            facts["error"] = repr(record.exc_info[1])
        self._log.write(level, record.getMessage(), **facts)


def as_json(record: observability.Record) -> bytes:
    """Return a record as a line of JSON."""
    return _encode(record) + b"\n"


def as_text(record: observability.Record) -> bytes:
    """Return a record as a line of klog: level, time, process, source, message, facts."""
    facts = dict(record)
    seconds, level, message = facts.pop("ts"), facts.pop("level"), facts.pop("msg")
    at = datetime.fromtimestamp(seconds, UTC).strftime("%m%d %H:%M:%S.%f")
    head = f"{_LETTERS[level]}{at} {os.getpid():7d} policy_sched] {json.dumps(message)}"
    shown = "".join(f" {key}={_value(value)}" for key, value in facts.items())
    return f"{head}{shown}\n".encode()


def _value(value: object) -> str:
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return _encode(value).decode()
