"""Pages of an instance: configuration, policies, version, explanations, and upstream's zpages.

/statusz, /flagz and /debug/flags/v have the form of Kubernetes components since 1.36. No page
contains secrets: keys of extenders are left out.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final

from msgspec.structs import replace

from policy_sched import __version__
from policy_sched.errors import PolicySchedError, as_data
from policy_sched.explain import Explanation, explain
from policy_sched.instance import observability
from policy_sched.instance.app import Instance
from policy_sched.model import DEFAULT_SCHEDULER, Pod
from policy_sched.profiles.build import CompiledPlan
from policy_sched.profiles.models import KubeSchedulerConfiguration
from policy_sched.profiles.reload import PolicyStore, StoreStatus
from policy_sched.report import Document, Report

PageData = dict[str, Any]

HIDDEN: Final = "(hidden)"
_SECRETS: Final = frozenset({"keyData"})
_DURATIONS: Final = frozenset(
    {"leaseDuration", "renewDeadline", "retryPeriod", "httpTimeout", "filterTimeout"}
    | {"bindingTimeout"}
)
_UNITS: Final = ((3600, "h"), (60, "m"))


def version() -> PageData:
    """Return the document at /version."""
    major, minor = observability.UPSTREAM
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{major}.{minor}.0+policy-sched.{__version__}",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": observability.machine(),
    }


def configz(store: PolicyStore, settings: KubeSchedulerConfiguration) -> PageData:
    """Return the document at /configz: the configuration in force, with all its defaults.

    Each profile has the enabled plugins of each extension point, in order, and their effective
    arguments.
    """
    shown = settings.model_dump(mode="json", by_alias=True, exclude={"profiles"})
    shown["profiles"] = [_profile(ready) for ready in store.current.plans]
    return {"componentconfig": _written(shown)}


def policies(store: PolicyStore) -> PageData:
    """Return the document at /policies: the policies in force, their load time, the last error."""
    status = store.status
    return {
        "generation": status.generation,
        "contentHash": status.content_hash,
        "loadedAt": _time(status.loaded_at),
        "lastReloadSucceededAt": _time(status.succeeded_at),
        "lastReloadSuccessful": status.healthy,
        "lastError": _error(status),
        "restartRequired": list(status.restart),
        "reloads": {result.value: count for result, count in status.counts.items()},
        "files": list(store.files.paths),
        "profiles": [
            {
                "schedulerName": ready.plan.scheduler_name,
                "contentHash": ready.content_hash,
                "policies": [_policy(ready, name) for name in ready.plan.policies],
            }
            for ready in store.current.plans
        ],
        "warnings": [as_data(problem) for problem in store.current.warnings],
        "candidate": None if store.staged is None else store.staged.content_hash,
    }


def audits(instance: Instance) -> PageData:
    """Return the document at /audits: what audited policies would have changed."""
    if instance.audits is None:
        return {"share": instance.audit_share, "audits": []}
    return instance.audits.document()


def go_duration(nanoseconds: int) -> str:
    """Return a duration in Go's format: ``15s``, ``10m0s``, ``1.5s``, ``250ms``."""
    if 0 < nanoseconds < 1_000_000_000:
        return f"{_plain(nanoseconds / 1e6)}ms"
    seconds = nanoseconds / 1e9
    text = ""
    for size, unit in _UNITS:
        if seconds >= size or text:
            text += f"{int(seconds // size)}{unit}"
            seconds %= size
    return f"{text}{_plain(seconds)}s"


