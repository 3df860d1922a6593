"""Experiment as a pydantic model: a cluster, a workload, variants of the policies, and measures.

The package `experiments` runs it; the keys and their JSON Schema are here. Texts may hold ${NAME}
for an entry of `parameters`, and those of files' columns ${seed}.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from policy_sched.profiles.models import types
from policy_sched.profiles.models.policy import Identifier

Number = Annotated[float, Field(strict=False)]
"""A number; an integer is one, too."""


class ExperimentMetadata(types.Document):
    """The name of an experiment."""

    name: str
    """What the experiment is called; results are in the folder NAME-results unless asked for."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Free labels; not read."""
    annotations: dict[str, str] = Field(default_factory=dict)
    """Free annotations; not read."""


class CountedDevices(types.Document):
    """Devices of nodes that are counted one by one. Each is a resource, too: RESOURCE-0 and so on.

    Which of them a bound pod gets is said by the policy that the variant names in `devices`.
    """

    resource: str
    """The resource of nodes and pods that consists of devices."""
    size: Annotated[int, Field(ge=1)]
    """How much of the resource a device has."""


class ExperimentCluster(types.Document):
    """The nodes, and everything else that is there before the first pod of the workload."""

    files: types.Many[str] = ()
    """Manifests, snapshots or tables of nodes, relative to this file."""
    generate: types.Many[str] = ()
    """Nodes as simulate --nodes takes them: "160*cpu=96,memory=512Gi"."""
    devices: CountedDevices | None = None
    """Devices that are counted one by one."""


class RowTemplate(types.Document):
    """Pods from the rows of a table, one each; texts hold ${row.COLUMN}."""

    file: str
    """The table: CSV with a header, or that with .gz."""
    pod: dict[str, Any]
    """A Pod, as in a manifest."""
    submit: str | None = None
    """The column with the second at which the pod arrives, counted from the start."""
    duration: str | None = None
    """The column with the seconds for which the pod runs."""


class Inflation(types.Document):
    """Pods that are drawn at random and added, until the workload requests enough."""

    resource: str
    """The resource whose requests are counted."""
    percent: Number
    """What the workload requests in the end, in percent of what the nodes have."""


class Arrivals(types.Document):
    """Pods arrive one after the other."""

    file: str | None = None
    """A table whose rows say which pod arrives next: the number of a pod in the workload's files,
    from 0. An empty cell is the end. Without it, the workload's pods in their order."""
    column: str = "${seed}"
    """The column of the table."""
    order: Literal["Given", "Name", "Shuffled"] = "Given"
    """The order of pods without a table: as in the files, by name, or shuffled by the seed."""
    inflate: Inflation | None = None
    """Pods that are drawn by the seed and follow the others."""
    every: types.Duration | None = None
    """The time between two arrivals. Without it no time passes: each pod has one attempt, and one
    that fits nowhere is gone."""


class ExperimentWorkload(types.Document):
    """The pods that arrive."""

    files: types.Many[str] = ()
    """Manifests, or tables of pods, relative to this file."""
    recording: str | None = None
    """A recording, relative to this file: its cluster, and its pods when they came. Nodes, objects
    and pods change, come and go as they did; of equal nodes the recorded one is taken."""
    rows: RowTemplate | None = None
    """Pods from a table of another form."""
    arrivals: Arrivals | None = None
    """The order of arrival. Without it pods arrive at their creationTimestamp, in virtual time."""
    retry: Literal["Backoff", "AtOnce"] = "Backoff"
    """When a pod that fits nowhere is tried again, in virtual time: after a backoff and the events
    that may help it, as in a cluster; or whenever something happens."""
    departures: bool = True
    """Whether pods leave when their duration (policysched.dev/duration) is over."""


