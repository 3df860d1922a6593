"""PodTopologySpread: even spreading over topology domains.

The counterpart of kube-scheduler's package of that name.
"""

from policy_sched.plugins.podtopologyspread.plugin import PodTopologySpread as PodTopologySpread
