"""Which controllers run in an embedded cluster."""

from __future__ import annotations

from policy_sched.client.embedded.controllers.agenda import Part
from policy_sched.client.embedded.store import ObjectStore


def controllers(store: ObjectStore) -> tuple[Part, ...]:  # noqa: ARG001 - none is built yet
    """Return the controllers, in the order in which they act."""
    return ()
