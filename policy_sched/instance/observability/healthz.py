"""Health checks by name, with kube-scheduler's output format."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from typing import Final, TypeAlias

import msgspec

PING: Final = "ping"
LEADER_ELECTION: Final = "leaderElection"
SHUTDOWN: Final = "shutdown"
SYNCED: Final = "informer-sync"
HANDLED: Final = "sched-handler-sync"
POLICIES: Final = "policies"
READABLE: Final = "readable-objects"
STORAGE: Final = "storage-readiness"
INPUTS: Final = "inputs"
"""The names of checks; all but the last four are kube-scheduler's."""


class Check(msgspec.Struct, frozen=True):
    """One check; ``test`` returns the failure, "" for none."""

    name: str
    test: Callable[[], str]


class HealthResponse(msgspec.Struct, frozen=True):
    """The response to a probe: status, body, and failures for the log only."""

    status: int
    text: str
    failed: str = ""


Observe: TypeAlias = Callable[[str, str, bool], None]
"""Called after each check: its name, the path it belongs to, whether it passed."""


def unobserved(_name: str, _path: str, _well: bool) -> None:
    """Do nothing."""


def nothing_wrong() -> str:
    """Pass: a process that responds is alive."""
    return ""


def health_response(
    path: str,
    checks: Sequence[Check],
    excluded: Collection[str] = (),
    *,
    verbose: bool = False,
    observe: Observe = unobserved,
) -> HealthResponse:
    """Return the response of ``/healthz``, ``/livez`` or ``/readyz`` (``path`` without slash)."""
    lines, failed = [], []
    for check in checks:
        if check.name in excluded:
            lines.append(f"[+]{check.name} excluded: ok\n")
            continue
        wrong = check.test()
        observe(check.name, path, not wrong)
        if wrong:
            lines.append(f"[-]{check.name} failed: reason withheld\n")
            failed.append(f"{check.name}: {wrong}")
        else:
            lines.append(f"[+]{check.name} ok\n")
    unknown = sorted(set(excluded) - {check.name for check in checks})
    if unknown:
        named = ",".join(json.dumps(name) for name in unknown)
        lines.append(f"warn: some health checks cannot be excluded: no matches for {named}\n")
    text = "".join(lines)
    if failed:
        return HealthResponse(500, f"{text}{path} check failed\n", "; ".join(failed))
    return HealthResponse(200, f"{text}{path} check passed\n" if verbose else "ok")


def single_check_response(check: Check) -> HealthResponse:
    """Return the response of ``/healthz/NAME``, with the failure: the path needs authorization."""
    wrong = check.test()
    if wrong:
        return HealthResponse(500, f"internal server error: {wrong}\n", f"{check.name}: {wrong}")
    return HealthResponse(200, "ok")
