"""What plugins of other packages return, checked against the hooks' contract.

pluggy checks the arguments of hooks when a plugin is registered; what they return is seen at pod
time only. The functions of foreign plugins are wrapped once: a wrong result becomes a PluginError,
which ends the attempt of that pod, and so does whatever they raise, be it a panic of Rust or
sys.exit, which are no Exception. Of arrays only dtype and shape are looked at, so a call
costs some microseconds more. Plugins of this package are not wrapped.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence, Set as AbstractSet
from functools import partial
from math import isnan
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, TypeAlias, cast

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from policy_sched import framework
from policy_sched.cluster.tables import NodeTable
from policy_sched.errors import PluginError, PolicySchedError
from policy_sched.framework.runtime.pipeline import Implementations
from policy_sched.model import ClusterEvent, ClusterEventWithHint, PodInfo, field_key
from policy_sched.queue import QueueOrder

LOG: Final = logging.getLogger(__name__)
Args: TypeAlias = tuple[Any, ...]


class Wrong(NamedTuple):
    """A value that a hook may not return; ``part``: what it is of the result, "" for all of it."""

    value: object
    expected: str
    part: str = ""


Check: TypeAlias = Callable[[Any, Args], Wrong | None]
"""Returns what is wrong in a result; it is also given the hook's arguments."""

_A_STATUS: Final = "a Status"
MAX_TEXT: Final = 32_768
"""Characters of what a plugin says: as many as Kubernetes allows in the message of a condition."""
_REASONS: Final = f"a tuple of texts in Unicode of at most {MAX_TEXT:,} characters together"
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
"""Halves of characters, which have no UTF-8; os.fsdecode makes them of other bytes."""


def checked(plugin: str, functions: Implementations, table: NodeTable) -> Implementations:
    """Return a plugin's functions with their results checked.

    They raise PluginError naming the plugin, the hook, what it returned and what is expected.
    """
    functions = {point: contained(function) for point, function in functions.items()}
    checks = dict(_CHECKS)
    if "normalize_score" not in functions:
        checks["score"] = partial(_scores, table=table, kinds=("int64",))
    else:
        checks["score"] = partial(_scores, table=table, kinds=("int64", "float64"))
    hooks = {
        point: _checked(plugin, point, function, checks[point]) if point in checks else function
        for point, function in functions.items()
    }
    if "filter" in hooks:
        hooks["filter"] = _describing(plugin, hooks["filter"])
    if "post_filter" in hooks:
        hooks["post_filter"] = _made_room(hooks["post_filter"])
    for point in ("pre_bind", "bind"):
        if point in hooks:
            hooks[point] = _polled(hooks[point])
    if "events_to_register" in hooks:
        hooks["events_to_register"] = _registering(plugin, hooks["events_to_register"])
    if "evictions" in hooks:
        hooks["evictions"] = _evicting(plugin, hooks["evictions"])
    if "queue_sort" in hooks:
        hooks["queue_sort"] = _comparable(plugin, "queue_sort", hooks["queue_sort"])
    if "queue_order" in hooks:
        hooks["queue_order"] = _ordering(plugin, hooks["queue_order"])
    if "permit" in hooks:
        hooks["permit"] = _permitting(plugin, hooks["permit"])
    if "sign_pod" in hooks:
        hooks["sign_pod"] = _signing(plugin, hooks["sign_pod"])
    return hooks


def _checked(
    plugin: str, point: str, function: Callable[..., Any], check: Check
) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        returned = function(*args)
        wrong = check(returned, args)
        if wrong is not None:
            raise PluginError(_words(plugin, point, wrong))
        return returned

    return call


class _RaisedError(Exception):
    """Stands for what a plugin raised that is no Exception, or has no text."""


