"""Replaces the names in objects by pseudonyms, so that the same decisions are made.

Theory of operation. A table says what each text of each struct is: a name, a key or a map of
labels, an image, a UID, or a word that stays. Structs are rewritten by functions made from the
table once for each type. A text that is not in the table cannot be forgotten: making the function
of its struct fails.

The claim of an ephemeral volume is named after pod and volume, and so is its pseudonym. Pools of
devices, the slices of a pool, and the topology domains of pod groups are taken in the order of
their names: their pseudonyms are numbered.

A pseudonym is made of the name and a secret key with HMAC-SHA256, so it is stable for a key and
tells nothing without it. Names, label values and what selectors compare with them share one
mapping: whatever was equal stays equal. Not replaced are the names of Kubernetes' own things,
numbers (Gt and Lt compare them), and what the caller keeps.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import uuid
from base64 import b32encode
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin

import msgspec
from msgspec.structs import replace

from policy_sched import model
from policy_sched.errors import PolicySchedError

MOST_NAMES: Final = 1_000_000
"""Names that are remembered at a time where not all are wanted; some 300 MB."""
LENGTH: Final = 11
"""Characters of a pseudonym after its first letter: 55 bits."""
SEPARATOR: Final = "__"
"""Separates the zones of a volume with several."""

KEPT: Final = frozenset(
    {
        *("", "default", "kube-system", "kube-public", "kube-node-lease", "metadata.name"),
        *("system-node-critical", "system-cluster-critical", "true", "false"),
        *("linux", "windows", "amd64", "arm64", "arm", "386", "ppc64le", "s390x", "riscv64"),
    }
)
"""Names and values that Kubernetes gives."""
KEPT_KEYS: Final = frozenset(
    {"pod-template-hash", "controller-revision-hash", "job-name", "controller-uid"}
)
"""Keys of labels without a prefix that Kubernetes gives."""
_DOMAINS: Final = ("kubernetes.io", "k8s.io", "policysched.dev")
_NUMBER: Final = re.compile(r"[+-]?[0-9]+")


class Pseudonyms:
    """The pseudonyms under one key; ``keep`` are shell patterns of what is not replaced."""

    def __init__(self, key: bytes, keep: Sequence[str] = ()) -> None:
        self._key = key
        self._keep = tuple(keep)
        self._pseudonyms: dict[str, str] = {}
        self._owners: dict[str, str] = {}
        self._given: dict[str, str] = {}
        """Pseudonyms that do not follow from the name alone."""
        self._order = _Order()

    @property
    def names(self) -> dict[str, str]:
        """The replaced names by their pseudonyms, sorted."""
        return {
            pseudonym: name for pseudonym, name in sorted(self._owners.items()) if pseudonym != name
        }

    def name(self, text: str) -> str:
        """Return the pseudonym of a name or of a label's value. Raises PolicySchedError."""
        pseudonym = self._pseudonyms.get(text)
        if pseudonym is None:
            pseudonym = self._pseudonyms[text] = self._new(text)
            other = self._owners.setdefault(pseudonym, text)
            if other != text:
                raise PolicySchedError("two names have the same pseudonym; take another key")
        return pseudonym

    def derive(self, text: str, parts: Sequence[str]) -> None:
        """Note that a name consists of others: its pseudonym consists of theirs, with hyphens."""
        self._give(text, "-".join(map(self.name, parts)))

    def number(self, texts: Iterable[str]) -> None:
        """Give names pseudonyms in the order of the names: each begins with its number.

        A name that has a pseudonym already keeps it.
        """
        for text in sorted(set(texts)):
            if text not in self._pseudonyms and (plain := self._new(text)) != text:
                self._give(text, f"n{self._order.number(text)}-{plain}")

    def forget(self) -> None:
        """Forget the names, but for what cannot be made of them again."""
        self._pseudonyms = dict(self._given)
        self._owners = {pseudonym: text for text, pseudonym in self._given.items()}

    def _give(self, text: str, pseudonym: str) -> None:
        self._given[text] = self._pseudonyms[text] = pseudonym
        self._owners[pseudonym] = text

    def __len__(self) -> int:
        return len(self._pseudonyms)

    def key(self, text: str) -> str:
        """Return the pseudonym of a label's or a taint's key."""
        prefix, slash, _ = text.rpartition("/")
        is_domain = prefix.endswith(_DOMAINS) or prefix.startswith("topology.")
        return text if (slash and is_domain) or text in KEPT_KEYS else self.name(text)

    def image(self, text: str) -> str:
        """Return the pseudonym of an image: its tag stays apart."""
        if text.rfind(":") > text.rfind("/"):
            repository, _, tag = text.rpartition(":")
            return f"{self.name(repository)}:{tag if tag == 'latest' else self.name(tag)}"
        return self.name(text)

    def path(self, text: str) -> str:
        """Return the pseudonym of a disk's identity: its parts and their prefixes stay apart."""
        return "/".join(map(self._part, text.split("/")))

    def uid(self, text: str) -> str:
        """Return the pseudonym of a UID; one that is made of names is made of pseudonyms."""
        if not text:
            return ""
        if "/" in text:
            return "/".join(map(self.name, text.split("/")))
        return str(uuid.UUID(bytes=self._digest(f"uid {text}")[:16]))

    def _part(self, text: str) -> str:
        if text.startswith("vol-"):
            return f"vol-{self.name(text[4:])}"
        return text if text == "aws:" else self.name(text)

    def _new(self, text: str) -> str:
        if text in KEPT or _NUMBER.fullmatch(text) or self._stays(text):
            return text
        if SEPARATOR in text:
            return SEPARATOR.join(map(self.name, text.split(SEPARATOR)))
        letters = b32encode(self._digest(text)).decode().lower()
        return f"n{letters[:LENGTH]}"

    def _stays(self, text: str) -> bool:
        return any(fnmatchcase(text, pattern) for pattern in self._keep)

    def _digest(self, text: str) -> bytes:
        return hmac.digest(self._key, text.encode("utf-8", "surrogatepass"), hashlib.sha256)


