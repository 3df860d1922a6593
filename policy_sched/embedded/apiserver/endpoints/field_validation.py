"""Fields that a kind does not have: refused (Strict), warned of (Warn), or let pass (Ignore).

kubectl asks for Strict, so that a slip of the pen in a manifest is told. A request that does not
ask is not looked at. The status is never looked at: its writers are programs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from policy_sched.client.apimachinery import cannot_be_handled
from policy_sched.embedded.apiserver.request import Sent
from policy_sched.embedded.schema import LEAVES, MESSAGES, Field, message_of
from policy_sched.manifests import Plain

OPTION: Final = "fieldValidation"
STRICT: Final = "Strict"
WARN: Final = "Warn"
_MODES: Final = ("Ignore", STRICT, WARN)


_ALWAYS: Final = frozenset({"apiVersion", "kind", "status"})
_SCALARS: Final = frozenset({"s", "i", "l", "b", "x"})

Known = dict[str, Field]


def _known(message: str) -> Known:
    found: Known = {}
    for field in MESSAGES[message].values():
        if field.name == "-":
            found |= _known(field.type)
        else:
            found[field.name] = field
    return found


_KNOWN: Final = {message: _known(message) for message in MESSAGES}


def unknown(message: str, data: Plain, path: str = "") -> Iterator[str]:
    """Yield the paths of an object's fields that its message does not have."""
    known = _KNOWN[message]
    for name, value in data.items():
        place = f"{path}.{name}" if path else name
        if not path and name in _ALWAYS:
            continue
        if name not in known:
            yield place
            continue
        field = known[name]
        if field.type in _SCALARS or field.type in LEAVES:
            continue
        yield from _inside(field, value, place)


def _inside(field: Field, value: Any, place: str) -> Iterator[str]:
    if isinstance(value, list):
        for number, item in enumerate(value):
            if isinstance(item, dict):
                yield from unknown(field.type, item, f"{place}[{number}]")
    elif isinstance(value, dict):
        if field.mapped:
            return
        yield from unknown(field.type, value, place)


def check_fields(sent: Sent, data: Plain) -> None:
    """Look at the fields of what is sent, as the request asks for. Raises ApiError if Strict."""
    mode = sent.options.text(OPTION)
    if not mode:
        return
    if mode not in _MODES:
        known = ", ".join(f'"{one}"' for one in _MODES)
        why = f'Unsupported value: "{mode}": supported values: {known}'
        raise sent.options.refused(OPTION, "FieldValueNotSupported", why)
    served = sent.target.served
    message = message_of(served.group_version, served.kind)
    if mode == "Ignore" or not message:
        return
    found = [f'unknown field "{path}"' for path in unknown(message, data)]
    if mode == WARN:
        sent.warnings.extend(found)
    elif found:
        why = f"strict decoding error: {', '.join(found)}"
        raise cannot_be_handled((served.group_version, served.kind), why)
