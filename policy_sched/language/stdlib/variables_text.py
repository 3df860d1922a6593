"""The text of the environment's tables: one line for each group of fields, with its sentence."""

from __future__ import annotations

from typing import Final

_POD: Final = """
name namespace uid | string | P | | Identity in the API.
labels annotations | map(string, string) | P | | Metadata by key.
nodeName | string | P | | The node that spec.nodeName asks for or that it runs on, or "".
nominatedNodeName | string | P | | The node kept free for it by preemption, or "".
schedulerName | string | P | | The scheduler that it requests.
priority | int | P | int32 | Its priority; 0 where none is set.
priorityClassName | string | P | | The name of its priority class, or "".
preemptionPolicy | string | P | | PreemptLowerPriority or Never.
qosClass | string | P | | Guaranteed, Burstable or BestEffort.
serviceAccountName runtimeClassName | string | P | | From its specification, or "".
ownerKind ownerName ownerUID | string | P | | Of its controller, or "".
podGroup | string | P | | The name of its pod group, or "".
hostNetwork | bool | P | | Whether it shares the node's network.
terminating | bool | P | | Whether its deletion has begun.
creationTime | timestamp | P | | When it was created.
startTime | optional(timestamp) | P | | When its kubelet began with it; none before that.
nodeSelector | map(string, string) | P | | Labels that its node must have.
tolerations | list(Toleration) | P | | The taints that it tolerates.
containers | list(Container) | P | | Init containers first, then main ones.
images | list(string) | P | | Normalised names, one for each container and image volume.
hostPorts | list(HostPort) | P | | Host ports of main containers and sidecars.
schedulingGates | list(string) | P | | Names of the gates that hold it back.
pvcNames | list(string) | P | | Names of its persistent volume claims.
requests | resources | P | | What it needs in all, as the scheduler counts; `pods` not counted.
nonZeroRequests | resources | P | | As requests, with 100m cpu and 200Mi for containers without.
limits | resources | P | | Its limits in all, as the scheduler counts.
"""

_NODE: Final = """
name | string | S | | Its name.
labels annotations | map(string, string) | S | | Metadata by key.
taints | list(Taint) | S | | Its taints.
unschedulable | bool | S | | Whether it is cordoned.
ready | bool | S | | Whether its condition Ready is True.
conditions | list(Condition) | S | | Its conditions.
images | map(string, Image) | S | | Images on it, by normalised name.
providerID | string | S | | Its identity at the cloud provider.
architecture operatingSystem osImage kernelVersion | string | S | | From its system information.
kubeletVersion runtimeVersion | string | S | | From its system information.
declaredFeatures | list(string) | S | | Features that its kubelet declares.
creationTime | timestamp | S | | When it was created.
capacity allocatable | resources | S | | What it has; what pods may use of it.
requested nonZeroRequested | resources | D | | What its pods request.
free | resources | D | | allocatable less requested; may be below zero.
pods | list(Pod) | D | | The pods on it.
podCount | int | D | count | The number of pods on it.
usedPorts | list(HostPort) | D | | Host ports in use.
"""

_PLACEMENT: Final = """
domain | string | X | | The domain's value.
nodes | list(Node) | X | | Its nodes.
assigned | list(Pod) | X | | The group's pods in it: those that run there, and those that would.
allocatable requested free | resources | X | | Totals over its nodes, those pods included.
"""

_EVENT: Final = """
kind action | string | X | | What happened to what.
oldNode newNode | optional(Node) | X | | The node before and after.
oldPod newPod | optional(Pod) | X | | The pod before and after.
"""