Change = Callable[[Any], Any]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NAMES: Final = _words(
    """
    claim_name container_name disk_name generate_name iqn monitors name namespace namespaces
    node_id node_name nominated_node_name path pd_name persistent_volume_name pod_group_name
    priority_class_name provider_id resource_claim_name resource_claim_template_name
    runtime_class_name service_account_name service_name storage_class_name target_portal
    volume_attributes_class_name volume_handle volume_name
    """
)
_POOLS: Final = frozenset({"pool"})
_PATHS: Final = frozenset({"disk_uri", "localhost_profile", "volume_id"})
_KEYS: Final = frozenset(
    {"key", "topology_key", "topology_keys", "match_label_keys", "mismatch_label_keys"}
)
_VALUES: Final = frozenset({"value", "values"})
_UIDS: Final = frozenset({"uid", "share_id"})
_IMAGES: Final = frozenset({"image", "reference", "names"})
_LABELS: Final = frozenset({"labels", "match_labels", "node_selector", "selector"})
_STAYS: Final = _words(
    """
    access_modes action allocatable allocated_resources allocation_mode api_group api_version
    architecture attacher attributes binding_conditions binding_failure_conditions capacity
    completed_indexes completion_mode consumed_capacity container_runtime_version counter_set
    counters declared_features default device device_class_name disruption_mode
    distinct_attribute driver effect expression extended_resource_name finalizers host_ip
    image_id kernel_version kind kubelet_version limits match_attribute max max_unavailable
    maximum_volume_size message min min_available min_resources node_affinity_policy
    node_taints_policy
    operating_system operator os_image overhead parameters phase pod_fixed preemption_policy
    protocol provisioner qos_class reason request request_name requests resource resource_name
    resource_version restart_policy scheduler_name source status step string type valid_values
    version volume_binding_mode volume_mode when_unsatisfiable
    """
)
"""Fields whose texts are words of the API, resources, quantities, or what CEL reads of devices."""
_EXCEPTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "CsiNodeDriver": {"name": "stays"},
    "Device": {"name": "stays"},
    "CounterSet": {"name": "stays"},
    "DeviceRequest": {"name": "stays"},
    "DeviceSubRequest": {"name": "stays"},
    "NamedReference": {"name": "stays"},
    "RbdVolume": {"image": "name", "pool": "name"},
    "ResourcePool": {"name": "pool"},
    "DeviceCapacity": {"value": "stays"},
    "Counter": {"value": "stays"},
    "PodDisruptionBudgetStatus": {"disrupted_pods": "keyed by name"},
    "ObjectMeta": {"annotations": "annotations"},
    "ClaimMeta": {"annotations": "annotations"},
}
"""Fields whose name means something else in other structs."""
_NAMED_IN_ANNOTATIONS: Final = frozenset(
    {
        "resource.kubernetes.io/pod-claim-name",
        "volume.beta.kubernetes.io/storage-class",
        "volume.kubernetes.io/selected-node",
    }
)


