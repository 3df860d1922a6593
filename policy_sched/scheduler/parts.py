"""Parts of a scheduler that may be replaced by what does the same and takes its time."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TypeAlias

from policy_sched.cluster.node_table import NodeTable
from policy_sched.framework.handle import Handle
from policy_sched.framework.status import Status
from policy_sched.model.pod_info import PodInfo
from policy_sched.queue.agenda import Finding
from policy_sched.queue.scheduling_queue import SchedulingQueue
from policy_sched.scheduler.attempt import Attempt, Decision, PendingDecision, Preempt
from policy_sched.scheduler.group_cycle import GroupTurn

Decide: TypeAlias = Callable[[Attempt, NodeTable, Random], Decision | PendingDecision]
PrepareCandidate: TypeAlias = Callable[[PodInfo, Preempt, Handle], str]
ScheduleGroup: TypeAlias = Callable[
    [Attempt, SchedulingQueue, Handle, Random], Finding[GroupTurn | None]
]
TellGroup: TypeAlias = Callable[[PodInfo, Status, Handle], None]
