"""DynamicResources: claims of devices, allocated with the pods that use them.

Pools are what a node reaches of the published slices; the allocator finds devices for claims on one
node; the plugin reserves what was found and writes it before the pod is bound.
"""

from policy_sched.plugins.dynamicresources.devices import DeviceId, as_record
from policy_sched.plugins.dynamicresources.plugin import DynamicResources

__all__ = ["DeviceId", "DynamicResources", "as_record"]