def renamed(objects: Sequence[model.ApiObject], pseudonyms: Pseudonyms) -> list[model.ApiObject]:
    """Return reduced objects with pseudonyms. Raises PolicySchedError."""
    return Renaming(pseudonyms)(objects)


class Renaming:
    """Replaces the names in reduced objects, those of one cluster, all at once or as they come.

    What has an order (pools, slices, domains of pod groups) is numbered: the objects of the first
    call in the order of their names, later ones in between. ``forget``: names are not all wanted at
    the end, so those of a long time need no memory.
    """

    def __init__(self, pseudonyms: Pseudonyms, *, forget: bool = False) -> None:
        self._pseudonyms = pseudonyms
        self._forget = forget
        self._pools = _Order()
        self._slices: dict[tuple[str, str], _Order] = {}
        self._keys: set[str] = set()
        """Labels of nodes by which pod groups are placed."""
        self._rename = _Rewriting(pseudonyms, self._pools)

    def __call__(self, objects: Iterable[model.ApiObject]) -> list[model.ApiObject]:
        """Return the objects with pseudonyms. Raises PolicySchedError."""
        objects, pseudonyms = list(objects), self._pseudonyms
        if self._forget and len(pseudonyms) > MOST_NAMES:
            pseudonyms.forget()
        for obj in objects:
            if isinstance(obj, model.Pod):
                for volume in obj.spec.volumes:
                    if volume.ephemeral is not None:
                        name = obj.metadata.name
                        pseudonyms.derive(f"{name}-{volume.name}", (name, volume.name))
        self._number(objects)
        changed_objects: list[model.ApiObject] = []
        for obj in objects:
            changed = self._rename.of(type(obj))(obj)
            name = changed.metadata.name
            if isinstance(obj, model.CsiDriver | model.DeviceClass):
                name = obj.metadata.name
            elif isinstance(obj, model.ResourceSlice):
                rank = self._slices[_pool_of(obj)].number(obj.metadata.name)
                name = f"n{rank}-{name}"
            changed_objects.append(replace(changed, metadata=replace(changed.metadata, name=name)))
        return changed_objects

    def _number(self, objects: Sequence[model.ApiObject]) -> None:
        """Number what has an order."""
        slices = [obj for obj in objects if isinstance(obj, model.ResourceSlice)]
        for listed in sorted(slices, key=lambda listed: listed.metadata.name):
            self._slices.setdefault(_pool_of(listed), _Order()).number(listed.metadata.name)
        for name in sorted(_pools(objects)):
            self._pools.number(name)
        keys = {obj.topology_key for obj in objects if isinstance(obj, model.PodGroup)} - {""}
        self._keys |= keys
        if self._keys:
            nodes = [obj for obj in objects if isinstance(obj, model.Node)]
            labels = (item for node in nodes for item in node.metadata.labels.items())
            self._pseudonyms.number({value for key, value in labels if key in self._keys})


def _pools(objects: Iterable[model.ApiObject]) -> set[str]:
    """Return the names of pools of devices."""
    names: set[str] = set()
    for obj in objects:
        if isinstance(obj, model.ResourceSlice):
            names.add(obj.spec.pool.name)
        elif isinstance(obj, model.ResourceClaim):
            names.update(device.pool for device in obj.status.devices)
            if obj.status.allocation is not None:
                names.update(result.pool for result in obj.status.allocation.devices.results)
    return names


def _pool_of(resource_slice: model.ResourceSlice) -> tuple[str, str]:
    return resource_slice.spec.driver, resource_slice.spec.pool.name


