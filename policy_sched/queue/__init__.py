"""The scheduling queue: active, backoff, unschedulable and in-flight pods.

kube-scheduler's PriorityQueue and nominator. Queueing hints arrive as data; no plugin is imported.
"""

from policy_sched.queue.backoff import SECOND as SECOND, Timing as Timing
from policy_sched.queue.changes import (
    node_changes as node_changes,
    only_nominated as only_nominated,
    pod_changes as pod_changes,
)
from policy_sched.queue.heap import SortKey as SortKey
from policy_sched.queue.hints import HintTable as HintTable
from policy_sched.queue.nominator import Nominator as Nominator
from policy_sched.queue.queue_heap import QueueHeap as QueueHeap, QueueOrder as QueueOrder
from policy_sched.queue.scheduling_queue import (
    SCHEDULABLE_WITH_GROUP as SCHEDULABLE_WITH_GROUP,
    Gate as Gate,
    SchedulingQueue as SchedulingQueue,
    held_text as held_text,
)
from policy_sched.queue.unschedulable_pods import Rejection as Rejection
