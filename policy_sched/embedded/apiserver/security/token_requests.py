"""Requests for tokens of service accounts: what ``kubectl create token`` creates."""

from __future__ import annotations

from typing import Final

import msgspec

from policy_sched.client.apimachinery import SECOND, ApiError, resource, timestamp
from policy_sched.embedded.admission import conflict
from policy_sched.embedded.apiserver.registry import quoted, unreadable
from policy_sched.embedded.apiserver.security.account_tokens import BOUND_TO, AccountTokens, Named
from policy_sched.embedded.apiserver.security.reviews import AUTHENTICATION
from policy_sched.embedded.store import ObjectStore
from policy_sched.manifests import Plain
from policy_sched.model import ApiValue

KIND: Final = "TokenRequest"
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


def answer(store: ObjectStore, tokens: AccountTokens, place: tuple[str, str], data: Plain) -> Plain:
    """Return a request with its token. ``place``: namespace and name of the account.

    Raises ApiError.
    """
    try:
        spec = msgspec.convert(data, _Request).spec or _Spec()
    except msgspec.ValidationError as error:
        raise unreadable(KIND, f"json: cannot unmarshal: {error}", b"") from None
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
        bound = _bound(store, place[0], spec.bound_object_ref)
    token = tokens.issue(place, spec.audiences or (), seconds, bound)
    said = data.get("spec") or {}
    ends = timestamp(store.now() + seconds * SECOND)
    return {
        "kind": KIND,
        "apiVersion": f"{AUTHENTICATION}/v1",
        "metadata": {"name": place[1], "namespace": place[0]},
        "spec": {**said, "expirationSeconds": seconds},
        "status": {"token": token, "expirationTimestamp": ends},
    }


def _bound(store: ObjectStore, namespace: str, ref: _Bound) -> tuple[str, Named]:
    """Return the object that a token shall be bound to. Raises ApiError if it is not there."""
    if ref.kind not in BOUND_TO:
        kinds = ", ".join(map(quoted, BOUND_TO))
        why = f"cannot bind token for serviceaccount to object type {ref.kind}: one of {kinds}"
        raise _invalid("boundObjectRef.kind", ref.kind, why)
    kind = BOUND_TO[ref.kind]
    found = store.get(kind, "" if ref.kind == "Node" else namespace, ref.name)
    if ref.uid not in ("", found.uid):
        why = (
            f"the UID in the bound object reference ({ref.uid}) does not match the UID in record."
            " The object might have been deleted and then recreated"
        )
        raise conflict(resource(kind), ref.name, why)
    return ref.kind, Named(found.name, found.uid)


def _invalid(field: str, value: object, why: str) -> ApiError:
    shown = quoted(value) if isinstance(value, str) else str(value)
    text = f"Invalid value: {shown}: {why}"
    message = f"{KIND}.{AUTHENTICATION} {quoted('')} is invalid: spec.{field}: {text}"
    causes = [{"reason": "FieldValueInvalid", "message": text, "field": f"spec.{field}"}]
    details = {"group": AUTHENTICATION, "kind": KIND, "causes": causes}
    return ApiError(422, "Invalid", message, details)
