"""The default plugins of kube-scheduler 1.36: order, weights, and the points they implement.

Source: ``pkg/scheduler/apis/config/v1/default_plugins.go``, with the feature gates of 1.36 in
their default state. Names of points are the fields of ``plugins`` in a configuration file.
"""

from __future__ import annotations

from typing import Final

MULTI_POINT: Final = "multiPoint"

POINTS: Final = (
    "preEnqueue",
    "queueSort",
    "preFilter",
    "filter",
    "postFilter",
    "preScore",
    "score",
    "reserve",
    "permit",
    "preBind",
    "bind",
    "postBind",
    "placementGenerate",
    "placementScore",
)
"""Every extension point that a configuration names, in the order of a pod's way."""

POINT_TYPES: Final = {point: f"{point[0].upper()}{point[1:]}Plugin" for point in POINTS}
"""How upstream's messages call a point."""

DEFAULT_SCHEDULER: Final = "default-scheduler"

DEFAULT_PLUGINS: Final[tuple[tuple[str, int], ...]] = (
    ("SchedulingGates", 0),
    ("PrioritySort", 0),
    ("NodeUnschedulable", 0),
    ("NodeName", 0),
    ("TaintToleration", 3),
    ("NodeAffinity", 2),
    ("NodePorts", 0),
    ("NodeResourcesFit", 1),
    ("VolumeRestrictions", 0),
    ("NodeVolumeLimits", 0),
    ("VolumeBinding", 0),
    ("VolumeZone", 0),
    ("PodTopologySpread", 2),
    ("InterPodAffinity", 2),
    ("DynamicResources", 2),
    ("DefaultPreemption", 0),
    ("NodeResourcesBalancedAllocation", 1),
    ("ImageLocality", 1),
    ("DefaultBinder", 0),
    ("NodeDeclaredFeatures", 0),
)
"""multiPoint of the default profile; weight 0 is upstream's "not given", which counts as 1."""

_FILTER: Final = frozenset({"preFilter", "filter"})
_SCORE: Final = frozenset({"preScore", "score"})

PLUGIN_POINTS: Final[dict[str, frozenset[str]]] = {
    "SchedulingGates": frozenset({"preEnqueue"}),
    "PrioritySort": frozenset({"queueSort"}),
    "NodeUnschedulable": frozenset({"filter"}),
    "NodeName": frozenset({"filter"}),
    "TaintToleration": frozenset({"filter"}) | _SCORE,
    "NodeAffinity": _FILTER | _SCORE,
    "NodePorts": _FILTER,
    "NodeResourcesFit": _FILTER | _SCORE | {"placementScore"},
    "VolumeRestrictions": _FILTER,
    "NodeVolumeLimits": _FILTER,
    "VolumeBinding": _FILTER | _SCORE | {"reserve", "preBind"},
    "VolumeZone": _FILTER,
    "PodTopologySpread": _FILTER | _SCORE,
    "InterPodAffinity": _FILTER | _SCORE,
    "DynamicResources": _FILTER | {"preEnqueue", "postFilter", "reserve", "preBind", "score"},
    "DefaultPreemption": frozenset({"postFilter", "preEnqueue"}),
    "NodeResourcesBalancedAllocation": _SCORE,
    "ImageLocality": frozenset({"score"}),
    "DefaultBinder": frozenset({"bind"}),
    "NodeDeclaredFeatures": _FILTER,
    "GangScheduling": frozenset({"preEnqueue", "permit"}),
    "TopologyPlacementGenerator": frozenset({"placementGenerate"}),
    "PodGroupPodsCount": frozenset({"placementScore"}),
}
"""Every plugin that kube-scheduler 1.36 ships, and the points that it implements."""

REMOVED_PLUGINS: Final = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})
"""Plugins that v1 of the configuration no longer has; NodeVolumeLimits does their work."""
