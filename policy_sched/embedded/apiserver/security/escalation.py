"""Escalation checks: a user may only grant permissions that it holds.

Users that may ``escalate`` roles, or ``bind`` a role, are exempt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Final

from policy_sched.client.apimachinery import Stored, encoded, resource
from policy_sched.embedded.admission import forbidden, invalid, not_found
from policy_sched.embedded.apiserver.registry import quoted, too_large
from policy_sched.embedded.apiserver.request import RequestTarget, UserInfo
from policy_sched.embedded.apiserver.security.rbac import (
    ALL,
    CLUSTER_ROLE,
    GROUP,
    KINDS,
    ROLE,
    Attributes,
    PolicyRule,
    Rbac,
    Role,
    RoleBinding,
    RoleRef,
    completed,
    covers_path,
    refusal,
)
from policy_sched.embedded.store import ObjectStore
from policy_sched.manifests import Plain
from policy_sched.source import yaml_values

PARTS: Final = 10_000
"""Combinations of a verb and a resource in rules that are compared with those of a user."""
_PARTS: Final = (
    ("APIGroups", "api_groups"), ("Resources", "resources"),
    ("NonResourceURLs", "non_resource_urls"), ("ResourceNames", "resource_names"),
    ("Verbs", "verbs"),
)  # fmt: skip


class Granting:
    """Checks what users write of roles and bindings. ``rbac`` is None if everything is allowed."""

    def __init__(self, rbac: Rbac | None) -> None:
        self._rbac = rbac

    def check(self, user: UserInfo, target: RequestTarget, data: Plain, old: Stored | None) -> None:
        """Complete a role or binding that is to be stored; other objects stay as they are.

        Raises ApiError if it is not valid, or grants more than the user may do.
        """
        resource = target.served.resource
        if resource.key not in KINDS:
            return
        read = completed(resource, data)
        if isinstance(read, RoleBinding) and old is not None:
            before = old.data.get("roleRef")
            if before != data["roleRef"]:
                shown = encoded(data["roleRef"]).decode()
                why = f"Invalid value: {shown}: cannot change roleRef"
                raise invalid(resource, target.name, "roleRef", "FieldValueInvalid", why)
        if self._rbac is None or user.master:
            return
        if isinstance(read, Role):
            self._check_role(self._rbac, user, target, data, read)
        else:
            self._check_binding(self._rbac, user, target, data, read.role_ref)

    def check_create(self, user: UserInfo, target: RequestTarget) -> None:
        """Raise ApiError if a user may not create what it may patch or update."""
        if self._rbac is None or user.master:
            return
        served = target.served
        name_and_namespace = {"namespace": target.namespace, "name": target.name}
        attributes = Attributes("create", "", served.group, served.name, **name_and_namespace)
        decision = self._rbac.decide(user, attributes)
        if not decision.allowed:
            raise refusal(user, attributes, decision.reason)

    def _check_role(
        self, rbac: Rbac, user: UserInfo, target: RequestTarget, data: Plain, role: Role
    ) -> None:
        resource, name = target.served.resource, data["metadata"].get("name") or ""
        attributes = Attributes("escalate", "", GROUP, resource.plural, "", target.namespace, name)
        if rbac.decide(user, attributes).allowed:
            return
        if role.aggregation_rule is not None:
            everything = (PolicyRule(verbs=(ALL,), api_groups=(ALL,), resources=(ALL,)),
                          PolicyRule(verbs=(ALL,), non_resource_urls=(ALL,)))  # fmt: skip
            if missing := _missing(everything, tuple(rbac.rules(user, ""))):
                what = "must have cluster-admin privileges to use an aggregationRule"
                raise forbidden(resource, name, f"{what}: {_words(user, missing)}")
        held = tuple(rbac.rules(user, target.namespace))
        if missing := _missing(role.rules or (), held):
            raise forbidden(resource, name, _words(user, missing))

    def _check_binding(
        self, rbac: Rbac, user: UserInfo, target: RequestTarget, data: Plain, ref: RoleRef
    ) -> None:
        role, name = target.served.resource, data["metadata"].get("name") or ""
        key = CLUSTER_ROLE if ref.kind == "ClusterRole" else ROLE
        roles = resource(key)
        attributes = Attributes("bind", "", GROUP, roles.plural, "", target.namespace, ref.name)
        if rbac.decide(user, attributes).allowed:
            return
        rules = rbac.role_rules(ref.kind, target.namespace, ref.name)
        if rules is None:
            raise not_found(roles, ref.name)
        if missing := _missing(rules, tuple(rbac.rules(user, target.namespace))):
            raise forbidden(role, name, _words(user, missing))


def _missing(wanted: Iterable[PolicyRule], held: tuple[PolicyRule, ...]) -> list[PolicyRule]:
    """Return the parts of rules that no rule held covers, each of one verb on one thing."""
    if sum(map(_count, wanted := list(wanted))) > PARTS:
        raise too_large(f"the rules have more than {PARTS} combinations of verb and resource")
    parts = (part for rule in wanted for part in _parts(rule))
    return [part for part in parts if not any(_covers(granted, part) for granted in held)]


def _count(rule: PolicyRule) -> int:
    """Return how many parts a rule has."""
    things = len(rule.api_groups or ()) * len(rule.resources or ())
    things *= len(rule.resource_names or ("",))
    return len(rule.verbs or ()) * (len(rule.non_resource_urls or ()) + things)


def _parts(rule: PolicyRule) -> Iterator[PolicyRule]:
    for verb in rule.verbs or ():
        for url in rule.non_resource_urls or ():
            yield PolicyRule(verbs=(verb,), non_resource_urls=(url,))
        for group, plural in product(rule.api_groups or (), rule.resources or ()):
            for name in rule.resource_names or ("",):
                names = (name,) if name else ()
                yield PolicyRule(
                    verbs=(verb,), api_groups=(group,), resources=(plural,), resource_names=names
                )


def _covers(held: PolicyRule, part: PolicyRule) -> bool:
    """Return whether a rule covers one verb on one thing."""
    if not _all_in(part.verbs, held.verbs):
        return False
    if part.non_resource_urls:
        urls = held.non_resource_urls or ()
        return any(covers_path(url, part.non_resource_urls[0]) for url in urls)
    wanted = (part.resources or ("",))[0]
    below = f"{ALL}/{wanted.partition('/')[2]}" if "/" in wanted else wanted
    resources = held.resources or ()
    return (
        _all_in(part.api_groups, held.api_groups)
        and (wanted in resources or ALL in resources or below in resources)
        and (not held.resource_names or _named(part, held))
    )


def _named(part: PolicyRule, held: PolicyRule) -> bool:
    names = part.resource_names or ()
    return bool(names) and set(names) <= set(held.resource_names or ())


def _all_in(wanted: tuple[str, ...] | None, held: tuple[str, ...] | None) -> bool:
    return ALL in (held or ()) or set(wanted or ()) <= set(held or ())


def _words(user: UserInfo, missing: list[PolicyRule]) -> str:
    groups = _go(user.groups)
    lines = "\n".join(sorted({_compact(rule) for rule in missing}))
    described = f"user {quoted(user.name)} (groups={groups})"
    return f"{described} is attempting to grant RBAC permissions not currently held:\n{lines}"


def _compact(rule: PolicyRule) -> str:
    parts = [(shown, getattr(rule, field)) for shown, field in _PARTS]
    return "{" + ", ".join(f"{shown}:{_go(words)}" for shown, words in parts if words) + "}"


def _go(words: Iterable[str]) -> str:
    return "[" + " ".join(map(quoted, words)) + "]"


_UPDATED: Final = "rbac.authorization.kubernetes.io/autoupdate"
_LABEL: Final = {"kubernetes.io/bootstrapping": "rbac-defaults"}


def bootstrap_objects() -> Iterator[Plain]:
    """Yield the roles, then the bindings."""
    text = Path(__file__).with_name("bootstrap_policy.yaml").read_text(encoding="utf-8")
    for data in yaml_values(text):
        meta = data["metadata"]
        labels = {**_LABEL, **meta.get("labels", {})}
        meta = {**meta, "annotations": {_UPDATED: "true"}, "labels": labels}
        yield {"apiVersion": f"{GROUP}/v1", **data, "metadata": meta}


def install(store: ObjectStore) -> None:
    """Create these objects in a store, or give them these rules and subjects."""
    for data in bootstrap_objects():
        meta = data["metadata"]
        key = (data["apiVersion"], data["kind"])
        stored = store.find(key, meta.get("namespace", ""), meta["name"])
        if stored is None:
            store.create(data)
            continue
        if stored.typed.metadata.annotations.get(_UPDATED) == "false":
            continue
        wanted = {field: data[field] for field in ("rules", "subjects") if data.get(field)}
        present = stored.data
        if any(present.get(field) != value for field, value in wanted.items()):
            store.revise(stored, {**present, **wanted})
