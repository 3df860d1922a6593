"""What plugins of other packages return: wrong results are errors of theirs."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from policy_sched import framework
from policy_sched.cluster.cache import Cache
from policy_sched.errors import PluginError, PolicySchedError
from policy_sched.framework.runtime.contract import checked
from policy_sched.framework.status import SUCCESS, Code, PendingStatus, Status
from policy_sched.model import ActionType, ClusterEvent, ClusterEventWithHint, EventResource
from policy_sched.model.pod_info import PodInfo
from policy_sched.testing import make_node, make_pod

CACHE = Cache()
for _name in ("n0", "n1", "n2", "n3", "n4"):
    CACHE.add_node(make_node(_name))
NODES = CACHE.nodes
POD = PodInfo.of(make_pod("p"))
TWO = np.array([1, 3])
ARGS: dict[str, tuple[Any, ...]] = {
    "filter": (None, POD, None, NODES),
    "score": (None, POD, None),
    "normalize_score": (None, POD, np.zeros(5, np.int64)),
    "normalize_placement_score": (None, [POD], np.zeros(2, np.int64)),
}
EVENT = ClusterEvent(EventResource.NODE, ActionType.ADD)
BAD_STATUS = Status(Code.UNSCHEDULABLE, ["no"])  # type: ignore[arg-type]  # the mistake is meant


def run(hook: str, returned: object, *args: object, **others: Callable[..., Any]) -> Any:
    """Call a checked hook that returns a value."""
    functions = {hook: lambda *_args: returned, **others}
    return checked("X", functions, NODES)[hook](*(args or ARGS.get(hook, ())))


def filter_result(codes: object) -> framework.FilterResult:
    """Return a result that rejects with one status."""
    return framework.FilterResult.of(codes, Status(Code.UNSCHEDULABLE))  # type: ignore[arg-type]  # see above


@pytest.mark.parametrize(
    ("hook", "returned", "words"),
    [
        (
            "score",
            [1, 2, 3],
            "score returned a list of 3 elements; an int64 array of shape (5,) is expected",
        ),
        ("score", None, "score returned None; an int64 array of shape (5,) is expected"),
        (
            "score",
            np.zeros(3, np.int64),
            "score returned an int64 array of shape (3,); an int64 array of shape (5,) is expected",
        ),
        (
            "score",
            np.zeros(5),
            (
                "score returned a float64 array of shape (5,); "
                "an int64 array of shape (5,) is expected"
            ),
        ),
        (
            "normalize_score",
            np.zeros(5),
            (
                "normalize_score returned a float64 array of shape (5,); "
                "an int64 array of shape (5,) is expected"
            ),
        ),
        (
            "normalize_placement_score",
            np.zeros(1, np.int64),
            (
                "normalize_placement_score returned an int64 array of shape (1,); "
                "an int64 array of shape (2,) is expected"
            ),
        ),
        ("filter", None, "filter returned None; a FilterResult is expected"),
        (
            "filter",
            filter_result(np.zeros(2, np.int16)),
            (
                "filter returned a FilterResult with codes that are an int16 array of shape (2,); "
                "an int16 array of shape (5,) is expected"
            ),
        ),
        (
            "filter",
            filter_result([0, 1]),
            (
                "filter returned a FilterResult with codes that are a list of 2 elements; "
                "an int16 array of shape (5,) is expected"
            ),
        ),
        ("pre_filter", SUCCESS, "pre_filter returned a Status; a PreFilterResult is expected"),
        (
            "pre_filter",
            framework.PreFilterResult(node_names=["n1"]),  # type: ignore[arg-type]  # see above
            (
                "pre_filter returned a PreFilterResult with node_names that are "
                "a list of 1 element; a set of names is expected"
            ),
        ),
        (
            "post_filter",
            framework.PostFilterResult(SUCCESS, "n1", ("p",)),  # type: ignore[arg-type]  # see above
            (
                "post_filter returned a PostFilterResult with victims that are "
                "a tuple of 1 element; a tuple of PodInfo is expected"
            ),
        ),
        (
            "permit",
            framework.PermitResult(Status(Code.WAIT), "1s"),  # type: ignore[arg-type]  # see above
            (
                "permit returned a PermitResult with a timeout that is a text; "
                "a number of seconds is expected"
            ),
        ),
        ("bind", True, "bind returned True; a Status or a PendingStatus is expected"),
        (
            "reserve",
            BAD_STATUS,
            (
                "reserve returned a status with reasons that are a list of 1 element; "
                "a tuple of texts is expected"
            ),
        ),
        (
            "reserve",
            Status(Code.UNSCHEDULABLE, ("file \udc80",)),
            (
                "reserve returned a status with reasons that are a tuple of 1 element; "
                "a tuple of texts in Unicode of at most 32,768 characters together is expected"
            ),
        ),
        (
            "reserve",
            Status(Code.UNSCHEDULABLE, ("x" * 20_000, "y" * 20_000)),
            (
                "reserve returned a status with reasons that are a tuple of 2 elements; "
                "a tuple of texts in Unicode of at most 32,768 characters together is expected"
            ),
        ),
        (
            "post_filter",
            framework.PostFilterResult(SUCCESS, "n\udc80"),
            (
                "post_filter returned a PostFilterResult with a nominated_node that is a text; "
                "a name is expected"
            ),
        ),
        (
            "score",
            np.ma.masked_array(np.zeros(5, np.int64), mask=True),
            (
                "score returned a masked int64 array of shape (5,); "
                "an int64 array of shape (5,) is expected"
            ),
        ),
        (
            "filter",
            framework.FilterResult(np.zeros(5, np.int16), lambda *_args: [], fatal=7),  # type: ignore[arg-type]  # see above
            (
                "filter returned a FilterResult with a fatal that is 7; "
                "a frozenset of codes is expected"
            ),
        ),
        (
            "events_to_register",
            (ClusterEventWithHint(EVENT, every="1 m"),),  # type: ignore[arg-type]  # see above
            (
                "events_to_register returned a ClusterEventWithHint with an every that is a text; "
                "a number of nanoseconds is expected"
            ),
        ),
        (
            "events_to_register",
            (ClusterEventWithHint("node"),),  # type: ignore[arg-type]  # see above
            (
                "events_to_register returned a ClusterEventWithHint with an event that is a text; "
                "a ClusterEvent is expected"
            ),
        ),
        ("evictions", 60, "evictions returned 60; Evictions or None is expected"),
        (
            "evictions",
            framework.Evictions(0, 1, lambda _pod, _node: None),
            (
                "evictions returned Evictions with an every that is 0; "
                "a number of nanoseconds above 0 is expected"
            ),
        ),
        ("placement_score", 1.5, "placement_score returned 1.5; an int is expected"),
        (
            "placement_generate",
            framework.Placements({"a": [0]}),  # type: ignore[dict-item]  # see above
            (
                "placement_generate returned Placements with rows that are a list of 1 element; "
                "an array of rows is expected"
            ),
        ),
        (
            "events_to_register",
            [],
            (
                "events_to_register returned a list of 0 elements; "
                "a tuple of ClusterEventWithHint is expected"
            ),
        ),
        (
            "queue_sort",
            (float("nan"),),
            "queue_sort returned a tuple of 1 element; a tuple of numbers and texts is expected",
        ),
        ("sign_pod", None, "sign_pod returned None; a Signature is expected"),
        *(
            (hook, None, f"{hook} returned None; a Status is expected")
            for hook in ("pre_enqueue", "add_pod", "remove_pod", "pre_score", "reserve")
        ),
    ],
)
def test_a_wrong_result_names_plugin_and_hook(hook: str, returned: object, words: str) -> None:
    """Lists, None, short arrays ended the scheduler: "a mistake of policy-sched itself"."""
    with pytest.raises(PluginError) as error:
        run(hook, returned)
    assert str(error.value) == f'plugin "X": {words}'


def test_right_results_are_returned_as_they_are() -> None:
    """Of all rows and of some; float64 where a plugin normalises."""
    scores, few = np.arange(5), np.arange(2)
    assert run("score", scores) is scores
    assert run("score", few, None, POD, TWO) is few
    raw = np.zeros(5)
    assert run("score", raw, normalize_score=lambda *_args: scores) is raw
    assert run("filter", framework.FilterResult(None, lambda *_args: [])).codes is None
    assert run("pre_filter", framework.PreFilterResult(node_names=frozenset({"a"}))).node_names == {
        "a"
    }
    assert run("pre_bind", pending := PendingStatus()) is pending
    assert run("unreserve", 7) == 7  # nobody reads it
    found = run("filter", filter_result(np.array([1, 0], np.int16)), None, POD, TWO, NODES)
    assert found.describe(TWO[:1], found.codes[:1]) == [Status(Code.UNSCHEDULABLE)]


def test_a_filter_that_cannot_explain_its_codes() -> None:
    """A code without a status ended the scheduler when the condition was written."""
    codes = np.full(5, 3, np.int16)
    rows = np.arange(5)
    verdict = run("filter", filter_result(codes))
    with pytest.raises(PluginError, match='plugin "X": the describe of filter raised IndexError'):
        verdict.describe(rows, codes)
    for found, words in (
        ([], "a list of 0 elements; one Status for each of 5 rows is expected"),
        (["no"] * 5, "a text; a Status is expected"),
        ([BAD_STATUS] * 5, "a status with reasons that are a list"),
    ):
        verdict = run(
            "filter", framework.FilterResult(codes, lambda _rows, _codes, found=found: found)
        )  # type: ignore[misc]  # the default is no argument
        with pytest.raises(PluginError) as error:
            verdict.describe(rows, codes)
        assert f"the describe of filter returned {words}" in str(error.value)


def test_keys_of_a_queue_are_alike() -> None:
    """Numbers beside texts cannot be compared; they ended the scheduler at the second pod."""
    keys: list[object] = [(1, "a"), (2.5, "b"), ("c", 3)]
    sort = checked("X", {"queue_sort": lambda _queued: keys.pop(0)}, NODES)["queue_sort"]
    assert [sort(None), sort(None)] == [(1, "a"), (2.5, "b")]
    with pytest.raises(PluginError, match=r'plugin "X": .*\(a number, a text\) as before'):
        sort(None)


class Turns:
    """An order of queues whose functions return what they are told."""

    def __init__(self, returned: object) -> None:
        self.returned = returned

    def answer(self, *_args: object) -> Any:
        """Return it."""
        return self.returned

    queue_of = queue_key = strict = take_stale_pods = take_stale_queues = answer
    forget_pod = forget_queue = answer


@pytest.mark.parametrize(
    ("function", "returned", "words"),
    [
        ("queue_of", 3, "returned 3; a text is expected"),
        (
            "queue_key",
            [3],
            "returned a list of 1 element; a tuple of numbers and texts is expected",
        ),
        ("strict", None, "returned None; True or False is expected"),
        ("take_stale_pods", "uid", "returned a text; a list of texts is expected"),
        ("take_stale_queues", [1], "returned a list of 1 element; a list of texts is expected"),
    ],
)
def test_an_order_of_queues_is_checked(function: str, returned: object, words: str) -> None:
    """What it returned was compared with others, far from the plugin, and ended the scheduler."""
    order = run("queue_order", Turns(returned))
    with pytest.raises(PluginError, match=f'plugin "X": {function} of queue_order {words}'):
        getattr(order, function)("a", None)


def test_keys_of_queues_are_alike() -> None:
    """As those of pods are."""
    turns = Turns((1,))
    order = run("queue_order", turns)
    assert order.queue_key("a", None) == (1,)
    turns.returned = ("b",)
    with pytest.raises(PluginError, match=r"queue_key of queue_order .*\(a number\) as before"):
        order.queue_key("b", None)


def test_an_order_of_queues_has_all_functions() -> None:
    """None is one queue for all pods."""
    assert run("queue_order", None) is None
    with pytest.raises(PluginError, match="queue_order returned 3; a QueueOrder or None is expec"):
        run("queue_order", 3)


def test_permit_that_runs_again_is_checked() -> None:
    """It is called when other pods have moved, far from the pod that it is about."""
    result = run("permit", framework.PermitResult(Status(Code.WAIT), 1, lambda: None))  # type: ignore[arg-type, return-value]  # see above
    with pytest.raises(PluginError, match='plugin "X": permit, run again, returned None'):
        result.again()


def key_error(pod: PodInfo) -> object:
    """Fail as a function of a pod may."""
    raise KeyError(pod.name)


@pytest.mark.parametrize("key", [key_error, lambda _pod: [], framework.PodKey(key_error, "name")])
def test_keys_of_a_signature_fail_in_the_plugins_name(key: Callable[[PodInfo], Any]) -> None:
    """They run before any hook; a list cannot be a key either."""
    signature = run("sign_pod", framework.Signature(frozenset(), framework.Scope.NODE, keys=(key,)))
    with pytest.raises(PluginError, match='plugin "X": a key of its signature raised'):
        signature.keys[0](POD)


@pytest.mark.parametrize("path", [("nope",), ("name", "x"), "requests", ()])
def test_fields_of_a_signature_exist(path: Any) -> None:
    """A misspelt field was found by the first pod, as an error of the scheduler."""
    with pytest.raises(PluginError, match="a path into PodInfo"):
        run("sign_pod", framework.Signature(frozenset({path}), framework.Scope.NODE))
    good = frozenset({("requests",), ("labels", "app"), ("namespaceObject", "labels")})
    assert run("sign_pod", framework.Signature(good, framework.Scope.NODE)).fields == good


def test_what_sign_pod_raises_is_the_plugins() -> None:
    """It is called when a profile is built."""

    def fail() -> framework.Signature:
        raise ValueError("no")

    with pytest.raises(PluginError, match='plugin "X": sign_pod raised ValueError: no'):
        checked("X", {"sign_pod": fail}, NODES)["sign_pod"]()


class Panic(BaseException):
    """What libraries in Rust raise; it is no Exception."""


class MuteError(Exception):
    """Its text cannot be made."""

    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("raised", "words"),
    [
        (Panic("index out of bounds"), "Panic: index out of bounds"),
        (SystemExit(3), "SystemExit: 3"),
        (GeneratorExit(), "GeneratorExit"),
        (asyncio.CancelledError(), "CancelledError"),
        (BaseExceptionGroup("two", [Panic()]), "BaseExceptionGroup: two (1 sub-exception)"),
        (MuteError(), "MuteError"),
        (ValueError("file \udc80"), "ValueError: file \\udc80"),
        (ValueError("x" * 40_000), f"ValueError: {'x' * (32_768 - 12)}"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_whatever_a_plugin_raises_ends_no_more_than_the_attempt(
    raised: BaseException, words: str
) -> None:
    """A panic in Rust or sys.exit in a plugin ended the scheduler, and so did a text of no Unicode.

    Anything with a text that can be written to the pod's condition passes as it is.
    """

    def fail(*_args: object) -> Any:
        raise raised

    again = framework.PermitResult(Status(Code.WAIT), 1, fail)
    made_room = framework.PostFilterResult(SUCCESS, "n1", (), fail)
    signed = run("sign_pod", framework.Signature(frozenset(), framework.Scope.NODE, keys=(fail,)))
    filtered = run("filter", framework.FilterResult(np.zeros(5, np.int16), fail))
    for function in (
        checked("X", {"reserve": fail}, NODES)["reserve"],
        checked("X", {"unreserve": fail}, NODES)["unreserve"],
        run("post_filter", made_room).then,
        run("permit", again).again,
        run("pre_bind", PendingStatus(fail)).poll,
        run("events_to_register", (ClusterEventWithHint(EVENT, fail),))[0].hint,
    ):
        with pytest.raises(Exception, match=f"^{re.escape(words)}$") as error:
            function()
        assert error.value.__cause__ is raised
    for function in (
        partial(filtered.describe, np.arange(5), np.ones(5, np.int16)),
        partial(signed.keys[0], POD),
        checked("X", {"sign_pod": fail}, NODES)["sign_pod"],
        partial(run("evictions", framework.Evictions(1, 1, fail)).judge, POD, "n1"),
    ):
        with pytest.raises(PolicySchedError, match=f'plugin "X": .* raised {re.escape(words)}'):
            function()


def test_an_interruption_of_the_user_passes() -> None:
    """Ctrl-C may fall into a plugin, and ends the command."""

    def fail() -> Status:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        checked("X", {"reserve": fail}, NODES)["reserve"]()


def test_functions_of_an_event_that_fail_hold_nothing_up(caplog: pytest.LogCaptureFixture) -> None:
    """The queue called them without a net: a moment of None, a list as a key."""

    def fail(_of: object) -> Any:
        raise KeyError("colour")

    for moment, alike in ((fail, fail), (lambda _of: "soon", lambda _of: [])):
        (event,) = run(
            "events_to_register", (ClusterEventWithHint(EVENT, moment=moment, alike=alike),)
        )
        assert event.moment(None) == 0
        assert event.alike(POD) == POD.uid
    assert "plugin \"X\": the moment of an event failed: KeyError: 'colour'" in caplog.messages
    assert 'plugin "X": the moment of an event failed: it returned a text' in caplog.messages
    right = ClusterEventWithHint(EVENT, moment=lambda _of: 5, alike=lambda pod: pod.name)
    (event,) = run("events_to_register", (right,))
    assert (event.moment(None), event.alike(POD)) == (5, "p")


def test_a_pod_that_a_plugin_cannot_judge_stays() -> None:
    """What it returned was sorted with others, and ended the scheduler."""
    victims: list[object] = [framework.PodToEvict(POD, (1,)), None]
    victims += [7, framework.PodToEvict(POD, ("a",)), framework.PodToEvict("p", (1,))]  # type: ignore[arg-type]  # the mistake is meant
    judge = run("evictions", framework.Evictions(1, 1, lambda _pod, _node: victims.pop(0))).judge  # type: ignore[arg-type, return-value]  # see above
    assert judge(POD, "n1") == framework.PodToEvict(POD, (1,))
    assert judge(POD, "n1") is None
    for words in (
        "returned 7; a PodToEvict or None is expected",
        r"returned a tuple of 1 element; \(a number\) as before is expected",
        "returned a PodToEvict with a pod that is a text; a PodInfo is expected",
    ):
        with pytest.raises(PluginError, match=f'plugin "X": judge of evictions {words}'):
            judge(POD, "n1")