def contained(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of a plugin that raises exceptions with a text, and nothing else."""

    def call(*args: Any) -> Any:
        try:
            return function(*args)
        except (PolicySchedError, KeyboardInterrupt):
            raise
        except BaseException as error:
            text = told(error)
            if isinstance(error, Exception) and text == f"{type(error).__name__}: {_str(error)}":
                raise
            raise _RaisedError(text) from error

    return call


def told(error: BaseException) -> str:
    """Return the type and the text of what a plugin raised, as they can be written anywhere."""
    if isinstance(error, _RaisedError):
        return str(error)
    text = f"{type(error).__name__}: {_str(error)}".removesuffix(": ")[:MAX_TEXT]
    return text.encode(errors="backslashreplace").decode()


def _str(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - the class of an exception is foreign code, too
        return ""


def _is_text(value: object) -> bool:
    """Return whether a value is a text that can be written anywhere."""
    return isinstance(value, str) and (value.isascii() or not _SURROGATE.search(value))


def _words(plugin: str, point: str, wrong: Wrong) -> str:
    part = f"{wrong.part} that are " if wrong.part.endswith("s") else f"{wrong.part} that is "
    got = f"{part if wrong.part else ''}{_shown(wrong.value)}"
    return f'plugin "{plugin}": {point} returned {got}; {wrong.expected} is expected'


def _shown(value: object) -> str:
    """Return what kind of thing a value is."""
    if value is None or isinstance(value, bool | int | float):
        return str(value)
    if isinstance(value, np.ma.MaskedArray):
        return f"a masked {value.dtype} array of shape {value.shape}"
    if isinstance(value, np.ndarray):
        return f"{_with_article(str(value.dtype))} array of shape {value.shape}"
    if isinstance(value, str):
        return "a text"
    name = _with_article(type(value).__name__)
    if isinstance(value, list | tuple | dict | AbstractSet):
        return f"{name} of {len(value)} element{'' if len(value) == 1 else 's'}"
    return name


def _with_article(noun: str) -> str:
    return f"{'an' if noun[:1] in 'aeiouAEIOU' else 'a'} {noun}"


# Results that are, or hold, a status.


def _status(returned: Any, _args: Args = ()) -> Wrong | None:
    if not isinstance(returned, framework.Status):
        return Wrong(returned, _A_STATUS)
    code: object = returned.code
    if not isinstance(code, framework.Code):
        return Wrong(code, "a Code", "a status with a code")
    reasons: object = returned.reasons
    if not isinstance(reasons, tuple) or not all(isinstance(reason, str) for reason in reasons):
        return Wrong(reasons, "a tuple of texts", "a status with reasons")
    if not all(map(_is_text, reasons)) or sum(map(len, reasons)) > MAX_TEXT:
        return Wrong(reasons, _REASONS, "a status with reasons")
    return None


def _status_or_pending(returned: Any, _args: Args) -> Wrong | None:
    if isinstance(returned, framework.PendingStatus):
        return None
    wrong = _status(returned)
    return wrong and wrong._replace(expected="a Status or a PendingStatus")


def _holding(kind: type[Any], returned: Any) -> Wrong | None:
    """Return what is wrong in a result with a status, or with its status."""
    if not isinstance(returned, kind):
        return Wrong(returned, _with_article(kind.__name__))
    wrong = _status(returned.status)
    if wrong is None:
        return None
    name = _with_article(kind.__name__)
    return wrong._replace(part=f"{name} with {wrong.part or 'a status'}")


def _pre_filter(returned: Any, _args: Args) -> Wrong | None:
    wrong = _holding(framework.PreFilterResult, returned)
    if wrong is not None or returned.node_names is None:
        return wrong
    names = returned.node_names
    if isinstance(names, AbstractSet) and all(isinstance(name, str) for name in names):
        return None
    return Wrong(names, "a set of names", "a PreFilterResult with node_names")


def _post_filter(returned: Any, _args: Args) -> Wrong | None:
    wrong = _holding(framework.PostFilterResult, returned)
    if wrong is not None:
        return wrong
    node, victims = returned.nominated_node, returned.victims
    if node is not None and not _is_text(node):
        return Wrong(node, "a name", "a PostFilterResult with a nominated_node")
    if not isinstance(victims, tuple) or not all(isinstance(pod, PodInfo) for pod in victims):
        return Wrong(victims, "a tuple of PodInfo", "a PostFilterResult with victims")
    return None


def _permit(returned: Any, _args: Args) -> Wrong | None:
    wrong = _holding(framework.PermitResult, returned)
    if wrong is None and not _is_number(returned.timeout):
        return Wrong(returned.timeout, "a number of seconds", "a PermitResult with a timeout")
    return wrong


# Arrays.


def _array(returned: Any, size: int, kinds: Sequence[str], part: str = "") -> Wrong | None:
    if (
        isinstance(returned, np.ndarray)
        and not isinstance(returned, np.ma.MaskedArray)
        and returned.shape == (size,)
        and str(returned.dtype) in kinds
    ):
        return None
    return Wrong(returned, f"{_with_article(' or '.join(kinds))} array of shape ({size},)", part)


def _filter(returned: Any, args: Args) -> Wrong | None:
    _state, _pod, rows, nodes = args
    if not isinstance(returned, framework.FilterResult):
        return Wrong(returned, "a FilterResult")
    error: object = returned.error
    if error is not None and not _is_text(error):
        return Wrong(error, "a text", "a FilterResult with an error")
    fatal: object = returned.fatal
    if not isinstance(fatal, frozenset):
        return Wrong(fatal, "a frozenset of codes", "a FilterResult with a fatal")
    if returned.codes is None:
        return None
    size = nodes.n if rows is None else rows.size
    return _array(returned.codes, size, ("int16",), "a FilterResult with codes")


def _scores(returned: Any, args: Args, *, table: NodeTable, kinds: Sequence[str]) -> Wrong | None:
    rows = args[2]
    return _array(returned, table.n if rows is None else rows.size, kinds)


def _normalized(returned: Any, args: Args) -> Wrong | None:
    return _array(returned, args[2].size, ("int64",))


def _placements(returned: Any, _args: Args) -> Wrong | None:
    wrong = _holding(framework.Placements, returned)
    if wrong is not None:
        return wrong
    domains: object = returned.domains
    if not isinstance(domains, Mapping):
        return Wrong(domains, "a mapping of names to rows", "Placements with domains")
    for rows in domains.values():
        if not isinstance(rows, np.ndarray) or rows.ndim != 1 or rows.dtype.kind != "i":
            return Wrong(rows, "an array of rows", "Placements with rows")
    return None


def _placement_score(returned: Any, _args: Args) -> Wrong | None:
    return None if _is_whole(returned) else Wrong(returned, "an int")


def _is_whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isnan(value)


# What is asked once, and what is compared.


def _events(returned: Any, _args: Args) -> Wrong | None:
    if not isinstance(returned, tuple) or not all(
        isinstance(registered, ClusterEventWithHint) for registered in returned
    ):
        return Wrong(returned, "a tuple of ClusterEventWithHint")
    for registered in returned:
        event: object = registered.event
        if not isinstance(event, ClusterEvent):
            return Wrong(event, "a ClusterEvent", "a ClusterEventWithHint with an event")
        if not _is_whole(registered.every):
            part = "a ClusterEventWithHint with an every"
            return Wrong(registered.every, "a number of nanoseconds", part)
    return None


def _evictions(returned: Any, _args: Args) -> Wrong | None:
    if returned is None:
        return None
    if not isinstance(returned, framework.Evictions):
        return Wrong(returned, "Evictions or None")
    every, most = returned.every, returned.most
    if not _is_whole(every) or every < 1:
        return Wrong(every, "a number of nanoseconds above 0", "Evictions with an every")
    return None if _is_whole(most) else Wrong(most, "an int", "Evictions with a most")


def _victim(returned: Any, _args: Args) -> Wrong | None:
    if returned is None:
        return None
    if not isinstance(returned, framework.PodToEvict):
        return Wrong(returned, "a PodToEvict or None")
    pod: object = returned.pod
    if not isinstance(pod, PodInfo):
        return Wrong(pod, "a PodInfo", "a PodToEvict with a pod")
    if not _is_text(returned.note):
        return Wrong(returned.note, "a text", "a PodToEvict with a note")
    wrong = _sort_key(returned.key, ())
    return wrong and wrong._replace(part="a PodToEvict with a key")


def _signature(returned: Any, _args: Args) -> Wrong | None:
    if not isinstance(returned, framework.Signature):
        return Wrong(returned, "a Signature")
    scope: object = returned.scope
    if not isinstance(scope, framework.Scope):
        return Wrong(scope, "a Scope", "a Signature with a scope")
    fields: object = returned.fields
    if not isinstance(fields, frozenset):
        return Wrong(fields, "a frozenset of paths", "a Signature with fields")
    for path in fields:
        if not _is_path(path):
            expected = 'a path into PodInfo, such as ("requests",) or ("labels", "app"),'
            return Wrong(path, expected, f"a Signature with a field {path!r}")
    return None


def _is_path(path: object) -> bool:
    """Return whether a signature's field is an attribute of PodInfo, or an entry of one."""
    if not isinstance(path, tuple) or not path or not all(isinstance(part, str) for part in path):
        return False
    try:
        attribute = path[0] == "namespaceObject" or field_key(path[0])
    except KeyError:
        return False
    return len(path) == 1 or attribute is True or attribute != path[0]  # a mapping has a key


def _sort_key(returned: Any, _args: Args) -> Wrong | None:
    if isinstance(returned, tuple) and all(isinstance(e, str) or _is_number(e) for e in returned):
        return None
    return Wrong(returned, "a tuple of numbers and texts")


def _order(returned: Any, _args: Args) -> Wrong | None:
    right = returned is None or isinstance(returned, QueueOrder)
    return None if right else Wrong(returned, "a QueueOrder or None")


def _name(returned: Any, _args: Args) -> Wrong | None:
    return None if isinstance(returned, str) else Wrong(returned, "a text")


def _truth(returned: Any, _args: Args) -> Wrong | None:
    return None if isinstance(returned, bool) else Wrong(returned, "True or False")


def _names(returned: Any, _args: Args) -> Wrong | None:
    right = isinstance(returned, list) and all(isinstance(name, str) for name in returned)
    return None if right else Wrong(returned, "a list of texts")


_OF_AN_ORDER: Final[Mapping[str, Check]] = {
    "queue_of": _name,
    "queue_key": _sort_key,
    "strict": _truth,
    **dict.fromkeys(("take_stale_pods", "take_stale_queues"), _names),
}
"""By function of a QueueOrder; what the others return does not matter."""


_CHECKS: Final[Mapping[str, Check]] = {
    **dict.fromkeys(
        (
            *("pre_enqueue", "add_pod", "remove_pod", "pre_score"),
            *("reserve", "pre_bind_pre_flight"),
        ),
        _status,
    ),
    "queue_sort": _sort_key,
    "queue_order": _order,
    "pre_filter": _pre_filter,
    "filter": _filter,
    "post_filter": _post_filter,
    "normalize_score": _normalized,
    "permit": _permit,
    "pre_bind": _status_or_pending,
    "bind": _status_or_pending,
    "placement_generate": _placements,
    "placement_score": _placement_score,
    "normalize_placement_score": _normalized,
    "events_to_register": _events,
    "evictions": _evictions,
    "sign_pod": _signature,
}
"""By hook; what `unreserve` and `post_bind` return does not matter."""


def _describing(plugin: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter whose results are described without surprises."""

    def guarded(
        describe: framework.Describe, rows: NDArray[np.intp], codes: framework.Codes
    ) -> Sequence[framework.Status]:
        try:
            statuses = list(contained(describe)(rows, codes))
        except Exception as error:
            text = f"the describe of filter raised {told(error)}"
            raise PluginError(f'plugin "{plugin}": {text}') from error
        wrong = None
        if len(statuses) != rows.size:
            wrong = Wrong(statuses, f"one Status for each of {rows.size} rows")
        for status in {id(status): status for status in statuses}.values():
            wrong = wrong or _status(status)
        if wrong is not None:
            raise PluginError(_words(plugin, "the describe of filter", wrong))
        return statuses

    def call(*args: Any) -> framework.FilterResult:
        verdict: framework.FilterResult = function(*args)
        if verdict.codes is None:
            return verdict
        return replace(verdict, describe=partial(guarded, verdict.describe))

    return call


def _permitting(plugin: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return Permit such that what it returns when it runs again is checked, too."""

    def call(*args: Any) -> framework.PermitResult:
        result: framework.PermitResult = function(*args)
        if result.again is None:
            return result
        permit = contained(framework.permit_of(result.again))
        again = _checked(plugin, "permit, run again,", permit, _status)
        return replace(result, again=framework.with_permit(result.again, again))

    return call


def _made_room(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return PostFilter such that what is left to be done raises exceptions only."""

    def call(*args: Any) -> framework.PostFilterResult:
        result: framework.PostFilterResult = function(*args)
        return result if result.then is None else replace(result, then=contained(result.then))

    return call


def _polled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return PreBind or Bind such that polling what it has begun raises exceptions only."""

    def call(*args: Any) -> framework.Status | framework.PendingStatus:
        result: framework.Status | framework.PendingStatus = function(*args)
        if isinstance(result, framework.PendingStatus) and result.poll is not None:
            result.poll = contained(result.poll)
        return result

    return call


def _registering(plugin: str, function: Callable[[], Any]) -> Callable[..., Any]:
    """Return the events of a plugin with functions that the queue may call.

    A moment that fails is none, and a pod whose key fails is like no other.
    """

    def guarded(
        what: str,
        inner: Callable[[Any], Any],
        right: Callable[[Any], bool],
        otherwise: Callable[[Any], Any],
    ) -> Callable[[Any], Any]:
        inner = contained(inner)

        def call(pod: Any) -> Any:
            try:
                value = inner(pod)
                if right(value):
                    return value
                error: object = f"it returned {_shown(value)}"
            except Exception as raised:  # noqa: BLE001 - a plugin is foreign code
                error = told(raised)
            LOG.warning('plugin "%s": the %s of an event failed: %s', plugin, what, error)
            return otherwise(pod)

        return call

    def call() -> tuple[ClusterEventWithHint, ...]:
        return tuple(
            replace(
                event,
                hint=event.hint and contained(event.hint),
                moment=event.moment
                and guarded("moment", event.moment, _is_whole, lambda _queued: 0),
                alike=event.alike and guarded("alike", event.alike, _is_key, lambda pod: pod.uid),
            )
            for event in function()
        )

    return call


def _is_key(value: object) -> bool:
    return hash(value) is not None  # raises TypeError where it has none


def _evicting(plugin: str, function: Callable[[], Any]) -> Callable[[], framework.Evictions | None]:
    """Return the evictions of a plugin such that it says which pod it cannot judge."""

    def call() -> framework.Evictions | None:
        evictions: framework.Evictions | None = function()
        if evictions is None:
            return None
        judge = _checked(plugin, "judge of evictions", contained(evictions.judge), _victim)

        def judged(pod: PodInfo, node: str) -> framework.PodToEvict | None:
            try:
                victim: framework.PodToEvict | None = judge(pod, node)
                if victim is not None:
                    alike(victim.key)
            except PolicySchedError:
                raise
            except Exception as error:
                text = f"the judge of evictions raised {told(error)}"
                raise PluginError(f'plugin "{plugin}": {text}') from error
            return victim

        alike = _comparable(plugin, "judge of evictions", lambda key: key)
        return replace(evictions, judge=judged)

    return call


def _ordering(plugin: str, function: Callable[[], Any]) -> Callable[[], QueueOrder | None]:
    """Return an order of queues whose functions are checked, and whose keys are alike."""

    def call() -> QueueOrder | None:
        order = function()
        if order is None:
            return None
        functions = {n: contained(getattr(order, n)) for n in ("forget_pod", "forget_queue")}
        for name, check in _OF_AN_ORDER.items():
            point = f"{name} of queue_order"
            functions[name] = _checked(plugin, point, contained(getattr(order, name)), check)
            if check is _sort_key:
                functions[name] = _comparable(plugin, point, functions[name])
        return cast("QueueOrder", SimpleNamespace(**functions))

    return call


def _comparable(plugin: str, point: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose sort keys can all be compared: they are alike."""
    kinds: list[tuple[bool, ...]] = []

    def call(*args: Any) -> tuple[int | float | str, ...]:
        key: tuple[int | float | str, ...] = function(*args)
        own = tuple([isinstance(part, str) for part in key])
        if not kinds:
            kinds.append(own)
        if own != kinds[0]:
            shown = ", ".join("a text" if text else "a number" for text in kinds[0])
            raise PluginError(_words(plugin, point, Wrong(key, f"({shown}) as before")))
        return key

    return call


def _signing(plugin: str, function: Callable[[], Any]) -> Callable[[], framework.Signature]:
    """Return a signature whose functions of pods fail in the plugin's name."""

    def guarded(key: Callable[[PodInfo], Any], pod: PodInfo) -> Any:
        try:
            value = contained(key)(pod)
            hash(value)
        except Exception as error:
            text = f"a key of its signature raised {told(error)}"
            raise PluginError(f'plugin "{plugin}": {text}') from error
        return value

    def sign() -> framework.Signature:
        try:
            signature: framework.Signature = function()
        except PluginError:
            raise
        except Exception as error:
            text = f"sign_pod raised {told(error)}"
            raise PluginError(f'plugin "{plugin}": {text}') from error
        keys = tuple(
            replace(key, function=partial(guarded, key.function))
            if isinstance(key, msgspec.Struct)
            else partial(guarded, key)
            for key in signature.keys
        )
        gate = signature.gate
        if gate.rejects is not None:
            gate = replace(gate, rejects=contained(gate.rejects))
        return replace(signature, keys=keys, gate=gate)

    return sign