class _Order:
    """Numbers for names, as text: their order is that of the names, whenever those come."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._numbers: dict[str, str] = {}

    def number(self, name: str) -> str:
        """Return the number of a name."""
        number = self._numbers.get(name)
        if number is None:
            place = bisect_left(self._names, name)
            low = self._numbers[self._names[place - 1]] if place else ""
            if place < len(self._names):
                number = between(low, self._numbers[self._names[place]])
            else:
                number = f"{int(low[:DIGITS] or 0) + 1:0{DIGITS}d}"
            self._names.insert(place, name)
            self._numbers[name] = number
        return number


DIGITS: Final = 6
"""Digits of the numbers of the first names; a cluster may have a pool for each of 100,000 nodes."""


def between(low: str, high: str) -> str:
    """Return digits after ``low`` and before ``high``, where a hyphen follows each of them."""
    if not high.startswith(low):
        return f"{low}5"
    digit = high[len(low)]
    if digit > "1":
        return f"{low}{int(digit) // 2}"
    return f"{low}05" if digit == "1" else between(f"{low}0", high)


class _Rewriting:
    """Makes the function that rewrites structs of a type, once for each type."""

    def __init__(self, pseudonyms: Pseudonyms, pools: _Order) -> None:
        self._pseudonyms = pseudonyms
        self._rewrites: dict[type, Change] = {}
        name, key = pseudonyms.name, pseudonyms.key
        self._changes: dict[str, Change] = {
            "name": _each(name),
            "key": _each(key),
            "image": _each(pseudonyms.image),
            "uid": _each(pseudonyms.uid),
            "path": _each(pseudonyms.path),
            "pool": lambda given: f"n{pools.number(given)}-{name(given)}",
            "labels": lambda given: {key(k): name(v) for k, v in given.items()},
            "keyed by name": lambda given: {name(k): v for k, v in given.items()},
            "annotations": self._annotations,
        }

    def of(self, kind: type) -> Change:
        """Return the function for a struct's type. Raises TypeError for an unknown text."""
        rewrite = self._rewrites.get(kind)
        if rewrite is None:
            parts: list[tuple[str, Change]] = []
            # A type may hold itself: its function is known before its parts are.
            rewrite = self._rewrites[kind] = lambda value: _rewritten(value, parts)
            for field in msgspec.structs.fields(kind):
                change = self._field(kind, field.name, field.type)
                if change is not None:
                    parts.append((field.name, change))
        return rewrite

    def _field(self, kind: type, name: str, annotation: Any) -> Change | None:
        inner, texts = _inside(annotation)
        what = _meaning(kind.__name__, name, mapped="dict" in texts)
        if what in self._changes and texts:
            return _optional(self._changes[what])
        if inner:
            change = self.of(inner)
            if "dict" in texts:
                return lambda given: {k: change(v) for k, v in given.items()}
            return _optional(_each(change))
        if texts and what != "stays":
            raise TypeError(f"{kind.__name__}.{name}: is it a name?")
        return None

    def _annotations(self, given: Mapping[str, str]) -> dict[str, str]:
        name = self._pseudonyms.name
        return {k: name(v) if k in _NAMED_IN_ANNOTATIONS else v for k, v in given.items()}


def _meaning(kind: str, name: str, *, mapped: bool) -> str:
    """Return what a field is: an entry of the table of changes, "stays", or "" if unknown."""
    special = _EXCEPTIONS.get(kind, {}).get(name)
    if special is not None:
        return special
    if name in _LABELS and mapped:
        return "labels"
    for names, meaning in (
        (_NAMES | _VALUES, "name"),
        (_KEYS, "key"),
        (_UIDS, "uid"),
        (_IMAGES, "image"),
        (_PATHS, "path"),
        (_POOLS, "pool"),
        (_STAYS, "stays"),
    ):
        if name in names:
            return meaning
    return ""


def _inside(annotation: Any) -> tuple[type | None, frozenset[str]]:
    """Return the struct that a type holds, and whether it holds texts ("str"), in a map ("dict").

    Where a map has structs the word "dict" is there alone.
    """
    origin = get_origin(annotation)
    if origin in (UnionType, Union):
        parts = [_inside(part) for part in get_args(annotation) if part is not NoneType]
        struct = next((inner for inner, _ in parts if inner is not None), None)
        return struct, frozenset[str]().union(*(texts for _, texts in parts))
    if origin is tuple:
        return _inside(get_args(annotation)[0])
    if origin is dict:
        inner, _ = _inside(get_args(annotation)[1])
        return inner, frozenset({"dict"}) if inner else frozenset({"dict", "str"})
    if origin is not None:  # Annotated
        return _inside(get_args(annotation)[0])
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return annotation, frozenset()
    is_text = annotation is str or annotation is Any
    assert is_text or annotation in (int, bool, float, datetime), annotation
    return None, frozenset({"str"}) if is_text else frozenset()


def _rewritten(value: Any, parts: Iterable[tuple[str, Change]]) -> Any:
    changes = {}
    for name, change in parts:
        old = getattr(value, name)
        if old:
            changes[name] = change(old)
    return replace(value, **changes) if changes else value


def _optional(change: Change) -> Change:
    return lambda given: given if given is None else change(given)


def _each(change: Change) -> Change:
    """Return the change of one thing, or of each in a list."""
    return lambda given: tuple(map(change, given)) if isinstance(given, tuple) else change(given)
