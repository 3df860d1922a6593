"""List and watch: reflectors, stores and informers.

The counterpart of client-go's tools/cache. A store holds the last known objects and turns lists
and watch events into changes.
"""

from policy_sched.client.kube.cache.informers import POD_GROUPS, READ, Informers, selections_of
from policy_sched.client.kube.cache.reflector import Reflector, ReflectorSettings, list_all
from policy_sched.client.kube.cache.store import Change

__all__ = [
    "POD_GROUPS",
    "READ",
    "Change",
    "Informers",
    "Reflector",
    "ReflectorSettings",
    "list_all",
    "selections_of",
]
