"""The log of ``run``: lines of JSON, or lines as klog writes them, and how many of them."""

from __future__ import annotations

import json
import logging
import re

import pytest

from policy_sched.cli import run
from policy_sched.instance.observability.log import DecisionLog, Record

RECORD = {
    "ts": 1767225600.25,
    "level": "info",
    "msg": "Successfully bound pod to node",
    "pod": "default/p",
    "evaluatedNodes": 2,
    "scores": {"ImageLocality": 0},
    "fits": True,
}


def test_json_is_one_line() -> None:
    """With every fact."""
    line = run.as_json(RECORD)
    assert line.endswith(b"\n")
    assert json.loads(line) == RECORD


def test_text_is_as_klog_writes_it() -> None:
    """Level, day and time, process, message in quotes, facts as key=value."""
    line = run.as_text({**RECORD, "level": "error"}).decode()
    assert re.fullmatch(
        r'E0101 00:00:00\.250000 +[0-9]+ policy_sched\] "Successfully bound pod to node"'
        r' pod="default/p" evaluatedNodes=2 scores=\{"ImageLocality":0\} fits=true\n',
        line,
    )


def test_lines_are_there_at_once_outside_of_an_event_loop(
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    """In the form of the option."""
    run.writer("json")(RECORD)
    run.writer("text")(RECORD)
    first, second = capsysbinary.readouterr().out.splitlines()
    assert first + b"\n" == run.as_json(RECORD)
    assert second + b"\n" == run.as_text(RECORD)


def test_what_libraries_warn_of_is_a_line_of_ours() -> None:
    """With its source and its error; records below warning are dropped."""
    records: list[Record] = []
    log = DecisionLog(records.append, lambda: 0)
    logger = logging.getLogger("aiohttp.server")
    with run.gathered(log):
        logger.warning("odd %s", "thing")
        logger.error("broken", exc_info=ValueError("why"))
        logger.info("nothing")
    logger.warning("too late")
    assert [{k: v for k, v in record.items() if k != "ts"} for record in records] == [
        {"level": "warning", "msg": "odd thing", "source": "aiohttp.server"},
        {
            "level": "error",
            "msg": "broken",
            "source": "aiohttp.server",
            "error": "ValueError('why')",
        },
    ]
