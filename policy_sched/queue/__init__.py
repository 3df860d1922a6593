"""The scheduling queue: active, backoff, unschedulable and in-flight pods.

kube-scheduler's PriorityQueue and nominator. Queueing hints arrive as data; no plugin is imported.
"""

from policy_sched.queue.backoff import SECOND, Timing
from policy_sched.queue.changes import node_changes, pod_changes
from policy_sched.queue.cooperative_tasks import Agenda, Finding, Work, at_once, never
from policy_sched.queue.heap import SortKey
from policy_sched.queue.hints import HintTable
from policy_sched.queue.nominator import Nominator
from policy_sched.queue.scheduling_queue import TAKEN_ALONG, SchedulingQueue
from policy_sched.queue.transfers import Gate
from policy_sched.queue.unschedulable_pods import Rejection

__all__ = [
    "SECOND",
    "TAKEN_ALONG",
    "Agenda",
    "Finding",
    "Gate",
    "HintTable",
    "Nominator",
    "Rejection",
    "SchedulingQueue",
    "SortKey",
    "Timing",
    "Work",
    "at_once",
    "never",
    "node_changes",
    "pod_changes",
]
