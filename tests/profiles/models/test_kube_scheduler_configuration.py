"""Defaults of KubeSchedulerConfiguration v1."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from policy_sched.profiles.load.configuration import config_from_value, default_config
from policy_sched.profiles.models import plugin_args
from policy_sched.profiles.models.kube_scheduler_configuration import (
    SECOND,
    ClientConnection,
    LeaderElection,
    Plugins,
    PluginSet,
)
from policy_sched.profiles.models.types import Document
from policy_sched.profiles.resolve.plan import resolve

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
CONFORMANCE = sorted((Path(__file__).parents[2] / "conformance").glob("*.jsonl.gz"))


def test_an_empty_configuration_has_upstreams_defaults() -> None:
    """Only apiVersion and kind: one profile, default-scheduler, and every default value."""
    loaded, problems = config_from_value(HEAD)
    assert loaded is not None
    assert not problems
    model = loaded.model
    assert [p.scheduler_name for p in model.profiles] == ["default-scheduler"]
    assert model.parallelism == 16
    assert model.percentage_of_nodes_to_score == 0
    assert (model.pod_initial_backoff_seconds, model.pod_max_backoff_seconds) == (1, 10)
    assert (model.client_connection.qps, model.client_connection.burst) == (50.0, 100)
    assert model.leader_election.lease_duration == 15 * SECOND
    assert model.leader_election.renew_deadline == 10 * SECOND
    assert model.leader_election.retry_period == 2 * SECOND
    assert model.leader_election.resource_namespace == "kube-system"
    assert model.enable_profiling
    assert not model.delay_cache_until_active


def test_null_is_absent() -> None:
    """A key without a value means its default, as Kubernetes reads it."""
    loaded, problems = config_from_value({**HEAD, "profiles": None, "parallelism": None})
    assert not problems
    assert loaded is not None
    assert loaded.model == default_config().model


@pytest.mark.parametrize("path", CONFORMANCE, ids=lambda p: p.name)
def test_configurations_that_kube_scheduler_read_are_read(path: Path) -> None:
    """Every configuration of the conformance data loads and resolves without a word."""
    seen: set[str] = set()
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            config = json.loads(line).get("config")
            if config is not None:
                seen.add(json.dumps(config))
    for text in sorted(seen):
        loaded, problems = config_from_value(json.loads(text))
        assert loaded is not None
        plans, more = resolve(loaded, ())
        assert len(plans) == len(json.loads(text).get("profiles") or [{}])
        assert not problems + more


@pytest.mark.parametrize("model", [PluginSet, Plugins, LeaderElection, ClientConnection])
def test_defaults_that_are_not_validated_are_valid(model: type[Document]) -> None:
    """A section that is absent is the same as one without entries."""
    absent, empty = model.model_construct(), model.model_validate({})
    assert absent == empty
    assert absent.model_dump() == empty.model_dump()


def test_the_default_scoring_strategy_is_valid() -> None:
    """Writing the default strategy of NodeResourcesFit out changes nothing."""
    strategy = plugin_args.NodeResourcesFitArgs().scoring_strategy
    written = plugin_args.ScoringStrategy.model_validate(strategy.model_dump(by_alias=True))
    assert written == strategy
    assert all(type(one) is plugin_args.ResourceSpec for one in strategy.resources)
