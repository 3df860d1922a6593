"""RBAC: which rules apply to a user, and whether they allow what it asks for.

Theory of operation: roles and bindings are read from the store and kept as they were decoded for
as long as none of them changes. A question is answered by going through the bindings that name
the user, those of the cluster first; rules only ever allow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from policy_sched.client.apimachinery import Stored
from policy_sched.embedded.apiserver.registry import quoted
from policy_sched.embedded.apiserver.request import ACCOUNT_PREFIX, User
from policy_sched.embedded.apiserver.security.attributes import Attributes
from policy_sched.embedded.apiserver.security.role_objects import (
    ALL,
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    GROUP,
    KINDS,
    ROLE,
    ROLE_BINDING,
    Binding,
    Rule,
    Subject,
    binding_of,
    role_of,
)
from policy_sched.embedded.store import ObjectStore

_KNOWN_USERS: Final = 1000
"""Users whose rules are kept; then they are worked out anew."""


class Decision(NamedTuple):
    """Whether something is allowed, and why."""

    allowed: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Granted:
    """Rules of one binding that apply to a user; ``why`` names binding, role and subject."""

    namespace: str
    rules: tuple[Rule, ...]
    why: str


def allows(rule: Rule, asked: Attributes) -> bool:
    """Tell whether a rule allows what is asked for."""
    if not _has(rule.verbs, asked.verb):
        return False
    if not asked.resource:
        return any(_covers_path(url, asked.path) for url in rule.non_resource_urls or ())
    names = rule.resource_names
    return (
        _has(rule.api_groups, asked.group)
        and any(_covers_resource(one, asked) for one in rule.resources or ())
        and (not names or asked.name in names)
    )


def _has(words: tuple[str, ...] | None, word: str) -> bool:
    return words is not None and (word in words or ALL in words)


def _covers_resource(one: str, asked: Attributes) -> bool:
    if one in (ALL, asked.combined):
        return True
    return bool(asked.subresource) and one == f"{ALL}/{asked.subresource}"


def _covers_path(url: str, path: str) -> bool:
    if url in (ALL, path):
        return True
    return url.endswith(ALL) and path.startswith(url.rstrip(ALL))


class Rbac:
    """Answers from the roles and bindings of a store."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._version = -1
        self._bindings: list[tuple[Stored, Binding]] = []
        self._granted: dict[User, tuple[list[Granted], list[str]]] = {}

    def decide(self, user: User, asked: Attributes) -> Decision:
        """Tell whether a user may do something, and why."""
        if user.master:
            return Decision(allowed=True)
        granted, problems = self._of(user)
        for one in granted:
            if one.namespace and one.namespace != asked.namespace:
                continue
            if any(allows(rule, asked) for rule in one.rules):
                return Decision(True, f"RBAC: allowed by {one.why}")
        if not problems:
            return Decision(allowed=False)
        text = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
        return Decision(False, f"RBAC: {text}")

    def rules(self, user: User, namespace: str) -> Iterator[Rule]:
        """Yield the rules that apply to a user in a namespace; "" for the cluster's alone."""
        for one in self._of(user)[0]:
            if not one.namespace or one.namespace == namespace:
                yield from one.rules

    def role_rules(self, kind: str, namespace: str, name: str) -> tuple[Rule, ...] | None:
        """Return the rules of a role, None if there is no such role."""
        cluster = kind == "ClusterRole"
        key = CLUSTER_ROLE if cluster else ROLE
        stored = self._store.find(key, "" if cluster else namespace, name)
        return None if stored is None else role_of(stored).rules or ()

    def _of(self, user: User) -> tuple[list[Granted], list[str]]:
        """Return what bindings give a user, and which roles are missing."""
        version = max(self._store.changed_at(kind) for kind in KINDS)
        if version != self._version:
            self._version = version
            self._granted.clear()
            self._bindings = [
                (one, binding_of(one))
                for kind in (CLUSTER_ROLE_BINDING, ROLE_BINDING)
                for one in self._store.select(kind)
            ]
        found = self._granted.get(user)
        if found is None:
            if len(self._granted) >= _KNOWN_USERS:
                self._granted.clear()
            found = self._granted[user] = self._worked_out(user)
        return found

    def _worked_out(self, user: User) -> tuple[list[Granted], list[str]]:
        granted, problems = [], []
        for stored, binding in self._bindings:
            subject = _subject_of(binding, user, stored.namespace)
            if subject is None:
                continue
            ref = binding.role_ref
            rules = self.role_rules(ref.kind, stored.namespace, ref.name)
            if rules is None:
                problems.append(f"{ref.kind.lower()}.{GROUP} {quoted(ref.name)} not found")
                continue
            place = f"/{stored.namespace}" if stored.namespace else ""
            name = quoted(f"{stored.name}{place}")
            role = f"{ref.kind} {quoted(ref.name)}"
            shown = _described(subject, stored.namespace)
            why = f"{stored.resource.kind} {name} of {role} to {shown}"
            granted.append(Granted(stored.namespace, rules, why))
        return granted, problems


def _subject_of(binding: Binding, user: User, namespace: str) -> Subject | None:
    for one in binding.subjects or ():
        match one.kind:
            case "User":
                applies = user.name == one.name
            case "Group":
                applies = one.name in user.groups
            case _:
                place = one.namespace or namespace
                applies = user.name == f"{ACCOUNT_PREFIX}{place}:{one.name}"
        if applies:
            return one
    return None


def _described(subject: Subject, namespace: str) -> str:
    if subject.kind != "ServiceAccount":
        return f"{subject.kind} {quoted(subject.name)}"
    return f"{subject.kind} {quoted(f'{subject.name}/{subject.namespace or namespace}')}"
