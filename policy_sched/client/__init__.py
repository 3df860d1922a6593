"""How decisions reach a cluster: the client protocol and its implementations.

The protocol is what the scheduler needs of a cluster: bind, evict, patch, record events.
MemoryClient implements it for simulations, kube/ over HTTP. The embedded control plane is in
`embedded`, above this package.
"""

from policy_sched.client.memory import MemoryClient
from policy_sched.client.protocol import Client, Done, begun
from policy_sched.client.request import Answered, ObjectRequest
from policy_sched.client.volume_controllers import complete_binding, provision

__all__ = [
    "Answered",
    "Client",
    "Done",
    "MemoryClient",
    "ObjectRequest",
    "begun",
    "complete_binding",
    "provision",
]
