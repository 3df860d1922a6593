"""KubeSchedulerConfiguration v1 as pydantic models: upstream's fields, defaults and ranges.

Sources of names, defaults and ranges: ``staging/src/k8s.io/kube-scheduler/config/v1/types.go``,
``pkg/scheduler/apis/config/v1/defaults.go`` and ``.../validation/validation.go`` of Kubernetes
1.36. What spans several fields is checked in validate/configuration.py. ``errorMessage`` in a
schema holds the words that upstream uses for a value out of range.
"""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, WithJsonSchema, model_validator

from policy_sched.profiles.models import types

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
KIND: Final = "KubeSchedulerConfiguration"
SECOND: Final = 1_000_000_000
INT32_MAX: Final = 2**31 - 1


def message(words: str) -> dict[str, Any]:
    """Return the schema extra that carries upstream's words for a value out of range."""
    return {"errorMessage": words}


Percentage = Annotated[
    Annotated[int, Field(ge=0, le=100)] | Literal["adaptive"],
    WithJsonSchema(
        {
            "type": ["integer", "string"],
            "minimum": 0,
            "maximum": 100,
            "pattern": "^adaptive$",
            **message("not in valid range [0-100]"),
        }
    ),
]
"""A share of nodes in percent, or the word adaptive, which kube-scheduler does not know."""


class Plugin(types.Document):
    """One plugin of a list, and its weight where it scores."""

    name: str
    """Name of the plugin: a built-in one, a Policy's metadata.name, or a Python plugin's."""
    weight: Annotated[
        int, Field(ge=0, le=INT32_MAX, json_schema_extra=message("must not be negative"))
    ] = 0
    """Factor of the plugin's score; 0 or absent means 1. Read at score points only."""


class DisabledPlugin(types.Document):
    """One plugin that is taken out of an extension point."""

    name: str
    """Name of the plugin, or "*" for all of them."""
    weight: int = 0
    """Ignored; accepted because upstream accepts it."""


class PluginSet(types.Document):
    """Plugins added to and taken out of one extension point."""

    enabled: types.Many[Plugin] = ()
    """Plugins enabled here besides the default ones, in this order."""
    disabled: types.Many[DisabledPlugin] = ()
    """Default plugins disabled here; "*" disables all of them."""


_NO_PLUGINS: Final = PluginSet.model_construct()
"""A default; as the others it is made without the validator, which takes a start some time."""


class Plugins(types.Document):
    """Plugin sets per extension point.

    A plugin set of a single extension point goes before multiPoint, and multiPoint before the
    default plugins. Enabled wins over disabled.
    """

    pre_enqueue: PluginSet = _NO_PLUGINS
    """Called before a pod enters the active queue."""
    queue_sort: PluginSet = _NO_PLUGINS
    """Orders the scheduling queue; one plugin, the same in all profiles."""
    pre_filter: PluginSet = _NO_PLUGINS
    """Called once per pod before nodes are filtered."""
    filter: PluginSet = _NO_PLUGINS
    """Removes nodes that cannot run the pod."""
    post_filter: PluginSet = _NO_PLUGINS
    """Called when no node is left, for instance to preempt."""
    pre_score: PluginSet = _NO_PLUGINS
    """Called once per pod before nodes are scored."""
    score: PluginSet = _NO_PLUGINS
    """Ranks the nodes that are left."""
    reserve: PluginSet = _NO_PLUGINS
    """Called when a node is chosen, and again when that is undone."""
    permit: PluginSet = _NO_PLUGINS
    """May hold a pod back before it is bound."""
    pre_bind: PluginSet = _NO_PLUGINS
    """Work that must be done before a pod is bound."""
    bind: PluginSet = _NO_PLUGINS
    """Binds the pod; the first plugin that does not skip."""
    post_bind: PluginSet = _NO_PLUGINS
    """Called after a pod is bound."""
    multi_point: PluginSet = _NO_PLUGINS
    """Enables or disables plugins at every extension point that they implement."""
    placement_generate: PluginSet = _NO_PLUGINS
    """Generates placements of a pod group (behind a feature gate upstream)."""
    placement_score: PluginSet = _NO_PLUGINS
    """Ranks placements of a pod group (behind a feature gate upstream)."""


