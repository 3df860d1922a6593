"""The scheduler's own endpoints of ``run``: flags, listener, and authentication of callers."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from random import Random
from typing import Annotated, Any, Final

import msgspec
from cyclopts import Parameter

from policy_sched.cli.input.values import nanoseconds
from policy_sched.cli.options.kube_scheduler_flags import Overrides
from policy_sched.client.kube.auth import Anonymous, load, paths_in
from policy_sched.client.kube.rest import Api, ClientEnvironment, RetryPolicy, Settings
from policy_sched.client.kube.time import Clocks
from policy_sched.errors import ClusterError
from policy_sched.http import Access, Address
from policy_sched.instance import http
from policy_sched.instance.app import ClusterInstance, Instance, RunLoop
from policy_sched.instance.observability import INFO, WARNING, DecisionLog
from policy_sched.profiles.models import KubeSchedulerConfiguration
from policy_sched.profiles.reload import PolicyFiles

Pair = tuple[bytes, bytes]
"""A certificate and its key, in PEM."""

REREAD: Final = 60.0
"""Seconds between two looks at the files of the certificate."""
PORT: Final = 10259
"""kube-scheduler's."""
EVERYWHERE: Final = "0.0.0.0"  # noqa: S104 - as kube-scheduler; behind TLS and authorization
HERE: Final = "127.0.0.1"
_PATHS: Final = {
    "TokenReview": "/apis/authentication.k8s.io/v1/tokenreviews",
    "SubjectAccessReview": "/apis/authorization.k8s.io/v1/subjectaccessreviews",
}
_REVIEWS: Final = Settings(qps=50, burst=100, timeout=5.0, retry_policy=RetryPolicy(tries=2))
"""Reviews have a rate limit of their own, so that they and bindings do not delay each other."""


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class EndpointFlags:
    """Flags of ``run`` for its own endpoints.

    Parameters
    ----------
    bind_address
        Where the scheduler's own endpoints (health, metrics, policies, explanations) listen; all
        interfaces with --kubeconfig, 127.0.0.1 otherwise, and where the API server of the
        kubeconfig asks for no credentials.
    secure_port
        Their port: 10259 with --kubeconfig, off otherwise; 0 is off, too. HTTPS, with a
        certificate that is made at the start unless --tls-cert-file names one; plain HTTP on
        loopback without --kubeconfig and --tls-cert-file.
    client_ca_file
        An authority (PEM): the endpoints, and the API server of --serve, accept client certificates
        that it signed. The common name is the user, organizations are groups.
    tls_min_version
        The oldest TLS of the endpoints: VersionTLS12, the default, or VersionTLS13.
    authentication_kubeconfig
        The server that reviews tokens of callers of the endpoints; that of --kubeconfig unless
        given.
    authorization_kubeconfig
        The server that authorizes callers of the endpoints; that of --kubeconfig unless given.
    authentication_token_webhook_cache_ttl
        How long results of token reviews are cached.
    authorization_webhook_cache_authorized_ttl
        How long results of authorization are cached.
    authorization_always_allow_paths
        Comma-separated paths that need no authorization; one that ends with * matches a prefix.
    """

    bind_address: str | None = None
    secure_port: int | None = None
    client_ca_file: str | None = None
    tls_min_version: str = "VersionTLS12"
    authentication_kubeconfig: str | None = None
    authorization_kubeconfig: str | None = None
    authentication_token_webhook_cache_ttl: str = "10s"  # noqa: S105 - a duration
    authorization_webhook_cache_authorized_ttl: str = "10s"
    authorization_always_allow_paths: Annotated[
        tuple[str, ...], Parameter(negative="", consume_multiple=True)
    ] = http.OPEN

    def __post_init__(self) -> None:
        """Raise ClusterError for values that cannot be."""
        if self.secure_port is not None and not 0 <= self.secure_port <= 65535:
            raise ClusterError(f"--secure-port {self.secure_port}: must be between 0 and 65535")
        if self.tls_min_version not in _VERSIONS:
            versions = " or ".join(_VERSIONS)
            raise ClusterError(f"--tls-min-version {self.tls_min_version}: must be {versions}")
        _ = self.ttls

    def wanted(self, *, remote: bool) -> bool:
        """Return whether endpoints are served: unless they are turned off, or not requested.

        Raises ClusterError for a server of reviews where nothing is reviewed.
        """
        if not remote and (self.authentication_kubeconfig or self.authorization_kubeconfig):
            options = "--authentication-kubeconfig and --authorization-kubeconfig"
            raise ClusterError(f"{options}: only with the cluster of a --kubeconfig")
        return self.secure_port != 0 and (remote or self.secure_port is not None)

    @property
    def open_paths(self) -> tuple[str, ...]:
        """The paths that need no authorization."""
        words = ",".join(self.authorization_always_allow_paths).split(",")
        return tuple(f"/{word.strip().removeprefix('/')}" for word in words if word.strip())

    @property
    def ttls(self) -> tuple[float, float]:
        """Seconds for which results of authentication and of authorization are cached."""
        token = self.authentication_token_webhook_cache_ttl
        right = self.authorization_webhook_cache_authorized_ttl
        return (
            nanoseconds(token, "--authentication-token-webhook-cache-ttl") / 1e9,
            nanoseconds(right, "--authorization-webhook-cache-authorized-ttl") / 1e9,
        )


