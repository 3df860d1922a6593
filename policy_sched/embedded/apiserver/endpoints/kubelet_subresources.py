"""What needs a kubelet: logs, commands in containers, ports. There is none to be reached here.

Requests are checked as far as the API server does that itself; then they fail as they do on a
cluster whose kubelet does not answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from policy_sched.client.apimachinery import ApiError, Stored, bad_request
from policy_sched.embedded.apiserver.request import Target
from policy_sched.model import Pod

PATHS: Final = {
    "attach": "attach",
    "exec": "exec",
    "log": "containerLogs",
    "portforward": "portForward",
}
"""The kubelet's paths, by subresource."""
_PORT: Final = 10250


def refusal(target: Target, stored: Stored, query: Mapping[str, str]) -> ApiError:
    """Return why a pod's container cannot be reached."""
    pod = stored.typed
    assert isinstance(pod, Pod)
    part, wanted = target.subresource, query.get("container", "")
    names = [one.name for one in (*pod.spec.init_containers, *pod.spec.containers)]
    if part != "portforward" and wanted not in ("", *names):
        return bad_request(f"container {wanted} is not valid for pod {stored.name}")
    if part != "portforward" and not wanted and len(pod.spec.containers) > 1:
        shown = " ".join(one.name for one in pod.spec.containers)
        what = f"a container name must be specified for pod {stored.name}"
        return bad_request(f"{what}, choose one of: [{shown}]")
    node = pod.spec.node_name
    if not node:
        return bad_request(f"pod {stored.name} does not have a host assigned")
    container = wanted or pod.spec.containers[0].name if pod.spec.containers else wanted
    place = f"{stored.namespace}/{stored.name}"
    if part != "portforward":
        place += f"/{container}"
    url = f"https://{node}:{_PORT}/{PATHS[part]}/{place}"
    verb = "Get" if part == "log" else "Post"
    message = f'{verb} "{url}": dial tcp: lookup {node}: no such host'
    return ApiError(500, "", message)
