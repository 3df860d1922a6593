"""What a new event must contain, as a real API server requires it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from policy_sched.client.apimachinery.errors import ApiError
from policy_sched.embedded.apiserver.registry.event_validation import check_new
from tests.embedded.apiserver.world import serving

EVENT: dict[str, Any] = {
    "metadata": {"name": "e", "namespace": "default"},
    "eventTime": "2026-01-01T00:00:00.000000Z",
    "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
    "reportingController": "example.com/me",
    "reportingInstance": "me-0",
    "action": "Binding",
    "reason": "Scheduled",
    "note": "Bound",
    "type": "Normal",
}
AT = {"lastObservedTime": "2026-01-01T00:00:00.000000Z"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"type": "Bad"}, 'type: Invalid value: "": has invalid value: Bad'),
        ({"eventTime": None}, "eventTime: Required value"),
        ({"action": ""}, "action: Required value"),
        ({"reason": "r" * 129}, 'reason: Invalid value: "": can have at most 128 characters'),
        ({"note": "n" * 1025}, 'message: Invalid value: "": can have at most 1024 characters'),
        ({"reportingInstance": None}, "reportingInstance: Required value"),
        ({"reportingController": "a b"}, 'reportingController: Invalid value: "a b": name part'),
        ({"series": {"count": 1, **AT}}, 'series.count: Invalid value: "": should be at least 2'),
        ({"series": {"count": 2}}, "series.lastObservedTime: Required value"),
        ({"deprecatedCount": 3}, 'count: Invalid value: "": needs to be unset'),
        (
            {"regarding": {"namespace": "other"}},
            'involvedObject.namespace: Invalid value: "other": does not match event.namespace',
        ),
    ],
)
def test_each_rule_has_its_words(change: dict[str, Any], words: str) -> None:
    """As kube-apiserver says them, with the field as its cause."""
    with pytest.raises(ApiError) as caught:
        check_new({**EVENT, **change}, strictly=True)
    assert caught.value.message.startswith(f'Event "e" is invalid: {words}')
    assert caught.value.details["causes"][0]["field"] == words.partition(":")[0]


def test_events_that_are_as_they_should_be_are_taken() -> None:
    """With a series, about something without a namespace, and old ones that say less."""
    check_new(EVENT, strictly=True)
    check_new({**EVENT, "series": {"count": 2, **AT}}, strictly=True)
    check_new({**EVENT, "regarding": {"name": "node"}}, strictly=True)
    old = {"metadata": EVENT["metadata"], "regarding": EVENT["regarding"], "deprecatedCount": 1}
    check_new(old, strictly=False)


def test_all_that_is_wrong_is_told_at_once() -> None:
    """In one message, with a cause for each."""

    async def run() -> None:
        async with serving() as world:
            path = "/apis/events.k8s.io/v1/namespaces/default/events"
            wrong = {**EVENT, "type": "Bad", "action": ""}
            status, answer = await world.ask("POST", path, wrong)
            assert (status, answer["reason"]) == (422, "Invalid")
            assert answer["message"] == (
                'Event "e" is invalid: [action: Required value, type: Invalid value: "":'
                " has invalid value: Bad]"
            )
            assert [cause["field"] for cause in answer["details"]["causes"]] == ["action", "type"]
            old = {"metadata": {"name": "old"}, "involvedObject": {"namespace": "other"}}
            status, answer = await world.ask("POST", "/api/v1/namespaces/default/events", old)
            assert (status, answer["reason"]) == (422, "Invalid")

    asyncio.run(run())
