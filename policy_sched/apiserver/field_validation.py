"""Fields that a kind does not have: refused (Strict), warned of (Warn), or let pass (Ignore).

kubectl asks for Strict, so that a slip of the pen in a manifest is told. A request that does not
ask is not looked at. Kinds are known by the tables of their messages; what those do not read is
named here. The status is never looked at: its writers are programs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from policy_sched.apiserver.calls import Sent
from policy_sched.apiserver.protobuf.messages import LEAVES, MESSAGES, Field, message_of
from policy_sched.client.embedded.api_error import bad_request
from policy_sched.model.expansion import Plain

OPTION: Final = "fieldValidation"
STRICT: Final = "Strict"
WARN: Final = "Warn"
_MODES: Final = ("Ignore", STRICT, WARN)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_OTHERS: Final = {
    "Container": _words("restartPolicyRules"),
    "EnvVarSource": _words("fileKeyRef"),
    "SecurityContext": _words("windowsOptions"),
    "PodSecurityContext": _words("windowsOptions"),
    "PodSpec": _words("ephemeralContainers schedulingGroup workloadRef"),
    "PodVolumeSource": _words(
        "azureDisk azureFile cephfs cinder csi downwardAPI ephemeral fc flexVolume flocker gitRepo"
        " glusterfs image iscsi photonPersistentDisk portworxVolume projected quobyte rbd scaleIO"
        " storageos vsphereVolume"
    ),
    "VolumeSource": _words(
        "azureDisk azureFile cephfs cinder fc flexVolume flocker glusterfs iscsi"
        " photonPersistentDisk portworxVolume quobyte rbd scaleIO storageos vsphereVolume"
    ),
    "JobSpec": _words("podFailurePolicy successPolicy"),
    "Device": _words("nodeAllocatableResourceMappings"),
    "DeviceAttribute": _words("bools ints strings versions"),
    "ServiceSpec": _words("sessionAffinityConfig"),
    "NodeSpec": _words("configSource"),
    "CSIDriverSpec": _words("serviceAccountTokenInSecrets preventPodSchedulingIfMissing"),
}
"""Fields that are known, and not read; what is in them is not looked at."""
_ALWAYS: Final = frozenset({"apiVersion", "kind", "status"})
_SCALARS: Final = frozenset({"s", "i", "b", "x"})

Known = dict[str, Field | None]


def _known(message: str) -> Known:
    found: Known = dict.fromkeys(_OTHERS.get(message, ()))
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
        if field is None or field.type in _SCALARS or field.type in LEAVES:
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
        kind = served.kind
        what = f'{kind} in version "{served.group_version}" cannot be handled as a {kind}'
        raise bad_request(f"{what}: strict decoding error: {', '.join(found)}")
