"""Kubelets: bound pods start, run and end.

One object plays all nodes; there are no containers.
"""

from policy_sched.embedded.kubelet.kubelet import Kubelets as Kubelets, KubeletTimes as KubeletTimes
