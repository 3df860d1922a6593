"""Event recording: correlation, series and the broadcaster.

The counterpart of client-go's tools/events.
"""

from policy_sched.client.kube.events.broadcaster import EventWriter
from policy_sched.client.kube.events.correlator import EventKey, Reference

__all__ = [
    "EventKey",
    "EventWriter",
    "Reference",
]