class PluginConfig(types.Document):
    """Arguments of one plugin, or parameters of one Policy."""

    name: str
    """Name of the plugin."""
    args: dict[str, Any] = Field(default_factory=dict)
    """The plugin's arguments; for a Policy, values of its params."""


class KubeSchedulerProfile(types.Document):
    """One scheduler name, and the plugins that schedule its pods."""

    scheduler_name: str | None = None
    """Pods with this spec.schedulerName use this profile; default-scheduler if it is the only."""
    percentage_of_nodes_to_score: Percentage | None = None
    """Overrides the global value for this profile."""
    plugins: Plugins = Plugins.model_construct()
    """Plugins enabled and disabled in this profile."""
    plugin_config: types.Many[PluginConfig] = ()
    """Arguments per plugin; a plugin without an entry has its default arguments."""


class ExtenderManagedResource(types.Document):
    """An extended resource that an extender manages."""

    name: str
    """Name of the extended resource."""
    ignored_by_scheduler: bool = False
    """NodeResourcesFit does not check this resource; such names replace its ignoredResources."""


class ExtenderTLSConfig(types.Document):
    """Transport security towards an extender."""

    insecure: bool = False
    """Do not verify the server's certificate; for tests only."""
    server_name: str = ""
    """Name checked against the server's certificate."""
    cert_file: str = ""
    """File of the client certificate."""
    key_file: str = ""
    """File of the client key."""
    ca_file: Annotated[str, Field(alias="caFile")] = ""
    """File of the trusted root certificates."""
    cert_data: str = ""
    """Client certificate, PEM in base64."""
    key_data: str = ""
    """Client key, PEM in base64."""
    ca_data: Annotated[str, Field(alias="caData")] = ""
    """Trusted root certificates, PEM in base64."""


class ExtenderPodSelectorRequirement(types.Document):
    """One requirement on a pod's labels."""

    key: str
    """Label key."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """How the label is compared."""
    values: types.Many[str] = ()
    """Values to compare with; for In and NotIn."""


class ExtenderPodSelector(types.Document):
    """Labels that a pod must have to be an extender's concern; empty means all pods."""

    match_labels: dict[str, str] = Field(default_factory=dict)
    """Labels and their values."""
    match_expressions: types.Many[ExtenderPodSelectorRequirement] = ()
    """Requirements on labels; all of them must hold."""


class Extender(types.Document):
    """An HTTP service that takes part in filtering, scoring, preempting or binding.

    Extenders come after the plugins, in the order of the file, ignorable ones last.
    """

    url_prefix: str
    """Address of the extender, http or https; a verb is appended to it with a slash."""
    filter_verb: str = ""
    """Appended to urlPrefix to filter; empty if the extender does not filter."""
    preempt_verb: str = ""
    """Appended to urlPrefix to preempt; empty if the extender does not preempt."""
    prioritize_verb: str = ""
    """Appended to urlPrefix to score; empty if the extender does not score."""
    weight: Annotated[int, Field(le=2**63 - 1)] = 0
    """Factor of the extender's scores, which are 0 to 10 and count ten times."""
    bind_verb: str = ""
    """Appended to urlPrefix to bind; at most one extender binds."""
    enable_https: Annotated[bool, Field(alias="enableHTTPS")] = False
    """Do not verify the server of an https address where tlsConfig has no trusted roots."""
    tls_config: ExtenderTLSConfig | None = None
    """Transport security."""
    http_timeout: Annotated[types.Duration, Field(alias="httpTimeout")] = 5 * SECOND
    """Longest call, from connecting to the last byte; 0 or absent means 5s."""
    node_cache_capable: bool = False
    """The extender knows the nodes: send names only. Otherwise nodes are sent as they are known
    here, with the fields that scheduling reads."""
    managed_resources: types.Many[ExtenderManagedResource] = ()
    """Only pods with a container that requests one of these are its concern; empty means all."""
    pod_selector: ExtenderPodSelector | None = None
    """Only pods with these labels are its concern; absent means all. An addition: kube-scheduler
    does not have it."""
    ignorable: bool = False
    """Go on without the extender when it fails; scores of one that fails never count."""


