"""The status pages: configuration and policies in the form of files, without secrets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from policy_sched.instance.http import status_pages
from policy_sched.profiles.reload.inputs import PolicyFiles
from policy_sched.profiles.reload.store import PolicyStore
from policy_sched.testing import FakeClock
from tests.profiles.policy_texts import keeping, write

CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaseDuration: 1m30s}
profiles:
- schedulerName: mine
  plugins: {multiPoint: {enabled: [{name: Keep, weight: 7}]}}
extenders:
- urlPrefix: https://example.org
  filterVerb: filter
  enableHTTPS: true
  httpTimeout: 250ms
  tlsConfig: {insecure: true}
"""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (15, "15s"),
        (600, "10m0s"),
        (3600, "1h0m0s"),
        (90, "1m30s"),
        (1.5, "1.5s"),
        (0.25, "250ms"),
        (0, "0s"),
    ],
)
def test_durations_are_written_as_go_writes_them(seconds: float, text: str) -> None:
    """As in kube-scheduler's /configz."""
    assert status_pages.go_duration(round(seconds * 1e9)) == text


@pytest.fixture
def store(tmp_path: Path) -> PolicyStore:
    """A store of one policy and a configuration with an extender."""
    write(tmp_path / "keep.yaml", keeping("Keep", 'node.name == "a"'))
    write(tmp_path / "config.yaml", CONFIG)
    files = PolicyFiles(str(tmp_path / "config.yaml"), (str(tmp_path / "keep.yaml"),))
    return PolicyStore(files, FakeClock(1_000_000_000_000_000_000))


def test_configz_has_upstreams_shape(store: PolicyStore) -> None:
    """Under one name, with its version, defaults filled in and durations as text."""
    shown: dict[str, Any] = status_pages.configz(store, store.current.settings)
    (name,) = shown
    assert name == "componentconfig"
    config = shown[name]
    assert config["apiVersion"] == "kubescheduler.config.k8s.io/v1"
    assert config["kind"] == "KubeSchedulerConfiguration"
    assert config["leaderElection"]["leaseDuration"] == "1m30s"
    assert config["extenders"][0]["httpTimeout"] == "250ms"
    (profile,) = config["profiles"]
    assert profile["schedulerName"] == "mine"
    assert {"name": "Keep"} in profile["plugins"]["filter"]["enabled"]
    args = {one["name"]: one["args"] for one in profile["pluginConfig"]}
    assert args["VolumeBinding"] == {"bindTimeoutSeconds": 600}


def test_no_key_is_shown(store: PolicyStore) -> None:
    """An extender's key is configured, but not readable."""
    (extender,) = store.current.settings.extenders
    tls = extender.tls_config.model_copy(update={"key_data": "c2VjcmV0"})
    settings = store.current.settings.model_copy(
        update={"extenders": (extender.model_copy(update={"tls_config": tls}),)}
    )
    shown = status_pages.configz(store, settings)
    assert "c2VjcmV0" not in str(shown)
    assert shown["componentconfig"]["extenders"][0]["tlsConfig"]["keyData"] == status_pages.HIDDEN


def test_the_policies_page_shows_what_is_in_force_and_why_the_last_reload_failed(
    store: PolicyStore, tmp_path: Path
) -> None:
    """Generation, hashes and positions; the problems of a rejected reload."""
    shown = status_pages.policies(store)
    assert (shown["generation"], shown["lastReloadSuccessful"]) == (1, True)
    assert (shown["loadedAt"], shown["lastError"]) == ("2001-09-09T01:46:40Z", None)
    assert len(shown["contentHash"]) == 64
    (profile,) = shown["profiles"]
    (keep,) = [one for one in profile["policies"] if one["name"] == "Keep"]
    assert "filter" in keep["points"]
    write(tmp_path / "keep.yaml", keeping("Keep", "node.nam"))
    store.reload()
    shown = status_pages.policies(store)
    assert (shown["generation"], shown["lastReloadSuccessful"]) == (1, False)
    (problem,) = shown["lastError"]["problems"]
    assert (problem["code"], problem["line"]) == ("PS102", 6)
    assert shown["reloads"]["refused"] == 1


def test_the_version_names_the_upstream_release() -> None:
    """kube-scheduler's minor, and the version of policy_sched."""
    found = status_pages.version()
    assert (found["major"], found["minor"]) == ("1", "36")
    assert found["gitVersion"].startswith("v1.36.0+policy-sched.")