_VERSIONS: Final = {
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}


@asynccontextmanager
async def endpoints(
    flags: EndpointFlags,
    given: Access,
    running: RunLoop,
    overrides: Overrides,
) -> AsyncIterator[None]:
    """Serve the endpoints of an instance within the context, if they are enabled."""
    instance = running.instance
    remote = isinstance(instance, ClusterInstance)
    if not flags.wanted(remote=remote):
        yield
        return
    async with AsyncExitStack() as stack:
        given = replace(given, clients=given.clients or flags.client_ca_file)
        authorizer = await _authorizer(flags, given, instance, stack)
        everywhere = (
            isinstance(authorizer, http.DelegatingAuthorizer) and authorizer.reviews_anonymous
        )
        host = flags.bind_address or (EVERYWHERE if everywhere else HERE)
        near = Address(host, 0).loopback
        if isinstance(authorizer, http.DelegatingAuthorizer):
            authorizer.reviews_anonymous |= near
        if isinstance(authorizer, http.AlwaysAllow) and not near:
            text = "can be reached from other machines: that needs --token-auth-file"
            text += " or --client-ca-file"
            raise ClusterError(f"--bind-address {host} {text}")
        reviews = None
        if instance.policy_objects is not None:
            most = instance.reloader.store.files.max_cost_limit
            reviews = stack.enter_context(http.AdmissionReviews(most))
        offered = http.Offered(
            instance,
            running.reload,
            lambda: _effective_settings(instance, overrides),
            flags.open_paths,
            shown_flags(flags, given, overrides, instance.reloader.store.files),
            reviews,
        )
        pair = _pair(flags, given, secure=remote or not near)
        context = None if pair is None else http.server_context(*pair, flags.client_ca_file)
        if context is not None:
            context.minimum_version = _VERSIONS[flags.tls_min_version]
        port = PORT if flags.secure_port is None else flags.secure_port
        listener = http.Listener(http.Endpoints(offered, authorizer).handle, (host, port), context)
        await stack.enter_async_context(listener)
        instance.log.write(INFO, "Serving securely" if context else "Serving", url=listener.url)
        if context is not None and given.certificate is not None:
            following = asyncio.create_task(_follow(context, given, pair, instance.log))
            stack.callback(following.cancel)
        yield


def shown_flags(
    flags: EndpointFlags, given: Access, overrides: Overrides, files: PolicyFiles
) -> dict[str, str]:
    """Return flags by name, as /flagz shows them; those that were not given are left out."""
    values: dict[str, Any] = {
        field.name.replace("_", "-"): getattr(group, field.name)
        for group in (flags, overrides.leader, overrides.client)
        for field in fields(group)
    }
    values |= {
        "config": files.config if isinstance(files.config, str) else None,
        "policies": tuple(files.policies) or None,
        "tls-cert-file": given.certificate,
        "tls-private-key-file": given.key,
        "token-auth-file": given.tokens,
        "kubeconfig": overrides.kubeconfig,
    }
    return {
        name: ",".join(value) if isinstance(value, tuple) else _typed(value)
        for name, value in values.items()
        if value is not None
    }