class LeaderElection(types.Document):
    """Which of several schedulers is at work; a zero or empty value means its default."""

    leader_elect: bool = True
    """Elect a leader before scheduling; default true."""
    lease_duration: types.Duration = 15 * SECOND
    """How long a lease holds; default 15s."""
    renew_deadline: types.Duration = 10 * SECOND
    """The leader gives up when it could not renew for so long; default 10s."""
    retry_period: types.Duration = 2 * SECOND
    """Wait between tries; default 2s."""
    resource_lock: str = "leases"
    """Kind of the lock object; only leases."""
    resource_name: str = "kube-scheduler"
    """Name of the lock object."""
    resource_namespace: str = "kube-system"
    """Namespace of the lock object."""

    @model_validator(mode="after")
    def _defaults(self) -> Self:
        """Put defaults in place of empty values, as upstream does."""
        return types.zero_means_default(self)


class ClientConnection(types.Document):
    """How to talk to the API server; a zero or empty value means its default."""

    kubeconfig: str = ""
    """Path of a kubeconfig file, or in-cluster; --kubeconfig counts before it."""
    accept_content_types: str = ""
    """Accepted and unused: responses are JSON."""
    content_type: str = "application/vnd.kubernetes.protobuf"
    """Accepted and unused: requests are JSON."""
    qps: float = 50.0
    """Requests a second; default 50."""
    burst: Annotated[int, Field(ge=0, json_schema_extra=message("must be non-negative"))] = 100
    """Requests at once; default 100."""

    @model_validator(mode="after")
    def _defaults(self) -> Self:
        """Put defaults in place of empty values, as upstream does."""
        return types.zero_means_default(self)


class KubeSchedulerConfiguration(types.Document):
    """The configuration of kube-scheduler, kubescheduler.config.k8s.io/v1, unchanged.

    A Policy is enabled, weighted, ordered and disabled by its name like a built-in plugin, and
    its params are set by pluginConfig.
    """

    api_version: Literal["kubescheduler.config.k8s.io/v1"]
    """Version of this format."""
    kind: Literal["KubeSchedulerConfiguration"]
    """Kind of this document."""
    parallelism: Annotated[
        int,
        Field(
            ge=1,
            le=INT32_MAX,
            json_schema_extra=message("should be an integer value greater than zero"),
        ),
    ] = 16
    """Accepted and unused: all nodes are looked at as columns. Default 16."""
    leader_election: LeaderElection = LeaderElection.model_construct()
    """Leader election."""
    client_connection: ClientConnection = ClientConnection.model_construct()
    """Connection to the API server."""
    enable_profiling: bool = True
    """Accepted and unused: the pages are of Go. Default true."""
    enable_contention_profiling: bool = True
    """Accepted and unused: the pages are of Go. Default true."""
    percentage_of_nodes_to_score: Percentage = 0
    """Choose among the first nodes found once this share of all nodes is feasible, 1 to 99.

    0, the default, and 100 look at all nodes, which costs nothing here, as nodes are columns. The
    word adaptive stands for what 0 means to kube-scheduler: 50 percent and less where there are
    many nodes, down to 5. At least 100 feasible nodes are always looked for.
    """
    pod_initial_backoff_seconds: Annotated[
        int, Field(ge=1, json_schema_extra=message("must be greater than 0"))
    ] = 1
    """First backoff of an unschedulable pod; default 1."""
    pod_max_backoff_seconds: int = 10
    """Longest backoff; default 10."""
    profiles: types.Many[KubeSchedulerProfile] = ()
    """Scheduling profiles; none means one, default-scheduler, with the default plugins."""
    extenders: types.Many[Extender] = ()
    """Extenders, shared by all profiles."""
    feature_gates: dict[str, bool] = Field(default_factory=dict)
    """Feature gates to turn on or off, as kube-scheduler's flag --feature-gates does:
    GenericWorkload, GangScheduling, TopologyAwareWorkloadScheduling and WorkloadAwarePreemption;
    all are off by default. An addition: kube-scheduler reads gates from the flag only.
    """
    delay_cache_until_active: bool = False
    """Accepted and unused: a standby keeps its caches up to date. Default false."""
