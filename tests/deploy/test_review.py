"""What a reviewer asks of manifests before they are let onto a cluster."""

from __future__ import annotations

import json
from typing import Any

import pytest

from policy_sched.cli.main import run
from policy_sched.deploy.manifests import Options

Plain = dict[str, Any]
FORMS = (
    (),
    ("--shadow",),
    ("--namespace", "sched", "--service-monitor"),
    ("--tls-secret", "cert", "--service-monitor"),
)


@pytest.fixture(params=FORMS, ids=" ".join)
def objects(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> list[Plain]:
    """Return the objects of one form of deployment."""
    return printed(capsys, *request.param)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[Plain]:
    """Return the objects that are printed."""
    assert run(["manifests", *arguments, "-o", "json"]) == 0
    items: list[Plain] = json.loads(capsys.readouterr().out)["items"]
    return items


def pod(objects: list[Plain]) -> Plain:
    """Return the pod of the Deployment."""
    (spec,) = (o["spec"]["template"]["spec"] for o in objects if o["kind"] == "Deployment")
    assert isinstance(spec, dict)
    return spec


RESTRICTED_VOLUMES = frozenset({"configMap", "emptyDir", "secret", "projected", "downwardAPI"})


def test_pods_pass_the_restricted_profile(objects: list[Plain]) -> None:
    """Each control of the pod security standard, as Kubernetes lists them."""
    spec = pod(objects)
    (container,) = spec["containers"]
    own, around = container["securityContext"], spec["securityContext"]
    assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers"} & spec.keys()
    assert all(not port.get("hostPort") for port in container["ports"])
    kinds = {kind for volume in spec["volumes"] for kind in volume if kind != "name"}
    assert kinds <= RESTRICTED_VOLUMES
    assert own["allowPrivilegeEscalation"] is False
    assert own["capabilities"] == {"drop": ["ALL"]}
    assert own["readOnlyRootFilesystem"] is True
    assert (around["runAsNonRoot"], around["runAsUser"] > 0) == (True, True)
    assert around["seccompProfile"] == {"type": "RuntimeDefault"}


def test_a_namespace_of_its_own_enforces_that_profile(capsys: pytest.CaptureFixture[str]) -> None:
    """Access to the container gives no further access."""
    first = printed(capsys, "--namespace", "sched")[0]
    assert first["kind"] == "Namespace"
    assert first["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_everything_can_be_found_by_its_label(objects: list[Plain]) -> None:
    """For inventories, and for kubectl delete -l."""
    labels = [label["metadata"]["labels"] for label in objects]
    assert all(label["app.kubernetes.io/name"] == "policy-sched" for label in labels)
    assert all(
        label["app.kubernetes.io/managed-by"] == "policy-sched-manifests" for label in labels
    )


def test_pods_go_to_linux_and_know_no_neighbours(objects: list[Plain]) -> None:
    """No node of another system; no environment made of Services, which flags could come from."""
    spec = pod(objects)
    assert spec["nodeSelector"] == {"kubernetes.io/os": "linux"}
    assert spec["enableServiceLinks"] is False


def test_nothing_secret_touches_a_disk(objects: list[Plain]) -> None:
    """What is written to /tmp for OpenSSL stays in memory; secrets are readable by one group."""
    volumes = {volume["name"]: volume for volume in pod(objects)["volumes"]}
    assert volumes["tmp"]["emptyDir"]["medium"] == "Memory"
    for volume in volumes.values():
        if "secret" in volume:
            assert volume["secret"]["defaultMode"] == 0o440


def test_replicas_of_one_version_are_apart(capsys: pytest.CaptureFixture[str]) -> None:
    """During a roll-out, too; and a pod that is broken does not hold up a drain."""
    output = printed(capsys)
    spread = pod(output)["topologySpreadConstraints"]
    assert all(item["matchLabelKeys"] == ["pod-template-hash"] for item in spread)
    (budget,) = (item["spec"] for item in output if item["kind"] == "PodDisruptionBudget")
    assert (budget["maxUnavailable"], budget["unhealthyPodEvictionPolicy"]) == (1, "AlwaysAllow")


def test_resources_have_bounds(objects: list[Plain]) -> None:
    """Memory has one; processor time has none, as a leader must renew its lease.

    Nothing is written to the node's disk but a shadow's records, and they have a bound.
    """
    (container,) = pod(objects)["containers"]
    resources = container["resources"]
    assert resources["requests"].keys() == {"cpu", "memory"}
    assert resources["limits"].keys() == {"memory"}
    scratch = [volume["emptyDir"] for volume in pod(objects)["volumes"] if "emptyDir" in volume]
    assert all(item["sizeLimit"] for item in scratch)


def test_a_certificate_of_the_cluster_is_served_and_checked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """--tls-secret: mounted as a whole, so that it is read again; Prometheus checks it."""
    output = printed(capsys, "--tls-secret", "cert", "--service-monitor")
    spec = pod(output)
    (container,) = spec["containers"]
    (mount,) = (m for m in container["volumeMounts"] if m["name"] == "tls")
    assert (mount["readOnly"], "subPath" in mount) == (True, False)
    assert container["args"][-2:] == [
        f"--tls-cert-file={mount['mountPath']}/tls.crt",
        f"--tls-private-key-file={mount['mountPath']}/tls.key",
    ]
    (monitor,) = (
        item["spec"]["endpoints"][0] for item in output if item["kind"] == "ServiceMonitor"
    )
    assert monitor["tlsConfig"] == {
        "ca": {"secret": {"name": "cert", "key": "ca.crt"}},
        "serverName": "policy-sched.kube-system.svc",
    }


def test_a_secret_must_have_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    """One of Kubernetes."""
    assert run(["manifests", "--tls-secret", "No!"]) == 2
    assert "--tls-secret 'No!' is no name of Kubernetes" in capsys.readouterr().err
    assert Options().tls_secret is None
