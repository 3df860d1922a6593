"""InterPodAffinity: required and preferred affinity between pods.

The counterpart of kube-scheduler's package of that name.
"""

from policy_sched.plugins.interpodaffinity.plugin import InterPodAffinity as InterPodAffinity
