"""Event recording: correlation, series and the broadcaster.

The counterpart of client-go's tools/events.
"""

from policy_sched.client.kube.events.broadcaster import EventKey, EventWriter, Reference

__all__ = [
    "EventKey",
    "EventWriter",
    "Reference",
]
