"""Controllers: workloads create pods, claims get volumes, budgets are counted.

The counterpart of kube-controller-manager. Controllers are driven by events of the store and a
clock.
"""

from policy_sched.embedded.controllers.custom_resources import (
    CustomResourceController as CustomResourceController,
)
from policy_sched.embedded.controllers.garbage_collector import ALL_KINDS as ALL_KINDS
from policy_sched.embedded.controllers.registry import controllers as controllers
from policy_sched.embedded.controllers.workqueue import (
    Component as Component,
    KeyTimers as KeyTimers,
    Over as Over,
    RetryCounts as RetryCounts,
)
