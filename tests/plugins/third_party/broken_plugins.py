"""Plugins with mistakes: each is one that a third party may make."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec.structs import replace

from policy_sched.framework import FilterResult, PostFilterResult, Rows
from policy_sched.framework.handle import Handle
from policy_sched.framework.hookspecs import hookimpl
from policy_sched.framework.status import Code, Status
from policy_sched.model.pod_info import PodInfo


class Refuses:
    """Cannot be made."""

    def __init__(self, args: Mapping[str, object], handle: Handle) -> None:
        raise KeyError("colour")

    @hookimpl
    def score(self) -> Any:
        return None


class Quits:
    """Ends the process where a licence is missing."""

    def __init__(self, args: Mapping[str, object], handle: Handle) -> None:
        sys.exit("no licence")

    @hookimpl
    def score(self) -> Any:
        return None


class Evicts:
    """Says how often, and nothing else."""

    def __init__(self, args: Mapping[str, object], handle: Handle) -> None:
        pass

    @hookimpl
    def post_filter(self) -> Any:
        return PostFilterResult(Status(Code.UNSCHEDULABLE))

    @hookimpl
    def evictions(self) -> Any:
        return 60


class Panic(BaseException):
    """What libraries in Rust raise."""


class Misfit:
    """Wants an argument that no hook has."""

    @hookimpl
    def score(self, pot: PodInfo) -> Any:
        return None


class Wrong:
    """Returns for pods with the label ``mistake`` what that label names."""

    def __init__(self, args: Mapping[str, object], handle: Handle) -> None:
        self._table = handle.nodes

    @hookimpl
    def filter(self, pod: PodInfo, rows: Rows) -> Any:
        size = self._table.n if rows is None else rows.size
        mistake = pod.labels.get("mistake")
        if mistake == "no-result":
            return None
        if mistake == "no-status":
            return FilterResult.of(np.full(size, 7, np.int16), Status(Code.UNSCHEDULABLE))
        if mistake == "panic":
            raise Panic("index out of bounds")
        if mistake == "parts":
            result = FilterResult.of(np.zeros(size, np.int16))
            return replace(result, parts=lambda: 1 / 0)
        return FilterResult.of(np.zeros(size, np.int16))

    @hookimpl
    def score(self, pod: PodInfo, rows: Rows) -> Any:
        size = self._table.n if rows is None else rows.size
        mistake = pod.labels.get("mistake")
        return [1] * size if mistake == "list" else np.ones(size + (mistake == "long"), np.int64)

    @hookimpl
    def reserve(self, pod: PodInfo) -> Any:
        return None if pod.labels.get("mistake") == "reserve" else Status()
