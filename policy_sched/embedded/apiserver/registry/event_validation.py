"""What a new event must say: the rules of events.k8s.io/v1, and the looser ones of the core group.

(ValidateEventCreate of kube-apiserver. An event is checked as it is stored, in its newer form;
refusals name the fields as the core group has them, as kube-apiserver's do.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from policy_sched.client.apimachinery import ApiError
from policy_sched.embedded.apiserver.registry.errors import quoted
from policy_sched.manifests import Plain

TYPES: Final = frozenset({"Normal", "Warning"})
LONGEST: Final = 128
"""Characters of an instance, an action and a reason."""
LONGEST_NOTE: Final = 1024
"""Bytes of a note."""
_HOME: Final = ("default", "kube-system")
"""Where events about objects without a namespace live."""
_OLD: Final = ("deprecatedFirstTimestamp", "deprecatedLastTimestamp", "deprecatedCount")
"""Fields that a new event of events.k8s.io must not have."""
_QUALIFIED: Final = re.compile(
    r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?",
    re.ASCII,
)
_NOT_QUALIFIED: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end"
    " with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for"
    " validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)

Cause = tuple[str, str, str]
"""Field, reason, words."""


def check_new(event: Plain, *, strictly: bool) -> None:
    """Raise ApiError if a new event breaks a rule; ``strictly``: it came by events.k8s.io."""
    causes = [*_always(event, strictly=strictly)]
    if strictly:
        causes += _strict(event)
    if causes:
        raise _refusal(event["metadata"].get("name", ""), causes)


def _always(event: Plain, *, strictly: bool) -> Iterator[Cause]:
    """Yield what is wrong with an event of either group."""
    about = (event.get("regarding") or {}).get("namespace") or ""
    home = event["metadata"].get("namespace") or ""
    same = home == about if about else home in _HOME
    if not event.get("eventTime"):
        if not same and (about or home != _HOME[0]):
            yield _invalid("involvedObject.namespace", about, "does not match event.namespace")
        return
    if not same:
        yield _invalid("involvedObject.namespace", about, "does not match event.namespace")
    field = "reportingController" if strictly else "reportingComponent"
    controller = event.get("reportingController") or ""
    if not controller:
        yield _required(field)
        yield _invalid(field, "", "name part must be non-empty")
    if not _QUALIFIED.fullmatch(controller):
        yield _invalid(field, controller, _NOT_QUALIFIED)
    for field in ("reportingInstance", "action", "reason"):
        value = event.get(field) or ""
        if not value:
            yield _required(field)
        if len(value.encode()) > LONGEST:
            yield _invalid(field, "", f"can have at most {LONGEST} characters")
    if len((event.get("note") or "").encode()) > LONGEST_NOTE:
        yield _invalid("message", "", f"can have at most {LONGEST_NOTE} characters")


def _strict(event: Plain) -> Iterator[Cause]:
    """Yield what is wrong with an event of events.k8s.io."""
    series: Any = event.get("series")
    if series is not None:
        if series.get("count", 0) < 2:
            yield _invalid("series.count", "", "should be at least 2")
        if not series.get("lastObservedTime"):
            yield _required("series.lastObservedTime")
    if not event.get("eventTime"):
        yield _required("eventTime")
    kind = event.get("type") or ""
    if kind not in TYPES:
        yield _invalid("type", "", f"has invalid value: {kind}")
    for field in _OLD:
        if event.get(field):
            name = field.removeprefix("deprecated")
            yield _invalid(name[0].lower() + name[1:], "", "needs to be unset")


def _invalid(field: str, value: str, why: str) -> Cause:
    return field, "FieldValueInvalid", f"Invalid value: {quoted(value)}: {why}"


def _required(field: str) -> Cause:
    return field, "FieldValueRequired", "Required value"


def _refusal(name: str, causes: list[Cause]) -> ApiError:
    texts = [f"{field}: {words}" for field, _, words in causes]
    said = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    told = [{"reason": reason, "message": words, "field": field} for field, reason, words in causes]
    details = {"name": name, "kind": "Event", "causes": told}
    return ApiError(422, "Invalid", f'Event "{name}" is invalid: {said}', details)