#: (record, sentence, lines of ``names | type | level | range | sentence``)
RECORD_TEXTS: Final = (
    ("Pod", "A pod, as the scheduler sees it.", _POD),
    ("Node", "A node and what runs on it.", _NODE),
    (
        "Cluster",
        "All nodes together.",
        """
nodeCount podCount | int | T | count | How many there are.
pods | list(Pod) | T | | The pods on all nodes; for counts and quantifiers alone.
allocatable requested | resources | T | | Totals over the nodes.
""",
    ),
    (
        "Domain",
        "The nodes that share a label's value.",
        """
value | string | D | | The label's value.
nodeCount podCount | int | D | count | How many it holds.
pods | list(Pod) | D | | The pods on its nodes.
allocatable requested free | resources | D | | Totals over its nodes.
""",
    ),
    (
        "Namespace",
        "A pod's namespace.",
        """
name | string | P | | Its name.
labels annotations | map(string, string) | P | | Metadata by key.
""",
    ),
    (
        "PodGroup",
        "The group of pods that a pod belongs to.",
        """
name | string | P | | Its name, or "".
exists | bool | P | | Whether there is a PodGroup of that name.
minCount | int | P | count | How many must run together.
members scheduled waiting | int | P | count | Its pods: all, those bound, those held by permit.
topologyKey | string | P | | The label whose value its nodes must share, if it says so; else "".
scheduleTimeout | optional(duration) | P | | How long its pods may wait for one another, if stated.
""",
    ),
    (
        "Queue",
        "A pod's time in the scheduling queue.",
        """
enqueuedAt firstEnqueuedAt | timestamp | P | | The last and the first time it was added.
attempts unschedulableCount | int | P | count | Attempts, and failed attempts.
""",
    ),
    (
        "Cycle",
        "This attempt to schedule the pod.",
        """
attempt | int | P | count | The number of this attempt.
profile | string | P | | The name of the profile in use.
feasibleNodes | int | P | count | Nodes that passed every filter, once known.
preempting | bool | P | | Whether preemption asks.
""",
    ),
    (
        "Stats",
        "Raw scores over the feasible nodes.",
        """
min max sum | int | X | score | The least, the greatest, the total.
mean | double | X | | The average.
count | int | X | count | The number of scores.
""",
    ),
    (
        "DoubleStats",
        "Raw scores over the feasible nodes, where the rule of the score is a double.",
        """
min max sum | double | X | | The least, the greatest, the total.
mean | double | X | | The average.
count | int | X | count | The number of scores.
""",
    ),
    (
        "Image",
        "A container image on a node.",
        """
sizeBytes | int | S | bytes | Its size.
numNodes | int | S | count | How many nodes have it.
""",
    ),
    ("Taint", "A node's taint.", "key value effect | string | S | | As in the node's spec."),
    (
        "Toleration",
        "A pod's toleration.",
        """
key operator value effect | string | P | | As in the pod's spec.
tolerationSeconds | optional(int) | P | | How long it tolerates NoExecute.
""",
    ),
    (
        "Container",
        "A container of a pod.",
        """
name image | string | P | | As in the pod's spec.
kind | string | P | | init, sidecar or main.
requests limits | resources | P | | Its own.
""",
    ),
    (
        "HostPort",
        "A port on the node's own address.",
        """
ip protocol | string | D | | 0.0.0.0 means all addresses.
port | int | D | port | Its number.
""",
    ),
    (
        "Condition",
        "A condition of a node.",
        "type status reason | string | S | | As in the node's status.",
    ),
    ("Placement", "A domain that a pod group may be placed in.", _PLACEMENT),
    ("Event", "A change in the cluster.", _EVENT),
)

#: name | type | level | sentence
VARIABLE_TEXT: Final = """
pod | Pod | P | The pod to be scheduled.
node | Node | D | The node under evaluation.
cluster | Cluster | T | All nodes together.
namespaceObject | Namespace | P | The pod's namespace.
podGroup | PodGroup | P | The pod's group.
queue | Queue | P | The pod's time in the queue.
cycle | Cycle | P | This attempt.
now | timestamp | P | The time of this cycle; the same for every node.
score | int | X | This node's raw score; a double where its rule is one.
scores | Stats | X | Raw scores over the feasible nodes; DoubleStats where the rule is a double.
victim | Pod | X | A candidate victim of preemption.
victims | list(Pod) | X | All victims on the node, most important first.
pdbViolations | int | X | Disruption budgets that the victims would violate.
placement | Placement | X | The domain that is scored, as it would be with the group in it.
event | Event | X | The change that may make the pod schedulable.
"""
