"""The state of a rollout: what survives the process that drives it, as JSON of a bounded size."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from policy_sched.errors import PolicySchedError
from policy_sched.rollout.measures import Observed

VERSION: Final = 1
MAX_STATE: Final = 32 * 1024
"""Bytes of a state; an annotation may have 256 KiB with all others."""
_MAX_TEXT: Final = 1024
_MAX_NAME: Final = 512
_MAX_FIGURES: Final = 32
_MAX_STEPS: Final = 100
_LAST: Final = 2**63 - 1


class Phase(StrEnum):
    """Where a rollout is."""

    PROGRESSING = "Progressing"
    PROMOTED = "Promoted"
    """The candidate is the set in force."""
    ABORTED = "Aborted"
    """The stable set stays."""
    REPLACED = "Replaced"
    """The candidate was given up for another one, or taken back."""


class StateError(PolicySchedError):
    """A state that cannot be read."""


class State(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True
):
    """Where a rollout is; times are nanoseconds since 1970.

    ``elapsed`` is how long the step has been driven: a time in which no scheduler drove it, or by
    which a clock was set, does not count. ``counts`` are those of the step.
    """

    rollout: str
    """Identity of the plan."""
    plan: str
    """Hash of the plan."""
    stable: str
    candidate: str
    began: int
    """When the step began; of a rollout that ended, when it ended."""
    seen: int
    """When the state was last advanced."""
    step: int = 0
    elapsed: int = 0
    phase: Phase = Phase.PROGRESSING
    counts: Observed = msgspec.field(default_factory=Observed)
    reason: str = ""
    message: str = ""
    figures: dict[str, float] = msgspec.field(default_factory=dict)
    failing: str = ""
    """Why an abort rule has no value at present; the step does not end."""
    version: int = msgspec.field(default=0)

    def text(self) -> str:
        """Return the state as JSON on one line."""
        return msgspec.json.encode(msgspec.structs.replace(self, version=VERSION)).decode()


def clipped(text: str) -> str:
    """Return a text as a state holds it."""
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 4]} ..."


def read_state(text: str | bytes) -> State:
    """Return a state from its JSON. Raises StateError with the reason."""
    if len(text) > MAX_STATE:
        raise StateError(f"the state has {len(text)} bytes; the limit is {MAX_STATE}")
    try:
        version = msgspec.json.decode(text, type=_Version).version
        if version > VERSION:
            newest = f"this one reads up to version {VERSION}"
            raise StateError(f"the state is of version {version}, of a newer scheduler; {newest}")
        state = msgspec.json.decode(text, type=State)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise StateError(f"the state cannot be read: {error}") from None
    if (fault := _fault(state)) != "":
        raise StateError(f"the state cannot be read: {fault}")
    return msgspec.structs.replace(state, version=0)


class _Version(msgspec.Struct):
    version: int = 0


def _fault(state: State) -> str:
    """Return what is wrong with a state whose fields have their types, or nothing."""
    if state.version != VERSION:
        return "it states no version"
    if not 0 <= state.step < _MAX_STEPS:
        return f"there is no step {state.step}"
    if not all(0 <= moment <= _LAST for moment in (state.began, state.seen, state.elapsed)):
        return "a time is out of range"
    if max(map(len, (state.rollout, state.plan, state.stable, state.candidate))) > _MAX_NAME:
        return "a name is too long"
    if max(map(len, (state.reason, state.message, state.failing))) > _MAX_TEXT:
        return "a text is too long"
    if len(state.figures) > _MAX_FIGURES or any(len(name) > _MAX_NAME for name in state.figures):
        return "it has too many figures"
    return state.counts.stable.fault() or state.counts.candidate.fault()