def _plain(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(round(value, 9))


def _policy(ready: CompiledPlan, name: str) -> PageData:
    points = ready.plan.points
    return {
        "name": name,
        "points": {
            point: {"weight": weight} if weight else {}
            for point, enabled in points.items()
            for plugin, weight in enabled
            if plugin == name
        },
        "params": _written(dict(ready.plan.policies[name].params)),
    }


def _profile(ready: CompiledPlan) -> PageData:
    plan = ready.plan
    params = {name: source.params for name, source in plan.policies.items()}
    given = [(name, dict(args)) for name, args in {**plan.args, **params}.items() if args]
    return {
        "schedulerName": plan.scheduler_name,
        "percentageOfNodesToScore": plan.percentage_of_nodes_to_score,
        "plugins": {
            point: {
                "enabled": [
                    {"name": name, "weight": weight} if weight else {"name": name}
                    for name, weight in enabled
                ]
            }
            for point, enabled in plan.points.items()
            if enabled
        },
        "pluginConfig": [{"name": name, "args": args} for name, args in given],
    }


def _written(value: Any) -> Any:
    """Return a value in the form of a configuration file, without secrets."""
    if isinstance(value, Mapping):
        return {str(key): _field(str(key), item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_written(item) for item in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _field(name: str, value: Any) -> Any:
    if name in _DURATIONS and isinstance(value, int):
        return go_duration(value)
    if name in _SECRETS and value:
        return HIDDEN
    return _written(value)


def _error(status: StoreStatus) -> PageData | None:
    if status.healthy:
        return None
    problems = [
        {key: value for key, value in as_data(problem).items() if value}
        for problem in status.problems
    ]
    return {"at": _time(status.refused_at), "problems": problems}


def _time(nanoseconds: int) -> str | None:
    if not nanoseconds:
        return None
    at = datetime.fromtimestamp(nanoseconds // 1_000_000_000, UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


NAME: Final = "policy-sched"
NOT_ACCEPTABLE: Final = "media type not acceptable, must be: text/plain\n"
LONGEST_NUMBER: Final = 16
"""Most bytes of a verbosity."""
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
        "Emulation version": ".".join(observability.UPSTREAM),
        "Paths": " ".join(sorted({f"/{path.split('/')[1]}" for path in paths})),
    }
    return f"\n{NAME} statusz\n{_WARNING}\n" + "".join(f"{k}: {v}\n" for k, v in facts.items())


def flagz(flags: Mapping[str, str]) -> str:
    """Return the page of the process's flags."""
    lines = "".join(f"{name}={flags[name]}\n" for name in sorted(flags))
    return f"\n{NAME} flags\n{_WARNING}\n{lines}"


def takes_text(accept: str) -> bool:
    """Return whether an Accept header allows plain text; no header allows any type."""
    if not accept:
        return True
    for media_range in accept.split(","):
        kind, *parameters = (part.strip().lower() for part in media_range.split(";"))
        others = [p for p in parameters if not p.startswith("q=")]
        if kind in ("text/plain", "text/*", "*/*") and others in ([], ["charset=utf-8"]):
            return True
    return False


def set_verbosity(verbosity: observability.Verbosity, body: bytes) -> tuple[int, str]:
    """Handle a PUT at /debug/flags/v; return status and text."""
    text = body.decode("utf-8", "replace").strip()
    if not (text.isascii() and text.isdigit() and int(text) <= _HIGHEST):
        return 400, f"failed set klog.logging.verbosity {text[:LONGEST_NUMBER]}: not a number\n"
    verbosity.set(int(text))
    return 200, f"successfully set klog.logging.verbosity to {text}\n"


class UnknownPod(PolicySchedError):  # noqa: N818 - a response, not a failure
    """No pod of that name waits here, or runs on a known node."""


@dataclass(frozen=True, slots=True)
class _Limited:
    """An explanation without names of nodes."""

    explanation: Explanation

    def text_lines(self) -> Iterable[str]:
        explanation = self.explanation
        if explanation.ignored:
            yield f"{explanation.pod} is not scheduled here"
        elif explanation.gated_by:
            yield f"{explanation.pod} does not enter the queue: {explanation.gated_by} keeps it out"
        else:
            yield f"{explanation.pod} fits on {explanation.feasible} of {explanation.nodes} nodes"
        if explanation.message:
            yield f"  {explanation.message}"
        for step in explanation.filters:
            if step.removed:
                reasons = ", ".join(f"{count} {why}" for why, count in step.reasons.items())
                yield f"  {step.name} removes {step.removed}: {reasons}"

    def document(self) -> Document:
        explanation = self.explanation
        return {
            "pod": explanation.pod,
            "profile": explanation.profile,
            "nodes": explanation.nodes,
            "feasible": explanation.feasible,
            "message": explanation.message,
            "gatedBy": explanation.gated_by,
            "rejectedBy": explanation.rejected_by,
            "filters": [asdict(step) for step in explanation.filters],
        }


@dataclass(frozen=True, slots=True)
class _Placed:
    """A pod with a node, and the record of its decision."""

    pod: str
    node: str
    decided: observability.Decided | None

    def text_lines(self) -> Iterable[str]:
        yield f"{self.pod} has a node: {self.node}"
        if self.decided is None:
            yield "  It was not decided here, or that was too long ago."
        else:
            yield f"  {self.decided.why} (generation {self.decided.generation})"

    def document(self) -> Document:
        decided = None if self.decided is None else self.decided.document()
        return {"pod": self.pod, "node": self.node, "decided": decided}


async def explained(instance: Instance, namespace: str, name: str, *, detailed: bool) -> Report:
    """Explain the decision of one pod. Raises UnknownPod if there is none of that name.

    A waiting pod is decided once more, now and without effects. For a pod with a node, the
    record of its decision is shown if it is still kept.
    """
    await instance.settled()
    key = f"{namespace}/{name}"
    pod = next((p for p in instance.pods() if _is(p, namespace, name)), None)
    if pod is None:
        raise UnknownPod(f"there is no pod {key}")
    uid = pod.metadata.uid or key
    node = pod.spec.node_name or instance.scheduler.cache.node_of(uid)
    if node:
        decided = next((d for d in reversed(instance.log.last) if d.pod == key), None)
        if decided is not None and not detailed:
            decided = replace(decided, node="", reason="")
        return _Placed(key, node, decided)
    waiting = instance.waiting(uid)
    if waiting is None:
        scheduler = pod.spec.scheduler_name or DEFAULT_SCHEDULER
        raise UnknownPod(f"pod {key} does not wait here: the scheduler {scheduler} decides")

    def decide_again() -> Explanation:
        with instance.metrics.unmeasured():
            return explain(instance.scheduler, waiting[0], by=waiting[1])

    explanation = await instance.undisturbed(decide_again)
    return explanation if detailed else _Limited(explanation)


def _is(pod: Pod, namespace: str, name: str) -> bool:
    meta = pod.metadata
    return meta.name == name and (meta.namespace or "default") == namespace
