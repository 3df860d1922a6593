"""Views of the node table with hypothetical pods, for dry runs.

An overlay has its own copies of the columns that pods change; the table and what is cached for it
stay as they are.
"""

from policy_sched.cluster.overlay.amounts import AddedPods as AddedPods
from policy_sched.cluster.overlay.overlay import NodeOverlay as NodeOverlay