def _typed(value: object) -> str:
    """Return a flag's value as one types it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _effective_settings(instance: Instance, overrides: Overrides) -> KubeSchedulerConfiguration:
    """Return the settings that count, with the lease that we take part in."""
    settings = overrides.of(instance.reloader.store.current.settings)
    candidacy = instance.candidacy if isinstance(instance, ClusterInstance) else None
    election = settings.leader_election
    named = {"resource_name": candidacy.name} if candidacy else {"leader_elect": False}
    return settings.model_copy(update={"leader_election": election.model_copy(update=named)})


def _pair(flags: EndpointFlags, given: Access, *, secure: bool) -> Pair | None:
    """Return certificate and key of the endpoints: those that are given, or some of our own."""
    if given.certificate is not None:
        return _read(given)
    if secure:
        names = [socket.gethostname(), "localhost", "127.0.0.1", "::1"]
        return http.self_signed(names, time.time_ns())
    if flags.client_ca_file is not None:
        raise ClusterError("--client-ca-file needs --tls-cert-file and --tls-private-key-file")
    return None


def _read(given: Access) -> Pair:
    """Read certificate and key. Raises ClusterError."""
    try:
        return Path(given.certificate or "").read_bytes(), Path(given.key or "").read_bytes()
    except OSError as error:
        raise ClusterError(f"{error.filename}: cannot be read: {error.strerror}") from None


async def _follow(
    context: ssl.SSLContext, given: Access, pair: Pair | None, log: DecisionLog
) -> None:
    """Reload the certificate when its files are replaced; log a pair that does not match."""
    while True:
        await asyncio.sleep(REREAD)
        try:
            certificates = _read(given)
            if certificates != pair:
                http.renew(context, *certificates)
                log.write(INFO, "The endpoints have another certificate")
        except ClusterError as error:
            log.write(WARNING, "The endpoints keep their certificate", error=str(error))
            continue
        pair = certificates


def _embedded_authorizer(given: Access, instance: Instance) -> http.Authorizer:
    """Return the authorizer of an embedded cluster, which is not loaded for a real one."""
    from policy_sched.cli.options.embedded_auth import embedded_authorizer  # noqa: PLC0415
    from policy_sched.instance.app import EmbeddedInstance  # noqa: PLC0415

    assert isinstance(instance, EmbeddedInstance), "there are these two"
    return embedded_authorizer(given, instance.cluster.store)


async def _authorizer(
    flags: EndpointFlags,
    given: Access,
    instance: Instance,
    stack: AsyncExitStack,
) -> http.Authorizer:
    if not isinstance(instance, ClusterInstance):
        return _embedded_authorizer(given, instance)
    apis: dict[str, Api] = {}
    for kind, path in (
        ("TokenReview", flags.authentication_kubeconfig),
        ("SubjectAccessReview", flags.authorization_kubeconfig),
    ):
        api = _review_api(path, instance.api)
        api.observe = instance.metrics.attempts.requested
        api.traffic = instance.metrics.attempts
        apis[kind] = await stack.enter_async_context(api)

    async def review(kind: str, spec: http.Plain) -> http.Plain:
        group = _PATHS[kind].split("/")[2]
        body = {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {}, "spec": spec}
        response = await apis[kind].request("POST", _PATHS[kind], body, repeatable=True)
        return _status_of(response)

    authorizer = http.DelegatingAuthorizer(review, time.monotonic, ttls=flags.ttls)
    authorizer.reviews_anonymous = not isinstance(
        apis["SubjectAccessReview"].access.credentials, Anonymous
    )
    if not authorizer.reviews_anonymous:
        text = "The API server requires no credentials; endpoints listen on loopback by default"
        instance.log.write(WARNING, f"{text}, and serve only health to other machines")
    authorizer.failed = lambda why: instance.log.write(WARNING, "Cannot review a token", error=why)
    return authorizer


def _review_api(path: str | None, own: Api) -> Api:
    """Return a connection to where reviews go: to a kubeconfig's server, or to our own."""
    access, environment = own.access, own.environment
    if path is not None:
        clocks = Clocks(time.time_ns, time.monotonic_ns)
        access = load(paths_in(path), clocks)
        environment = ClientEnvironment(clocks, Random())  # noqa: S311 - jitter; nothing here is a secret
    return Api(access, environment, _REVIEWS)


def _status_of(response: bytes) -> http.Plain:
    try:
        status: Any = msgspec.json.decode(response).get("status")
    except (msgspec.DecodeError, AttributeError):
        status = None
    if not isinstance(status, dict):
        raise ClusterError("the response to a review is of another form")
    return status
