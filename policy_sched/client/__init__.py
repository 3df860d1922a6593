"""How decisions reach a cluster: the client protocol and its implementations.

The protocol is what the scheduler needs of a cluster: bind, evict, patch, record events.
MemoryClient implements it for simulations, kube/ over HTTP. The embedded control plane is in
`embedded`, above this package.
"""

from policy_sched.client.memory import (
    MemoryClient,
    VirtualClient,
    condition_of,
    nomination_of,
)
from policy_sched.client.protocol import Client, Done, begun
from policy_sched.client.request import ObjectRequest, ObjectResponse
from policy_sched.client.volume_controllers import complete_binding, provision

__all__ = [
    "Client",
    "Done",
    "MemoryClient",
    "ObjectRequest",
    "ObjectResponse",
    "VirtualClient",
    "begun",
    "complete_binding",
    "condition_of",
    "nomination_of",
    "provision",
]
