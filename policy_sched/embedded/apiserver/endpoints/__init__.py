"""HTTP handlers: get, list, watch, write, subresources, health and discovery.

The counterpart of k8s.io/apiserver/pkg/endpoints.
"""

from policy_sched.embedded.apiserver.endpoints.server import ApiServer as ApiServer
