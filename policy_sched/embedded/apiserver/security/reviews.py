"""Reviews: virtual objects that are created, and returned with their status.

TokenReview and SelfSubjectReview return a user; the access reviews what a user may do.
Nothing of this is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from policy_sched.client.apimachinery import ApiError, bad_request
from policy_sched.embedded.apiserver.registry import quoted, unreadable
from policy_sched.embedded.apiserver.request import UserInfo
from policy_sched.embedded.apiserver.security.authentication import Authenticator
from policy_sched.embedded.apiserver.security.rbac import (
    ALL,
    Attributes,
    Decision,
    PolicyRule,
    Rbac,
)
from policy_sched.manifests import Plain
from policy_sched.model import ApiValue

AUTHORIZATION: Final = "authorization.k8s.io"
_INVALID: Final = "FieldValueInvalid"
_EITHER: Final = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
_EVERYTHING: Final = (
    PolicyRule(verbs=(ALL,), api_groups=(ALL,), resources=(ALL,)),
    PolicyRule(verbs=(ALL,), non_resource_urls=(ALL,)),
)


class _Resource(ApiValue, frozen=True):
    namespace: str = ""
    verb: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""


class _Path(ApiValue, frozen=True):
    path: str = ""
    verb: str = ""


class _Spec(ApiValue, frozen=True):
    """The specification of any review."""

    token: str = ""
    audiences: tuple[str, ...] | None = ()
    resource_attributes: _Resource | None = None
    non_resource_attributes: _Path | None = None
    user: str = ""
    groups: tuple[str, ...] | None = ()
    uid: str = ""
    namespace: str = ""


class _Review(ApiValue, frozen=True):
    spec: _Spec | None = _Spec()


class Reviews:
    """Completes reviews. ``rbac`` is None if everything is allowed."""

    def __init__(self, authenticator: Authenticator, rbac: Rbac | None) -> None:
        self._authenticator = authenticator
        self._rbac = rbac
        self._reviewers: dict[str, Callable[[_Spec, UserInfo, str], Plain]] = {
            "TokenReview": self._token,
            "SelfSubjectReview": _self,
            "SubjectAccessReview": self._access,
            "LocalSubjectAccessReview": self._local_access,
            "SelfSubjectAccessReview": self._self_access,
            "SelfSubjectRulesReview": self._rules,
        }

    def review(self, kind: str, data: Plain, user: UserInfo, namespace: str) -> Plain:
        """Return a review with its status; ``namespace`` is the path's. Raises ApiError."""
        try:
            spec = msgspec.convert(data, _Review).spec or _Spec()
        except msgspec.ValidationError as error:
            raise unreadable(kind, f"json: cannot unmarshal: {error}", b"") from None
        status = self._reviewers[kind](spec, user, namespace)
        given = data.get("metadata") or {}
        head = {"kind": kind, "apiVersion": data["apiVersion"], "metadata": given}
        shown = {} if kind == "SelfSubjectReview" else {"spec": data.get("spec") or {}}
        return {**head, **shown, "status": status}

    def decide(self, user: UserInfo, attributes: Attributes) -> Decision:
        """Return whether a user may do something."""
        if self._rbac is None:
            return Decision(allowed=True)
        return self._rbac.decide(user, attributes)

    def _token(self, spec: _Spec, _user: UserInfo, _namespace: str) -> Plain:
        if not spec.token:
            raise bad_request("token is required for TokenReview in authentication")
        reviewed = self._authenticator.reviewed(spec.token, spec.audiences or ())
        if reviewed is None:
            return {"user": {}, "error": "[invalid bearer token, unknown or expired]"}
        user, audiences = reviewed
        return {"authenticated": True, "user": user.info(), "audiences": list(audiences)}

    def _access(self, spec: _Spec, _user: UserInfo, _namespace: str) -> Plain:
        _check("SubjectAccessReview", spec)
        return self._decided(spec)

    def _local_access(self, spec: _Spec, _user: UserInfo, namespace: str) -> Plain:
        kind = "LocalSubjectAccessReview"
        _check(kind, spec)
        if spec.non_resource_attributes is not None or spec.resource_attributes is None:
            raise _invalid(kind, "spec.nonResourceAttributes", "disallowed on this kind of request")
        if spec.resource_attributes.namespace != namespace:
            why = f"must match metadata.namespace: {namespace}"
            raise _invalid(kind, "spec.resourceAttributes.namespace", why)
        return self._decided(spec)

    def _self_access(self, spec: _Spec, user: UserInfo, _namespace: str) -> Plain:
        _check("SelfSubjectAccessReview", spec, subject=False)
        return _shown(self.decide(user, _attributes_of(spec)))

    def _decided(self, spec: _Spec) -> Plain:
        user = UserInfo(spec.user, spec.uid, spec.groups or ())
        return _shown(self.decide(user, _attributes_of(spec)))

    def _rules(self, spec: _Spec, user: UserInfo, _namespace: str) -> Plain:
        if not spec.namespace:
            raise bad_request("no namespace on request")
        rules: Iterator[PolicyRule] = iter(_EVERYTHING)
        if self._rbac is not None and not user.master:
            rules = self._rbac.rules(user, spec.namespace)
        status: Plain = {"resourceRules": [], "nonResourceRules": [], "incomplete": False}
        for rule in rules:
            field = "nonResourceRules" if rule.non_resource_urls else "resourceRules"
            status[field].append(rule.data())
        return status


def _self(_spec: _Spec, user: UserInfo, _namespace: str) -> Plain:
    return {"userInfo": user.info()}


def _shown(decision: Decision) -> Plain:
    reason = {"reason": decision.reason} if decision.reason else {}
    return {"allowed": decision.allowed, **reason}


def _attributes_of(spec: _Spec) -> Attributes:
    if spec.non_resource_attributes is not None:
        return Attributes(spec.non_resource_attributes.verb, spec.non_resource_attributes.path)
    about = spec.resource_attributes
    assert about is not None
    namespaced_name = {"namespace": about.namespace, "name": about.name}
    return Attributes(
        about.verb, "", about.group, about.resource or ALL, about.subresource, **namespaced_name
    )


def _check(kind: str, spec: _Spec, *, subject: bool = True) -> None:
    """Raise ApiError if a specification does not name one thing, and a user."""
    if (spec.resource_attributes is None) is (spec.non_resource_attributes is None):
        raise _invalid(kind, "spec.resourceAttributes", _EITHER)
    if subject and not spec.user and not spec.groups:
        why = "at least one of user or group must be specified"
        raise _invalid(kind, "spec.user", why, '""')


def _invalid(kind: str, field: str, why: str, value: str = "null") -> ApiError:
    text = f"Invalid value: {value}: {why}"
    message = f"{kind}.{AUTHORIZATION} {quoted('')} is invalid: {field}: {text}"
    causes = [{"reason": _INVALID, "message": text, "field": field}]
    details = {"group": AUTHORIZATION, "kind": kind, "causes": causes}
    return ApiError(422, "Invalid", message, details)
