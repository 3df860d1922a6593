"""Event recording: correlation, series and the broadcaster.

The counterpart of client-go's tools/events.
"""

from policy_sched.client.kube.events.broadcaster import (
    EventKey as EventKey,
    EventWriter as EventWriter,
    Reference as Reference,
)
