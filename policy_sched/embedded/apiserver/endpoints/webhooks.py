"""Validating webhooks: which ones a request has to pass, and asking them.

Theory of operation. A request that writes is worked out to the end first, as a dry run, so that a
webhook sees the object as it would be stored. All webhooks whose rules match are asked at the same
time, outside the store. Then the request is carried out, if none refused it and its object is still
the one that was reviewed; else it is worked out again. Webhooks are only called at addresses of
this machine: a configuration does not get requests sent elsewhere. (apiserver's
admission/plugin/webhook/validating; matchConditions are refused, and services have no address.)
"""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit
from uuid import uuid4

import msgspec

from policy_sched.client.apimachinery import NAMESPACE, ApiError, Stored
from policy_sched.embedded.apiserver.request import RequestTarget, Sent
from policy_sched.embedded.store import ObjectStore
from policy_sched.http import Address
from policy_sched.manifests import Plain
from policy_sched.model import LabelSelector, Selector, label_selector

if TYPE_CHECKING:
    import aiohttp

CONFIGURATION: Final = ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration")
EXEMPT: Final = "admissionregistration.k8s.io"
"""The group whose objects no webhook is asked about: one could keep itself from being deleted."""
MOST_BYTES: Final = 1 << 20
"""Bytes of an answer."""
TIMEOUT: Final = 10
"""Seconds for an answer, unless a webhook states its own."""
_REVIEW: Final = "admission.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class Webhook:
    """One webhook of a configuration that matches a request."""

    name: str
    given: Plain
    version: str
    """The version in which it gets objects."""

    @property
    def timeout(self) -> int:
        """Seconds for an answer."""
        return int(self.given.get("timeoutSeconds") or TIMEOUT)

    @property
    def ignores(self) -> bool:
        """Whether a webhook that does not answer lets requests pass."""
        return self.given.get("failurePolicy") == "Ignore"

    @property
    def url(self) -> str:
        """The address. Raises ValueError if there is none that may be called."""
        client = self.given.get("clientConfig") or {}
        service = client.get("service")
        if service is not None:
            name, namespace = service.get("name"), service.get("namespace")
            raise ValueError(f'service "{name}" of namespace "{namespace}" has no address here')
        url: str = client["url"]
        host = urlsplit(url).hostname or ""
        if not Address(host, 0).loopback:
            raise ValueError(f"{host} is another machine; this API server calls only its own")
        return f"{url}?timeout={self.timeout}s"