class Variant(types.Document):
    """What decides in some of the runs; what is absent is as in the other variants."""

    name: str | None = None
    """Name in tables and figures. A variant of a matrix is named by its values."""
    config: str | None = None
    """A KubeSchedulerConfiguration, relative to this file; the default profile without it."""
    policies: types.Many[types.FileName] = ()
    """Policy files, directories of them, or names of shipped policies. Without config each is
    enabled with weight 1."""
    params: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """By plugin: parameters of a policy, or arguments of a plugin, over those of the files."""
    weights: dict[str, int] = Field(default_factory=dict)
    """By plugin: its weight at score; 0 takes it out of score."""
    devices: str | None = None
    """The policy whose variable `devices` says what a bound pod gets of each device of its node, a
    list of ints. It sees the node as it was without the pod."""


class Axis(types.Document):
    """A parameter or a weight that takes several values."""

    name: str | None = None
    """Name in tables and figures; unless given, what is changed."""
    param: str | None = None
    """The parameter: PLUGIN.NAME, and .NAME again inside of a mapping."""
    weight: str | None = None
    """The plugin whose weight at score is changed."""
    values: types.Many[Any] = ()
    """The values."""


class SearchAxis(types.Document):
    """A parameter or a weight that tune chooses."""

    name: str | None = None
    """Name in tables and figures; unless given, what is changed."""
    param: str | None = None
    """The parameter: PLUGIN.NAME, and .NAME again inside of a mapping."""
    weight: str | None = None
    """The plugin whose weight at score is changed."""
    values: types.Many[Any] = ()
    """The values to choose from, or else a range."""
    least: Number | None = None
    """The least value."""
    most: Number | None = None
    """The greatest value."""
    step: Number | None = None
    """The distance of neighbouring values; 1 for weights and integers."""
    log: bool = False
    """Whether the logarithm of the value is what is searched."""


class SeedRange(types.Document):
    """Seeds that follow each other."""

    first: Annotated[int, Field(ge=0)] = 0
    """The first one."""
    count: Annotated[int, Field(ge=1, le=100_000)]
    """How many there are."""


class TieBreak(types.Document):
    """The choice between nodes with equal scores."""

    order: Literal["Random", "Given"] = "Random"
    """Random: by the seed. Given: the first in the order of the nodes."""
    file: str | None = None
    """A table whose rows are the order: the number of a node in the cluster's files, from 0."""
    column: str = "${seed}"
    """The column of the table."""


class Measure(types.Document):
    """A value of a run. It has one of allocation, nodes, measure, pods and time."""

    name: Identifier
    """Its name, as a column is called."""
    allocation: str | None = None
    """A resource: what pods request of it, in percent of what nodes have."""
    nodes: types.Expression | None = None
    """A rule over node, whose values are summed over all nodes."""
    policy: str | None = None
    """The policy whose params, functions and variables the rules may use, or whose measure it is.
    Its params are those of the variant, if it enables the policy."""
    measure: str | None = None
    """The name of a measure that the policy states."""
    percent_of: types.Expression | None = None
    """Another rule over node: the measure is in percent of its sum."""
    pods: Literal["Arrived", "Placed", "Unplaced", "Pending", "Running", "Evicted"] | None = None
    """A number of pods."""
    time: Literal["Waiting", "Completion", "Makespan"] | None = None
    """Seconds: from creation to binding, from creation to the end, from the start to the end."""
    summary: Literal["Last", "Mean", "Max", "Integral", "P50", "P90", "P99"] | None = None
    """What stands for the run: of allocation, nodes and pods the last value unless given, or the
    mean, the greatest, or the sum over time (value times seconds). Of time over all pods: the mean
    unless given, the greatest, or a percentile."""
    better: Literal["Higher", "Lower"] | None = None
    """Which values are better; for the words of the report."""
    unit: str = ""
    """The unit, for figures."""
    decimals: int | None = Field(default=None, ge=0, le=15)
    """Digits behind the point to which the value is rounded at each event, as simulators that log
    it do; without it nothing is rounded."""
    point_decimals: int | None = Field(default=None, ge=0, le=15)
    """Digits behind the point to which the points of curves are rounded, halves to even."""


