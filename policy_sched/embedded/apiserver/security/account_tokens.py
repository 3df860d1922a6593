"""Tokens of service accounts: JSON web tokens that this server signs, and knows again.

Theory of operation: nothing is kept but a key, which lives as long as the cluster. A token names
its account, with the uid, and its end; it is invalid once the account, or the object that it is
bound to, is deleted or replaced.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import uuid
from collections.abc import Sequence
from typing import Final

import msgspec

from policy_sched.client import apimachinery
from policy_sched.embedded.admission import conflict
from policy_sched.embedded.apiserver.registry import quoted, unreadable
from policy_sched.embedded.apiserver.request import UserInfo, account_user
from policy_sched.embedded.store import ObjectStore
from policy_sched.manifests import Plain
from policy_sched.model import ApiValue, Kind

AUTHENTICATION: Final = "authentication.k8s.io"
AUDIENCE: Final = "https://kubernetes.default.svc.cluster.local"
"""Issuer of the tokens, and their audience unless others are named."""
BOUND_TO: Final[dict[str, Kind]] = {
    "Pod": ("v1", "Pod"), "Secret": ("v1", "Secret"), "Node": ("v1", "Node"),
}  # fmt: skip
"""Kinds of objects that a token can be bound to; a node is in no namespace."""
_HEADER: Final = {"alg": "HS256", "typ": "JWT"}


class Named(msgspec.Struct, omit_defaults=True):
    """An object that a token names."""

    name: str
    uid: str


class _Where(msgspec.Struct, omit_defaults=True):
    namespace: str
    serviceaccount: Named
    pod: Named | None = None
    secret: Named | None = None
    node: Named | None = None


class _Claims(msgspec.Struct, omit_defaults=True):
    aud: list[str]
    exp: int
    iat: int
    iss: str
    jti: str
    nbf: int
    sub: str
    where: _Where = msgspec.field(name="kubernetes.io")


_CLAIMS: Final = msgspec.json.Decoder(_Claims)


class AccountTokens:
    """Signs and verifies the tokens of a store's service accounts."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._key = store.storage.secret("service-account-key")
        self._head = _text(apimachinery.encoded(_HEADER))

    def issue(
        self,
        account: tuple[str, str],
        audiences: Sequence[str],
        seconds: int,
        bound: tuple[str, Named] | None = None,
    ) -> str:
        """Return a token of the account at a place, good for some seconds.

        ``bound``: kind (of `BOUND_TO`) and name of an object that has to be there, too. Raises
        ApiError if there is no such account.
        """
        namespace, name = account
        uid = self._store.get(apimachinery.ACCOUNT, namespace, name).uid
        now = self._store.now() // apimachinery.SECOND
        where = _Where(namespace=namespace, serviceaccount=Named(name, uid))
        if bound is not None:
            setattr(where, bound[0].lower(), bound[1])
        claims = _Claims(
            aud=list(audiences) or [AUDIENCE],
            exp=now + seconds,
            iat=now,
            iss=AUDIENCE,
            jti=str(uuid.UUID(bytes=secrets.token_bytes(16), version=4)),
            nbf=now,
            sub=account_user(namespace, name).name,
            where=where,
        )
        unsigned = f"{self._head}.{_text(msgspec.json.encode(claims))}"
        return f"{unsigned}.{self._signature(unsigned)}"

    def verify(self, token: str) -> tuple[UserInfo, tuple[str, ...]] | None:
        """Return the user and audiences of a token; None if it is not valid here, or expired."""
        unsigned, _, signature = token.rpartition(".")
        given = signature.encode("utf-8", "surrogateescape")
        if not hmac.compare_digest(given, self._signature(unsigned).encode()):
            return None
        claims = _CLAIMS.decode(_bytes(unsigned.partition(".")[2]))
        now = self._store.now() // apimachinery.SECOND
        if not claims.nbf <= now < claims.exp or not self._objects_exist(claims.where):
            return None
        account = claims.where.serviceaccount
        extra = (("authentication.kubernetes.io/credential-id", (f"JTI={claims.jti}",)),)
        for kind in BOUND_TO:
            if claimed := getattr(claims.where, kind.lower()):
                extra += tuple(
                    (f"authentication.kubernetes.io/{kind.lower()}-{field}", (value,))
                    for field, value in (("name", claimed.name), ("uid", claimed.uid))
                )
        user = account_user(claims.where.namespace, account.name, account.uid, extra)
        return user, tuple(claims.aud)

    def _objects_exist(self, where: _Where) -> bool:
        """Return whether the account, and the object that its token is bound to, still exist."""
        named: list[tuple[Kind, Named | None]] = [(apimachinery.ACCOUNT, where.serviceaccount)]
        named += [(key, getattr(where, kind.lower())) for kind, key in BOUND_TO.items()]
        for kind, claimed in named:
            if claimed is None:
                continue
            namespace = "" if kind == BOUND_TO["Node"] else where.namespace
            stored = self._store.find(kind, namespace, claimed.name)
            if stored is None or stored.uid != claimed.uid:
                return False
        return True

    def _signature(self, unsigned: str) -> str:
        raw = unsigned.encode("utf-8", "surrogateescape")
        return _text(hmac.digest(self._key, raw, hashlib.sha256))


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


