"""HTTP extenders: filter, prioritize, preempt and bind by a web service.

The wire format is kube-scheduler's extender/v1.
"""

from policy_sched.plugins.extenders.http_extender import (
    ExtenderSettings as ExtenderSettings,
    HttpExtender as HttpExtender,
    TlsSettings as TlsSettings,
    tls_faults as tls_faults,
)
