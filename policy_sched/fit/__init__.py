"""How many replicas of a pod or a gang fit on a cluster, where, and what runs out first.

A unit is one replica: pods with their groups and claims. Copies of it are decided and bound one
after the other, by the pipelines that decide pods, in a copy of the cluster.
"""

from policy_sched.fit.count import (
    LIMIT as LIMIT,
    PREEMPTING as PREEMPTING,
    FitCluster as FitCluster,
    fit as fit,
    objects_of as objects_of,
)
from policy_sched.fit.report import Fit as Fit
from policy_sched.fit.unit import FitUnit as FitUnit, unit_of as unit_of