TOKEN_REQUEST: Final = "TokenRequest"  # noqa: S105 - the name of a kind
_DEFAULT_SECONDS: Final = 3600
_LEAST_SECONDS: Final = 600
_MOST_SECONDS: Final = 2**32


class _Bound(ApiValue, frozen=True):
    kind: str = ""
    name: str = ""
    uid: str = ""


class _Spec(ApiValue, frozen=True):
    audiences: tuple[str, ...] | None = ()
    expiration_seconds: int | None = None
    bound_object_ref: _Bound | None = None


class _Request(ApiValue, frozen=True):
    spec: _Spec | None = _Spec()


def token_for(
    store: ObjectStore, tokens: AccountTokens, account: tuple[str, str], data: Plain
) -> Plain:
    """Return a request with its token. ``place``: namespace and name of the account.

    Raises ApiError.
    """
    try:
        spec = msgspec.convert(data, _Request).spec or _Spec()
    except msgspec.ValidationError as error:
        raise unreadable(TOKEN_REQUEST, f"json: cannot unmarshal: {error}", b"") from None
    seconds = _DEFAULT_SECONDS if spec.expiration_seconds is None else spec.expiration_seconds
    if seconds < _LEAST_SECONDS:
        raise _invalid(
            "expirationSeconds", seconds, "may not specify a duration less than 10 minutes"
        )
    if seconds > _MOST_SECONDS:
        why = "may not specify a duration larger than 2^32 seconds"
        raise _invalid("expirationSeconds", seconds, why)
    bound = None
    if spec.bound_object_ref is not None:
        bound = _bound(store, account[0], spec.bound_object_ref)
    token = tokens.issue(account, spec.audiences or (), seconds, bound)
    given = data.get("spec") or {}
    ends = apimachinery.timestamp(store.now() + seconds * apimachinery.SECOND)
    return {
        "kind": TOKEN_REQUEST,
        "apiVersion": f"{AUTHENTICATION}/v1",
        "metadata": {"name": account[1], "namespace": account[0]},
        "spec": {**given, "expirationSeconds": seconds},
        "status": {"token": token, "expirationTimestamp": ends},
    }


def _bound(store: ObjectStore, namespace: str, ref: _Bound) -> tuple[str, Named]:
    """Return the object that a token shall be bound to. Raises ApiError if it is not there."""
    if ref.kind not in BOUND_TO:
        kinds = ", ".join(map(quoted, BOUND_TO))
        why = f"cannot bind token for serviceaccount to object type {ref.kind}: one of {kinds}"
        raise _invalid("boundObjectRef.kind", ref.kind, why)
    kind = BOUND_TO[ref.kind]
    stored = store.get(kind, "" if ref.kind == "Node" else namespace, ref.name)
    if ref.uid not in ("", stored.uid):
        why = (
            f"the UID in the bound object reference ({ref.uid}) does not match the UID in record."
            " The object might have been deleted and then recreated"
        )
        raise conflict(apimachinery.resource(kind), ref.name, why)
    return ref.kind, Named(stored.name, stored.uid)


def _invalid(field: str, value: object, why: str) -> apimachinery.ApiError:
    shown = quoted(value) if isinstance(value, str) else str(value)
    text = f"Invalid value: {shown}: {why}"
    message = f"{TOKEN_REQUEST}.{AUTHENTICATION} {quoted('')} is invalid: spec.{field}: {text}"
    causes = [{"reason": "FieldValueInvalid", "message": text, "field": f"spec.{field}"}]
    details = {"group": AUTHENTICATION, "kind": TOKEN_REQUEST, "causes": causes}
    return apimachinery.ApiError(422, "Invalid", message, details)
