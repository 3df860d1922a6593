"""DynamicResources as far as it goes here: what it says of a pod without resource claims.

Pods with claims are refused before anything is asked (`unbuilt`). Of the others kube-scheduler's
plugin says something at one point only: no claim of theirs could be given back to make room. Those
words are part of each rejection's text, which others than people read, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from policy_sched.framework.handle import Handle
from policy_sched.framework.hookspecs import hookimpl
from policy_sched.framework.results import PostFilterResult
from policy_sched.framework.status import Code, Status

NO_CLAIMS: Final = PostFilterResult(Status(Code.UNSCHEDULABLE, ("no new claims to deallocate",)))


class DynamicResources:
    """Has nothing to deallocate; its arguments are about claims."""

    def __init__(self, _args: Mapping[str, object], _handle: Handle) -> None:
        pass

    @hookimpl
    def post_filter(self) -> PostFilterResult:
        """Say that there is nothing to deallocate."""
        return NO_CLAIMS
