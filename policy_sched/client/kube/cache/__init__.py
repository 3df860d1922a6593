"""List and watch: reflectors, stores and informers.

The counterpart of client-go's tools/cache. A store holds the last known objects and turns lists
and watch events into changes.
"""

from policy_sched.client.kube.cache.informers import (
    POD_GROUPS as POD_GROUPS,
    READ as READ,
    Informers as Informers,
    discover as discover,
    selections_of as selections_of,
)
from policy_sched.client.kube.cache.reflector import (
    Reflector as Reflector,
    ReflectorSettings as ReflectorSettings,
    list_all as list_all,
)
from policy_sched.client.kube.cache.store import Change as Change, Store as Store