class Curve(types.Document):
    """Where the values of measures go in curves. It has one of arrived, pods and time."""

    arrived: str | None = None
    """A resource: what the pods requested that arrived so far, in percent of what nodes have."""
    pods: bool = False
    """The number of pods that arrived."""
    time: bool = False
    """Hours since the start."""
    step: Number = 1.0
    """The distance of the points."""
    value: Literal["Mean", "Last"] = "Mean"
    """Of the values that are nearest to a point (for time: between a point and the next): the mean,
    or the last one."""


class Stop(types.Document):
    """When a run ends before everything has happened; the first of these counts."""

    after: types.Duration | None = None
    """Virtual time since the start."""
    arrived: Annotated[int, Field(ge=1)] | None = None
    """Pods that have arrived."""
    unplaced: Annotated[int, Field(ge=1)] | None = None
    """Pods that had no node at an attempt."""


class Grouped(types.Document):
    """A parameter that is computed: the kinds of rows of a table, the most frequent first.

    Its value is a list of mappings with the columns (numbers as integers), count, and share among
    those that are listed.
    """

    policy: str
    """The policy."""
    param: str
    """Its parameter."""
    file: str
    """The table: CSV with a header, or that with .gz."""
    by: types.Many[str]
    """The columns that make the kind of a row. Of equally frequent kinds, the one with larger
    values comes first."""
    cover: Number = 100.0
    """Percent of the rows; kinds beyond are left out."""


class Figure(types.Document):
    """A figure of the report."""

    kind: Literal["Curve", "Bars", "HeatMap", "Pareto"]
    """Curve: over what `curve` says, with the band from 25 to 75 %. Bars: means with 25 to 75 %.
    HeatMap: the mean over two axes of the matrix. Pareto: two measures, and which variants no other
    one beats in both."""
    measures: types.Many[str]
    """The measures: one, or two for Pareto."""
    x: str | None = None
    """An axis of the matrix, for HeatMap."""
    y: str | None = None
    """Another one."""
    title: str | None = None
    """The title."""


class ExperimentSpec(types.Document):
    """What is run, and what is measured."""

    parameters: dict[str, str | int | float | bool] = Field(default_factory=dict)
    """Values for ${NAME} in other texts; sweep --set NAME=VALUE replaces them."""
    cluster: ExperimentCluster = ExperimentCluster()
    """The nodes, and what is there before the first pod; with a recording those of that."""
    workload: ExperimentWorkload
    """The pods that arrive."""
    base: Variant = Variant()
    """What all variants have in common."""
    variants: types.Many[Variant] = ()
    """The variants; the first one is what the others are compared with."""
    matrix: types.Many[Axis] = ()
    """Every variant with every combination of these values."""
    search: types.Many[SearchAxis] = ()
    """What policy-sched tune chooses."""
    computed: types.Many[Grouped] = ()
    """Parameters of policies that are computed from tables."""
    seeds: types.Many[Annotated[int, Field(ge=0)]] | SeedRange
    """The seeds: every variant is run with each."""
    tie_break: TieBreak = TieBreak()
    """The choice between nodes with equal scores."""
    curve: Curve | None = None
    """Where the values go in curves; without it there are none."""
    measures: types.Many[Measure]
    """What is measured."""
    stop: Stop = Stop()
    """When a run ends."""
    record: types.Many[Literal["Pods"]] = ()
    """Pods: a table of all pods of all runs, with node and times."""
    figures: types.Many[Figure] = ()
    """The figures of the report; without it, what fits the measures."""


class Experiment(types.Document):
    """Runs of a workload on a cluster with variants of the policies, and what is measured."""

    api_version: Literal["policysched.dev/v1alpha1"]
    """Version of this form."""
    kind: Literal["Experiment"]
    """Kind of the document."""
    metadata: ExperimentMetadata
    """Name of the experiment."""
    spec: ExperimentSpec
    """What is run, and what is measured."""
