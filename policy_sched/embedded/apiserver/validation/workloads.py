"""Checks of what makes pods: deployments and the other sets, jobs, budgets, autoscalers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from policy_sched.embedded.apiserver.validation.pods import check_template
from policy_sched.embedded.apiserver.validation.problems import IMMUTABLE, Problems
from policy_sched.embedded.apiserver.validation.selecting import check_label_selector, inside
from policy_sched.manifests import Plain
from policy_sched.model import LabelSelector, formats, label_selector

_SET_CHANGES: Final = (
    "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
)  # fmt: skip
_SET_WORDS: Final = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template',"
    " 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and"
    " 'minReadySeconds' are forbidden"
)
_DIGITS: Final = 10
"""Digits of a percentage that are enough to know that it is too large."""
_WHOLE: Final = 100
"""Percent that a part may be of a whole."""
_NOT_BOTH: Final = "minAvailable and maxUnavailable cannot be both set"


def _counts(problems: Problems, spec: Plain, *fields: str) -> None:
    for field in fields:
        _count(problems, f"spec.{field}", spec.get(field))


def _count(problems: Problems, at: str, value: Any) -> None:
    if isinstance(value, int) and value < 0:
        problems.invalid(at, value, formats.NOT_NEGATIVE)


def _selector_and_template(problems: Problems, data: Plain, spec: Plain) -> None:
    """Check that a set's selector selects its own pods, and what they are made of."""
    selector, template = spec.get("selector"), spec.get("template")
    if not selector:
        problems.required("spec.selector")
    else:
        check_label_selector(problems, "spec.selector", selector)
        if not (selector.get("matchLabels") or selector.get("matchExpressions")):
            what = str(data.get("kind")).lower().replace("replicaset", "deployment")
            problems.invalid("spec.selector", selector, f"empty selector is invalid for {what}")
        else:
            _selects(problems, selector, template)
    check_template(problems, "spec.template", template)
    restart = inside(inside(template, "spec"), "restartPolicy")
    if restart and restart != "Always":
        problems.unsupported("spec.template.spec.restartPolicy", restart, ("Always",))


def _selects(problems: Problems, selector: Any, template: Any) -> None:
    labels = inside(inside(template, "metadata"), "labels") or {}
    try:
        matches = label_selector(msgspec.convert(selector, LabelSelector)).matches(labels)
    except (ValueError, msgspec.ValidationError):
        return  # told already
    if not matches:
        why = "`selector` does not match template `labels`"
        problems.invalid("spec.template.metadata.labels", labels, why)


def check_deployment(problems: Problems, data: Plain) -> None:
    """Check a deployment."""
    spec = data.get("spec") or {}
    _counts(problems, spec, "replicas", "minReadySeconds", "revisionHistoryLimit")
    _selector_and_template(problems, data, spec)
    strategy = spec.get("strategy") or {}
    kind = strategy.get("type")
    if kind and kind not in ("Recreate", "RollingUpdate"):
        problems.unsupported("spec.strategy.type", kind, ("Recreate", "RollingUpdate"))
    rolling = strategy.get("rollingUpdate")
    if kind == "Recreate" and rolling:
        why = "may not be specified when strategy `type` is 'Recreate'"
        problems.forbidden("spec.strategy.rollingUpdate", why)
    elif rolling:
        _rolling(problems, rolling)
    deadline, ready = spec.get("progressDeadlineSeconds"), spec.get("minReadySeconds") or 0
    if deadline is not None and deadline <= ready:
        why = "must be greater than minReadySeconds"
        problems.invalid("spec.progressDeadlineSeconds", deadline, why)


def _rolling(problems: Problems, rolling: Plain) -> None:
    at = "spec.strategy.rollingUpdate"
    _share(problems, f"{at}.maxUnavailable", rolling.get("maxUnavailable"), _WHOLE)
    _share(problems, f"{at}.maxSurge", rolling.get("maxSurge"))
    nothing = (0, "0%")
    if rolling.get("maxUnavailable") in nothing and rolling.get("maxSurge") in nothing:
        why = "may not be 0 when `maxSurge` is 0"
        problems.invalid(f"{at}.maxUnavailable", rolling["maxUnavailable"], why)


def _share(problems: Problems, at: str, value: Any, most: int | None = None) -> None:
    """Check a number or a percentage, which is at most so many percent."""
    if isinstance(value, str):
        digits = value.removesuffix("%")
        if not (digits.isascii() and digits.isdecimal()) or digits == value:
            why = (
                "a valid percent string must be a numeric string followed by an ending '%' (e.g."
                " '1%',  or '93%', regex used for validation is '[0-9]+%')"
            )
            problems.invalid(at, value, why)
        elif most is not None and int(digits.lstrip("0")[:_DIGITS] or "0") > most:
            problems.invalid(at, value, f"must not be greater than {most}%")
    else:
        _count(problems, at, value)


