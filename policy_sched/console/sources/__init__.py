"""What the console looks at: manifests and policies, or a running instance, behind one interface.

Pages know the interface alone (`Source`); which cluster is behind it is chosen on the command line.
"""

from policy_sched.console.sources.files import FilesSource, Inputs, open_store
from policy_sched.console.sources.history import History, Sample
from policy_sched.console.sources.pending import UNDECIDED, Waiting, dominant_reason, grouped
from policy_sched.console.sources.running import RunningSource
from policy_sched.console.sources.source import Source, Status

__all__ = [
    "UNDECIDED",
    "FilesSource",
    "History",
    "Inputs",
    "RunningSource",
    "Sample",
    "Source",
    "Status",
    "Waiting",
    "dominant_reason",
    "grouped",
    "open_store",
]
