"""How a stored object looks on the wire: almost always as it is stored, but for older versions.

The API serves events under two groups; the store keeps those of events.k8s.io, and the core
group's are the same objects with other names of their fields. Autoscalers have two versions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from policy_sched.client.apimachinery import Stored, bad_request, encoded, parsed
from policy_sched.embedded.schema import CustomVersion
from policy_sched.manifests import Plain

_PARTS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Form:
    """The form of one resource.

    ``renamed``: fields of the stored object by their name here, which core events alone have.
    """

    def __init__(
        self,
        api_version: str,
        kind: str,
        stored_version: str,
        renamed: Mapping[str, str],
    ) -> None:
        self.api_version = api_version
        self.kind = kind
        self._stored_version = stored_version
        self._stored = dict(renamed)
        self._shown = {stored: shown for shown, stored in renamed.items()}
        head = encoded({"kind": kind, "apiVersion": api_version})
        self._head = head[:-1] + b","
        self._plain = not renamed and api_version == stored_version

    def raw(self, stored: Stored) -> bytes:
        """Return the JSON of an object."""
        return stored.raw if self._plain else encoded(self.data(stored))

    def item(self, stored: Stored) -> bytes:
        """Return the JSON of an object in a list, where its kind is left out."""
        if self._plain and stored.raw.startswith(self._head):
            return b"{" + stored.raw[len(self._head) :]
        parts = _PARTS.decode(self.raw(stored))
        return encoded({k: v for k, v in parts.items() if k not in ("kind", "apiVersion")})

    def data(self, stored: Stored) -> Plain:
        """Return an object as plain data."""
        data = stored.data
        if self._plain:
            return data
        shown = {self._shown.get(key, key): value for key, value in data.items()}
        return shown_event({**shown, "apiVersion": self.api_version})

    def back(self, data: Plain) -> Plain:
        """Return what a client sent as it is to be stored."""
        if self._plain:
            return data
        kept = {self._stored.get(key, key): value for key, value in data.items()}
        return {**kept, "apiVersion": self._stored_version}

    def field(self, path: str) -> str:
        """Return where a field of a selector is stored."""
        first, dot, rest = path.partition(".")
        return self._stored.get(first, first) + dot + rest


class CustomForm(Form):
    """The form of one version of a custom kind."""

    def __init__(self, version: CustomVersion) -> None:
        kind = version.kind
        api_version = version.api_version
        super().__init__(api_version, kind.names["kind"], kind.storage.api_version, {})
        self._kind = kind

    def _current(self, stored: Stored) -> bool:
        """Whether an object is kept as it is shown."""
        return self._plain and stored.version > self._kind.since

    def raw(self, stored: Stored) -> bytes:
        """Return the JSON of an object."""
        return stored.raw if self._current(stored) else encoded(self.data(stored))

    def item(self, stored: Stored) -> bytes:
        """Return the JSON of an object in a list, which has its kind, too."""
        return self.raw(stored)

    def data(self, stored: Stored) -> Plain:
        """Return an object as plain data."""
        return stored.data if self._current(stored) else self._kind.shown(stored, self.api_version)

    def back(self, data: Plain) -> Plain:
        """Return what a client sent: the store knows all versions."""
        return data


CORE_EVENT: Final[dict[str, str]] = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
"""The fields of a core event by their names in events.k8s.io."""


def shown_event(data: Plain) -> Plain:
    """Return a core event with count and times where only the series of the newer form has them.

    Clients that read core events print these.
    """
    series: Any = data.get("series") or {}
    data["count"] = data.get("count") or series.get("count") or 1
    data["firstTimestamp"] = data.get("firstTimestamp") or data.get("eventTime")
    last = series.get("lastObservedTime") or data.get("eventTime")
    data["lastTimestamp"] = data.get("lastTimestamp") or last
    if not (data.get("source") or {}).get("component"):
        data["source"] = {"component": data.get("reportingComponent", "")}
    return data


def check_event(data: Plain) -> None:
    """Raise ApiError if a stored event's parts cannot be read by what counts events."""
    series = data.get("series")
    for field, value in (("regarding", data.get("regarding")), ("series", series)):
        if value is not None and not isinstance(value, dict):
            raise bad_request(f"Event cannot be handled as a Event: json: cannot unmarshal {field}")
    count = (series or {}).get("count", 1)
    if not isinstance(count, int) or not 0 <= count < 2**31:
        raise bad_request("Event cannot be handled as a Event: json: cannot unmarshal series.count")
    for time in (data.get("eventTime"), (series or {}).get("lastObservedTime")):
        try:
            if time is not None:
                parsed(time)
        except (ValueError, TypeError, OverflowError):
            raise bad_request(f"parsing time {time!r}: cannot parse as RFC 3339") from None
