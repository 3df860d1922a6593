"""Plugins with mistakes: each is one that a third party may make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from policy_sched.framework import FilterResult, Rows
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
        return FilterResult.of(np.zeros(size, np.int16))

    @hookimpl
    def score(self, pod: PodInfo, rows: Rows) -> Any:
        size = self._table.n if rows is None else rows.size
        mistake = pod.labels.get("mistake")
        return [1] * size if mistake == "list" else np.ones(size + (mistake == "long"), np.int64)

    @hookimpl
    def reserve(self, pod: PodInfo) -> Any:
        return None if pod.labels.get("mistake") == "reserve" else Status()