class Webhooks:
    """The validating webhooks of a store."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def matching(
        self, target: RequestTarget, operation: str, objects: tuple[Stored | None, ...]
    ) -> list[Webhook]:
        """Return the webhooks that have to let a request pass, in order."""
        if target.served.group == EXEMPT:
            return []
        there = tuple(stored for stored in objects if stored is not None)
        return [
            Webhook(str(given.get("name")), given, version)
            for stored in sorted(self._store.select(CONFIGURATION), key=lambda s: s.name)
            for given in stored.data.get("webhooks") or ()
            if (version := _version_for(given, target, operation))
            and self._selected(given, target, there)
        ]

    def concern(self, target: RequestTarget) -> bool:
        """Return whether there is a webhook at all that a request may concern."""
        served = target.served
        reviewed = target.subresource in ("", "status") and not served.review
        return reviewed and served.group != EXEMPT and bool(self._store.select(CONFIGURATION))

    def _selected(self, given: Plain, target: RequestTarget, objects: tuple[Stored, ...]) -> bool:
        """Return whether the selectors of a webhook choose a request."""
        chosen = _selector(given.get("objectSelector"))
        if not any(chosen.matches(stored.labels) for stored in objects):
            return False
        spaces = _selector(given.get("namespaceSelector"))
        if target.served.resource.key == NAMESPACE:
            return any(spaces.matches(stored.labels) for stored in objects)
        if not target.served.resource.namespaced:
            return True
        space = self._store.find(NAMESPACE, "", target.namespace)
        return spaces.matches(space.labels if space is not None else {})

    async def review(
        self, sent: Sent, operation: str, old: Stored | None, new: Stored | None, *, dry: bool
    ) -> None:
        """Ask all webhooks that match. Raises ApiError if one refuses the request."""
        hooks = self.matching(sent.target, operation, (old, new))
        if not hooks:
            return
        request = _request(sent, operation, old, new, dry=dry)
        async with _session() as session:
            answers = await asyncio.gather(
                *(_asked(session, hook, _in_version(request, hook.version)) for hook in hooks)
            )
        for hook, answer in zip(hooks, answers, strict=True):
            if isinstance(answer, str):
                if not hook.ignores:
                    why = f'failed calling webhook "{hook.name}": {answer}'
                    raise _internal(why)
                continue
            sent.warnings.extend(str(warning) for warning in answer.get("warnings") or ())
            if answer.get("allowed") is not True:
                raise _denial(hook.name, answer.get("status"))


def _selector(given: Any) -> Selector:
    return label_selector(msgspec.convert(given or {}, LabelSelector))


def _version_for(given: Plain, target: RequestTarget, operation: str) -> str:
    """Return the version in which a webhook gets a request, "" if no rule of it matches."""
    served = target.served
    resource = f"{served.name}/{target.subresource}" if target.subresource else served.name
    scope = "Namespaced" if served.resource.namespaced else "Cluster"
    equivalent = given.get("matchPolicy") != "Exact" and served.custom is not None
    for rule in given.get("rules") or ():
        if (
            _named(rule.get("apiGroups"), served.group)
            and any(_covers(pattern, resource) for pattern in rule.get("resources") or ())
            and _named(rule.get("operations"), operation)
            and rule.get("scope", "*") in ("*", scope)
        ):
            versions = rule.get("apiVersions")
            if _named(versions, served.version):
                return served.version
            others = served.custom.kind.versions if equivalent and served.custom else ()
            for version in others:
                if _named(versions, version):
                    return str(version)
    return ""


def _named(words: Any, word: str) -> bool:
    return isinstance(words, list) and ("*" in words or word in words)


def _covers(pattern: str, resource: str) -> bool:
    """Return whether a pattern of a rule covers a resource: ``pods``, ``pods/*``, ``*/*``."""
    name, _, part = pattern.partition("/")
    own, _, inner = resource.partition("/")
    return name in ("*", own) and part in (inner, "*")


def _request(
    sent: Sent, operation: str, old: Stored | None, new: Stored | None, *, dry: bool
) -> Plain:
    """Return the request of an AdmissionReview."""
    target, served = sent.target, sent.target.served
    kind = {"group": served.group, "version": served.version, "kind": served.kind}
    resource = {"group": served.group, "version": served.version, "resource": served.name}
    options = {"CREATE": "Create", "UPDATE": "Update", "DELETE": "Delete"}[operation]
    some = new if new is not None else old
    request: Plain = {
        "uid": str(uuid4()),
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "name": target.name or ("" if some is None else some.name),
        "operation": operation,
        "userInfo": sent.user.info(),
        "object": None if new is None else served.form.data(new),
        "oldObject": None if old is None else served.form.data(old),
        "dryRun": dry,
        "options": {"kind": f"{options}Options", "apiVersion": "meta.k8s.io/v1"},
    }
    if target.namespace:
        request["namespace"] = target.namespace
    if target.subresource:
        request["subResource"] = request["requestSubResource"] = target.subresource
    return request


def _in_version(request: Plain, version: str) -> Plain:
    """Return a request about an object of another version; versions differ in their names alone."""
    if request["kind"]["version"] == version:
        return request
    named = {key: {**request[key], "version": version} for key in ("kind", "resource")}
    objects = {
        key: data and {**data, "apiVersion": f"{request['kind']['group']}/{version}"}
        for key, data in ((key, request[key]) for key in ("object", "oldObject"))
    }
    return {**request, **named, **objects}


def _session() -> aiohttp.ClientSession:
    import aiohttp  # noqa: PLC0415 - most clusters have no webhook

    return aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())


async def _asked(
    session: aiohttp.ClientSession, hook: Webhook, request: Plain
) -> Mapping[str, Any] | str:
    """Return the response of a webhook, or why there is none."""
    import aiohttp  # noqa: PLC0415 - see `_session`

    review = {"kind": "AdmissionReview", "apiVersion": _REVIEW, "request": request}
    call = "failed to call webhook: "
    try:
        url = hook.url
        call += f'Post "{url}": '
        async with asyncio.timeout(hook.timeout):
            async with session.post(
                url,
                data=msgspec.json.encode(review),
                headers={"Content-Type": "application/json", "Accept": "application/json"},
                ssl=_trust(hook.given),
                allow_redirects=False,
            ) as response:
                body = await response.content.read(MOST_BYTES)
                if response.status != 200:
                    return f"{call}the server answered with {response.status}"
        return _checked(body, request["uid"])
    except TimeoutError:
        return f"{call}context deadline exceeded"
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return f"{call}{error}"


def _trust(given: Plain) -> ssl.SSLContext:
    """Return the certificates to trust: the configuration's bundle, or those of the system."""
    bundle = (given.get("clientConfig") or {}).get("caBundle")
    if not bundle:
        return ssl.create_default_context()
    return ssl.create_default_context(cadata=b64decode(bundle).decode("ascii"))


def _checked(body: bytes, uid: str) -> Mapping[str, Any] | str:
    """Return the response in a body, or what is wrong with it."""
    bad = "received invalid webhook response: "
    try:
        review = msgspec.json.decode(body)
        response = review.get("response")
    except (ValueError, RecursionError, AttributeError):
        return f"{bad}it is no JSON of an AdmissionReview"
    head = review.get("apiVersion"), review.get("kind")
    if head != (_REVIEW, "AdmissionReview"):
        return f"{bad}expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview"
    if not isinstance(response, dict):
        return "webhook response was absent"
    if response.get("uid") != uid:
        return f'{bad}expected response.uid="{uid}", got "{response.get("uid") or ""}"'
    return response


def _internal(why: str) -> ApiError:
    causes = {"causes": [{"message": why}]}
    return ApiError(500, "InternalError", f"Internal error occurred: {why}", causes)


def _denial(name: str, given: Any) -> ApiError:
    """Return the refusal of a webhook in upstream's words."""
    status = given if isinstance(given, dict) else {}
    said = f'admission webhook "{name}" denied the request'
    message, reason = status.get("message"), status.get("reason")
    text = f"{said}: {message or reason}" if message or reason else f"{said} without explanation"
    code = status.get("code")
    code = code if type(code) is int and 400 <= code < 600 else 400
    details = status.get("details")
    return ApiError(
        code,
        str(reason or ""),
        text,
        details if isinstance(details, dict) else {},
    )
