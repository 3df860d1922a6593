"""Parts of a scheduler that may be replaced by what does the same and takes its time."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TypeAlias

from policy_sched.cluster.tables import NodeTable
from policy_sched.framework import Handle, Status
from policy_sched.model import PodInfo
from policy_sched.queue import Finding, SchedulingQueue
from policy_sched.scheduler.attempt import Attempt, Decision, PendingDecision, Preempt
from policy_sched.scheduler.pod_group_cycle import GroupTurn

Decide: TypeAlias = Callable[[Attempt, NodeTable, Random], Decision | PendingDecision]
PrepareCandidate: TypeAlias = Callable[[PodInfo, Preempt, Handle], str]
ScheduleGroup: TypeAlias = Callable[
    [Attempt, SchedulingQueue, Handle, Random], Finding[GroupTurn | None]
]
TellGroup: TypeAlias = Callable[[PodInfo, Status, Handle], None]
