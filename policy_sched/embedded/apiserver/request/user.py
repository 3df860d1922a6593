"""Users: who sends a request, as far as authentication has found out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from policy_sched.manifests import Plain

MASTERS: Final = "system:masters"
AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
ACCOUNT_PREFIX: Final = "system:serviceaccount:"
ACCOUNTS: Final = "system:serviceaccounts"

Extra = tuple[tuple[str, tuple[str, ...]], ...]
"""What else is known of a user: keys and their values."""


@dataclass(frozen=True, slots=True)
class User:
    """A name, and the groups that it belongs to."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Extra = ()

    @property
    def master(self) -> bool:
        """Whether nothing is forbidden."""
        return MASTERS in self.groups

    def info(self) -> Plain:
        """Return the user as authentication.k8s.io's UserInfo."""
        info: Plain = {"username": self.name} if self.name else {}
        if self.uid:
            info["uid"] = self.uid
        if self.groups:
            info["groups"] = list(self.groups)
        if self.extra:
            info["extra"] = {key: list(values) for key, values in self.extra}
        return info


ANONYMOUS: Final = User("system:anonymous", groups=(UNAUTHENTICATED,))
"""Who says nothing of itself."""
UNSECURED: Final = User("system:unsecured", groups=(MASTERS, AUTHENTICATED))
"""Whoever reaches a server that is open to this machine."""


def account_user(namespace: str, name: str, uid: str = "", extra: Extra = ()) -> User:
    """Return the user that a service account is."""
    groups = (ACCOUNTS, f"{ACCOUNTS}:{namespace}", AUTHENTICATED)
    return User(f"{ACCOUNT_PREFIX}{namespace}:{name}", uid, groups, extra)


def account_of(user_name: str) -> tuple[str, str] | None:
    """Return namespace and name of the service account that a user is, None if it is none."""
    parts = user_name.removeprefix(ACCOUNT_PREFIX).split(":")
    if not user_name.startswith(ACCOUNT_PREFIX) or len(parts) != 2 or not all(parts):
        return None
    return parts[0], parts[1]


def with_authenticated(groups: tuple[str, ...]) -> tuple[str, ...]:
    """Return groups with that of all who are known."""
    return groups if AUTHENTICATED in groups else (*groups, AUTHENTICATED)
