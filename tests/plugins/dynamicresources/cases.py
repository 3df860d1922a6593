"""Recorded cases of kube-scheduler's DynamicResources: where the files are, and reading them."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from policy_sched.language.cel import device_record

DEVICE: Final = device_record(
    "dra.example.com",
    {
        "healthy": True,
        "numa": 5,
        "model": "fish",
        "ver": ("version", "1.2.3"),
        "other.com/x": 5,
    },
    {"memory": "10Gi", "cores": "1500m"},
    allow_multiple_allocations=False,
)
"""The device of the recorded cases of selectors."""

HERE: Final = Path(__file__).parents[2] / "conformance"
ROOT: Final = Path(os.environ.get("POLICY_SCHED_CONFORMANCE") or HERE)
"""Where the files are: the copy beside the tests, or others of the same form."""
_PLACES: Final = (ROOT / "dra-cases", ROOT, ROOT.parent / "dra-cases")

Case = dict[str, Any]


def read(name: str) -> list[Case]:
    """Return the cases of a file; none where it is not there."""
    for place in _PLACES:
        path = place / f"{name}.jsonl.gz"
        if path.is_file():
            lines = gzip.decompress(path.read_bytes()).splitlines()
            return [msgspec.json.decode(line) for line in lines if line.strip()]
    return []


def params(name: str, key: str) -> list[Any]:
    """Return a parameter for each case of a file, or one that is skipped with the reason."""
    found = read(name)
    if not found:
        reason = f"there is no {name}.jsonl.gz below POLICY_SCHED_CONFORMANCE ({ROOT})"
        return [pytest.param({}, marks=pytest.mark.skip(reason=reason), id="no-file")]
    return [pytest.param(case, id=str(case[key])[:80]) for case in found]