def check_set(problems: Problems, data: Plain) -> None:
    """Check a replica set, a stateful set or a daemon set."""
    spec = data.get("spec") or {}
    _counts(problems, spec, "replicas", "minReadySeconds", "revisionHistoryLimit")
    _selector_and_template(problems, data, spec)
    rolling, at = (
        inside(spec.get("updateStrategy"), "rollingUpdate"),
        "updateStrategy.rollingUpdate",
    )
    _share(problems, f"spec.{at}.maxUnavailable", inside(rolling, "maxUnavailable"), _WHOLE)
    for field, value in (
        (f"{at}.partition", inside(rolling, "partition")),
        ("ordinals.start", inside(spec.get("ordinals"), "start")),
    ):
        _count(problems, f"spec.{field}", value)


def check_controller(problems: Problems, data: Plain) -> None:
    """Check a replication controller."""
    spec = data.get("spec") or {}
    _counts(problems, spec, "replicas", "minReadySeconds")
    if not spec.get("template"):
        problems.required("spec.template")
    else:
        check_template(problems, "spec.template", spec["template"])


def check_job(problems: Problems, data: Plain) -> None:
    """Check a job."""
    spec = data.get("spec") or {}
    fields = ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit")
    _counts(problems, spec, *fields, "ttlSecondsAfterFinished")
    mode = spec.get("completionMode")
    if mode and mode not in ("NonIndexed", "Indexed"):
        problems.unsupported("spec.completionMode", mode, ("Indexed", "NonIndexed"))
    if mode == "Indexed" and spec.get("completions") is None:
        problems.required("spec.completions", "when completion mode is Indexed")
    template = spec.get("template")
    check_template(problems, "spec.template", template)
    restart = inside(inside(template, "spec"), "restartPolicy") or "Always"
    if restart == "Always":
        why = 'valid values: "OnFailure", "Never"'
        problems.required("spec.template.spec.restartPolicy", why)


def check_cron_job(problems: Problems, data: Plain) -> None:
    """Check a cron job."""
    spec = data.get("spec") or {}
    schedule, policy = str(spec.get("schedule") or ""), spec.get("concurrencyPolicy")
    if not schedule:
        problems.required("spec.schedule")
    elif not schedule.startswith("@") and len(schedule.split()) != 5:
        given = f"expected exactly 5 fields, found {len(schedule.split())}"
        problems.invalid("spec.schedule", schedule, f"{given}: [{' '.join(schedule.split())}]")
    if policy and policy not in ("Allow", "Forbid", "Replace"):
        problems.unsupported("spec.concurrencyPolicy", policy, ("Allow", "Forbid", "Replace"))


def check_budget(problems: Problems, data: Plain) -> None:
    """Check a disruption budget."""
    spec = data.get("spec") or {}
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        problems.invalid("spec", spec, _NOT_BOTH)
    for field in ("minAvailable", "maxUnavailable"):
        _share(problems, f"spec.{field}", spec.get(field), _WHOLE)
    check_label_selector(problems, "spec.selector", spec.get("selector"))


def check_autoscaler(problems: Problems, data: Plain) -> None:
    """Check a horizontal pod autoscaler."""
    spec = data.get("spec") or {}
    least, most = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    if least is not None and least < 1:
        problems.invalid("spec.minReplicas", least, "must be greater than or equal to 1")
    if most < 1:
        problems.invalid("spec.maxReplicas", most, "must be greater than 0")
    elif least is not None and most < least:
        why = "must be greater than or equal to `minReplicas`"
        problems.invalid("spec.maxReplicas", most, why)
    target = spec.get("scaleTargetRef") or {}
    for field in ("kind", "name"):
        if not target.get(field):
            problems.required(f"spec.scaleTargetRef.{field}")


# Changes.


def _same(problems: Problems, at: str, old: Any, new: Any) -> None:
    if old != new:
        problems.invalid(at, new, IMMUTABLE)


def change_selector(problems: Problems, old: Plain, new: Plain) -> None:
    """Check a change of a deployment, a replica set or a daemon set."""
    before, after = (inside(one.get("spec"), "selector") for one in (old, new))
    _same(problems, "spec.selector", before, after)


def change_stateful_set(problems: Problems, old: Plain, new: Plain) -> None:
    """Check a change of a stateful set."""
    before, after = (
        {k: v for k, v in (one.get("spec") or {}).items() if k not in _SET_CHANGES and v}
        for one in (old, new)
    )
    if before != after:
        problems.forbidden("spec", _SET_WORDS)


def change_job(problems: Problems, old: Plain, new: Plain) -> None:
    """Check a change of a job: of its template what is scheduled may change while it waits."""
    before, after = old.get("spec") or {}, new.get("spec") or {}
    suspended = bool(before.get("suspend")) and not (old.get("status") or {}).get("startTime")
    for field in ("selector", "completionMode"):
        _same(problems, f"spec.{field}", before.get(field), after.get(field))
    indexed = before.get("completionMode") == "Indexed"
    elastic = indexed and after.get("completions") == after.get("parallelism")
    if not elastic:
        _same(problems, "spec.completions", before.get("completions"), after.get("completions"))
    if not suspended:
        _same(problems, "spec.template", before.get("template"), after.get("template"))


Check = Callable[[Problems, Plain], None]
Change = Callable[[Problems, Plain, Plain], None]
