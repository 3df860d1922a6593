"""Events about pods: they never change a decision, so a refused event is a log line."""

from __future__ import annotations

import logging
from typing import Final

from policy_sched.errors import ClusterError
from policy_sched.framework import Handle
from policy_sched.model import PodInfo

#: Longest note of an event, in characters, and what a longer one ends with (kube-scheduler's).
NOTE_LIMIT: Final = 1024
NOTE_SUFFIX: Final = " ..."
LOG: Final = logging.getLogger(__name__)


def record_event(  # noqa: PLR0913, PLR0917 - an event has these parts
    handle: Handle,
    pod: PodInfo,
    kind: str,
    reason: str,
    action: str,
    text: str,
    related: PodInfo | None = None,
) -> None:
    """Record an event about the pod; ``kind`` is ``Normal`` or ``Warning``.

    ``related``: the pod on whose behalf something happens to it.
    """
    try:
        short = text if len(text) <= NOTE_LIMIT else note(text)
        handle.client.record_event(pod, kind, reason, action, short, related)
    except ClusterError as error:
        LOG.warning("cannot record event %s of pod %s: %s", reason, pod.key, error)


def note(message: str) -> str:
    """Return the message as an event's note: cut to 1,024 characters."""
    if len(message) <= NOTE_LIMIT:
        return message
    return message[: NOTE_LIMIT - len(NOTE_SUFFIX)] + NOTE_SUFFIX
