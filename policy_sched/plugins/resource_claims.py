"""DynamicResources as far as it goes here: its answers for a pod without resource claims.

Pods with claims are refused before any plugin runs (`unbuilt`). Of the others kube-scheduler's
plugin says something in PostFilter only: no claim of theirs could be given back to make room. If a
plugin before it rejects the pod in PreFilter, it finds nothing of the pod in the cycle's state and
fails with "not found", so that preemption is not asked. Autoscalers read these words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from policy_sched.framework import (
    SKIP,
    Code,
    CycleState,
    Handle,
    PostFilterResult,
    PreFilterResult,
    Scope,
    Signature,
    Status,
    hookimpl,
)

NO_CLAIMS: Final = PostFilterResult(Status(Code.UNSCHEDULABLE, ("no new claims to deallocate",)))
NOT_FOUND: Final = PostFilterResult(Status(Code.ERROR, ("not found",)))

_SKIP: Final = PreFilterResult(SKIP)
_SIGNATURE: Final = Signature(frozenset(), Scope.STATIC, proved=True)


class PodClaims:
    """The mark in the cycle's state that PreFilter has looked for claims of the pod."""


_NO_POD_CLAIMS: Final = PodClaims()


class DynamicResources:
    """Has nothing to deallocate; its arguments are about claims."""

    def __init__(self, _args: Mapping[str, object], _handle: Handle) -> None:
        pass

    @hookimpl
    def sign_pod(self) -> Signature:
        """Read nothing: no pod that gets here has claims."""
        return _SIGNATURE

    @hookimpl
    def pre_filter(self, state: CycleState) -> PreFilterResult:
        """Note that the pod was looked at; it has no claims."""
        state.write(_NO_POD_CLAIMS)
        return _SKIP

    @hookimpl
    def post_filter(self, state: CycleState) -> PostFilterResult:
        """Say that there is nothing to deallocate; fail if PreFilter did not come so far."""
        return NOT_FOUND if state.read(PodClaims) is None else NO_CLAIMS
