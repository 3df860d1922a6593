"""The result of a benchmark: plain data whose keys are the fields, and lines for people."""

from __future__ import annotations

import os
import platform
import resource
import sys
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from policy_sched.report import Document


class Latency(msgspec.Struct, frozen=True):
    """How long single decisions took, in microseconds; all 0 where there was none."""

    p50_us: float
    p99_us: float
    max_us: float

    @staticmethod
    def of(nanoseconds: Sequence[int]) -> Latency:
        """Return the percentiles of some durations."""
        percentiles = (
            np.percentile(nanoseconds, (50, 99, 100)) / 1e3 if nanoseconds else np.zeros(3)
        )
        return Latency(*(round(float(percentile), 1) for percentile in percentiles))

    @property
    def milliseconds(self) -> tuple[float, float, float]:
        """The three percentiles in milliseconds, to a tenth."""
        p50, p99, longest = (round(us / 1e3, 1) for us in (self.p50_us, self.p99_us, self.max_us))
        return p50, p99, longest

    def text(self) -> str:
        """Return the percentiles for people."""
        p50, p99, worst = self.p50_us, self.p99_us, self.max_us
        return f"p50 {p50:,.1f} us   p99 {p99:,.1f} us   max {worst:,.1f} us"


class Result(msgspec.Struct, frozen=True):
    """The result of one benchmark; its fields are the keys of its plain data, in their order."""

    workload: str

    def text_lines(self) -> Iterable[str]:
        """Return the lines for people."""
        raise NotImplementedError

    def document(self) -> Document:
        """Return the fields as plain data, and what was measured with."""
        return {**msgspec.to_builtins(self), **machine()}


def machine() -> Document:
    """Return what was measured with, as plain data."""
    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "cpus": len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count(),
        "peak_rss_mib": round(_peak_rss() / 2**20),
    }


def _peak_rss() -> int:
    """Return the largest resident size of this process so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # Linux counts in KiB
