"""Shows what the files of a shadow come to."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from policy_sched.diff.report import placement_document, placement_lines
from policy_sched.diff.shadow_summary import ShadowSummary
from policy_sched.instance.shadow import Result
from policy_sched.model import counted

#: Plugins that the text names at most, of each kind.
NAMED: Final = 10


def text_lines(found: ShadowSummary) -> Iterator[str]:
    """Yield the summary for people."""
    yield f"pods of {found.scheduler}, {_time(found.since)} to {_time(found.until)}"
    yield f"OLD is what {found.scheduler} did, NEW what profile {found.profile} would have done"
    yield ""
    yield from placement_lines(found.placements)
    causes = [
        *(f"{count:>3}  {name} rejects the node" for name, count in _top(found.rejections)),
        *(f"{count:>3}  {name} prefers another node" for name, count in _top(found.preferences)),
    ]
    if causes:
        yield ""
        yield "Why pods would be elsewhere:"
        yield from (f"  {line}" for line in causes)
    for result, what in (
        (Result.UNDECIDED, f"{found.scheduler} had not answered for"),
        (Result.ERROR, "could not be decided"),
    ):
        if found.results[result]:
            yield ""
            yield f"Left out: {counted(found.results[result], 'pod')} that {what}"


def as_json(found: ShadowSummary) -> str:
    """Return one JSON document; the same bytes for the same input."""
    document = {
        "shadow": {
            "scheduler": found.scheduler,
            "profile": found.profile,
            "since": _time(found.since),
            "until": _time(found.until),
            "results": {result.value: found.results[result] for result in Result},
            "rejections": dict(_ordered(found.rejections)),
            "preferences": dict(_ordered(found.preferences)),
        },
        "placements": placement_document(found.placements),
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _ordered(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _top(counts: Counter[str]) -> list[tuple[str, int]]:
    return _ordered(counts)[:NAMED]


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
