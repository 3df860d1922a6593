"""The scheduling queue: active, backoff, unschedulable and in-flight pods.

kube-scheduler's PriorityQueue and nominator. Queueing hints arrive as data; no plugin is imported.
"""

from policy_sched.queue.backoff import SECOND, Timing
from policy_sched.queue.changes import node_changes, pod_changes
from policy_sched.queue.heap import SortKey
from policy_sched.queue.hints import HintTable
from policy_sched.queue.nominator import Nominator
from policy_sched.queue.scheduling_queue import TAKEN_ALONG, Gate, SchedulingQueue
from policy_sched.queue.unschedulable_pods import Rejection

__all__ = [
    "SECOND",
    "TAKEN_ALONG",
    "Gate",
    "HintTable",
    "Nominator",
    "Rejection",
    "SchedulingQueue",
    "SortKey",
    "Timing",
    "node_changes",
    "pod_changes",
]
