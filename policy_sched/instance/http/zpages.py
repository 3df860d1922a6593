"""/statusz, /flagz and /debug/flags/v, as components of Kubernetes have them since 1.36."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from policy_sched import __version__
from policy_sched.instance.observability import UPSTREAM, Verbosity

NAME: Final = "policy-sched"
NOT_ACCEPTABLE: Final = "media type not acceptable, must be: text/plain\n"
LONGEST_NUMBER: Final = 16
"""Bytes of a verbosity that are read."""
_HIGHEST: Final = 2**31 - 1
_WARNING: Final = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility"
    " guarantees and is for debugging purposes only.\n"
)


def statusz(started: int, now: int, paths: Iterable[str]) -> str:
    """Return the page of a process; ``started`` and ``now`` are nanoseconds since 1970."""
    since = datetime.fromtimestamp(started // 1_000_000_000, UTC)
    up = max(0, now - started) // 1_000_000_000
    facts = {
        "Started": since.strftime("%a %b %e %H:%M:%S UTC %Y"),
        "Up": f"{up // 3600} hr {up // 60 % 60:02d} min {up % 60:02d} sec",
        "Python version": platform.python_version(),
        "Binary version": __version__,
        "Emulation version": ".".join(UPSTREAM),
        "Paths": " ".join(sorted({f"/{path.split('/')[1]}" for path in paths})),
    }
    return f"\n{NAME} statusz\n{_WARNING}\n" + "".join(f"{k}: {v}\n" for k, v in facts.items())


def flagz(flags: Mapping[str, str]) -> str:
    """Return the page of the flags that a process was started with."""
    lines = "".join(f"{name}={flags[name]}\n" for name in sorted(flags))
    return f"\n{NAME} flags\n{_WARNING}\n{lines}"


def takes_text(accept: str) -> bool:
    """Tell whether an Accept header allows plain text; no header allows anything."""
    if not accept:
        return True
    for one in accept.split(","):
        kind, *parameters = (part.strip().lower() for part in one.split(";"))
        others = [p for p in parameters if not p.startswith("q=")]
        if kind in ("text/plain", "text/*", "*/*") and others in ([], ["charset=utf-8"]):
            return True
    return False


def set_verbosity(verbosity: Verbosity, body: bytes) -> tuple[int, str]:
    """Do what a PUT at /debug/flags/v asks for; return status and text."""
    text = body.decode("utf-8", "replace").strip()
    if not (text.isascii() and text.isdigit() and int(text) <= _HIGHEST):
        return 400, f"failed set klog.logging.verbosity {text[:LONGEST_NUMBER]}: not a number\n"
    verbosity.set(int(text))
    return 200, f"successfully set klog.logging.verbosity to {text}\n"
