"""What the console looks at: manifests and policies, or a running instance, behind one interface.

Pages know the interface alone (`ClusterSource`); which cluster is behind it is chosen on the
command line.
"""

from policy_sched.console.sources.files import (
    FilesSource as FilesSource,
    InputFiles as InputFiles,
    open_store as open_store,
)
from policy_sched.console.sources.running import RunningSource as RunningSource
from policy_sched.console.sources.source import (
    UNDECIDED as UNDECIDED,
    ClusterSource as ClusterSource,
    Waiting as Waiting,
    dominant_reason as dominant_reason,
    grouped as grouped,
)
