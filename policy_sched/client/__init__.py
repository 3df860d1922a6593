"""How decisions reach a cluster: the client protocol and its implementations.

The protocol is what the scheduler needs of a cluster: bind, evict, patch, record events.
MemoryClient implements it for simulations, kube/ over HTTP. The embedded control plane is in
`embedded`, above this package.
"""

from policy_sched.client.memory import (
    MemoryClient as MemoryClient,
    VirtualClient as VirtualClient,
    condition_of as condition_of,
    nomination_of as nomination_of,
)
from policy_sched.client.protocol import Client as Client, Done as Done, begun as begun
from policy_sched.client.request import (
    ObjectRequest as ObjectRequest,
    ObjectResponse as ObjectResponse,
)
from policy_sched.client.volume_controllers import (
    complete_binding as complete_binding,
    provision as provision,
)
