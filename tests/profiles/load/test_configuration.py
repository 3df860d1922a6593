"""Reading configurations: places of problems, and what upstream does not check."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from policy_sched.errors import Severity
from policy_sched.profiles.load.configuration import config_from_value, default_config
from policy_sched.profiles.load.load import load_config

HEAD: dict[str, Any] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
}


def profile(**fields: Any) -> dict[str, Any]:
    """Return a configuration with one profile."""
    return {**HEAD, "profiles": [{"schedulerName": "s", **fields}]}


def messages(value: dict[str, Any]) -> list[str]:
    """Return what is wrong with a configuration that is refused."""
    loaded, problems = config_from_value(value)
    assert loaded is None
    return [problem.message for problem in problems]


@pytest.mark.parametrize("point", ["filter", "score", "multiPoint", "placementScore"])
def test_removed_plugins_are_refused_at_every_point(point: str) -> None:
    """A plugin that v1 no longer has is refused wherever it is enabled."""
    (message,) = messages(profile(plugins={point: {"enabled": [{"name": "EBSLimits"}]}}))
    assert 'Invalid value: "EBSLimits": was invalid in version' in message


def test_disabling_a_removed_plugin_is_a_warning() -> None:
    """An old file that disables a removed plugin still loads."""
    value = profile(plugins={"filter": {"disabled": [{"name": "EBSLimits"}]}})
    loaded, problems = config_from_value(value)
    assert loaded is not None
    assert [p.severity for p in problems] == [Severity.WARNING]


def test_bad_fit_arguments_are_found() -> None:
    """NodeResourcesFit's arguments are checked, which upstream does only at start."""
    args = {"scoringStrategy": {"type": "RequestedToCapacityRatio"}}
    value = profile(pluginConfig=[{"name": "NodeResourcesFit", "args": args}])
    assert messages(value) == [
        (
            "profiles[0].pluginConfig[0].args.scoringStrategy.requestedToCapacityRatio:"
            " Required value: must be specified when type is RequestedToCapacityRatio"
        )
    ]


def test_all_problems_at_once() -> None:
    """Problems of shape do not hide problems of meaning elsewhere."""
    value = {
        **HEAD,
        "paralelism": 3,
        "podMaxBackoffSeconds": 0,
        "profiles": [
            {"schedulerName": "a", "pluginConfig": [{"name": "X"}, {"name": "X"}]},
            {"schedulerName": "a", "percentageOfNodesToScore": 101},
        ],
    }
    assert sorted(messages(value)) == [
        (
            "podMaxBackoffSeconds: Invalid value: 0: must be greater than or equal to"
            " PodInitialBackoffSeconds"
        ),
        'profiles[0].pluginConfig[1].name: Duplicate value: "X"',
        "profiles[1].percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]",
        'profiles[1].schedulerName: Duplicate value: "a"',
        'unknown field "paralelism"',
    ]


def test_places_in_a_file(tmp_path: Path) -> None:
    """A problem is shown with file, line, column and the text of the line."""
    path = tmp_path / "scheduler.yaml"
    path.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\n"
        "kind: KubeSchedulerConfiguration\n"
        "profiles:\n"
        "- schedulerName: s\n"
        "  percentageOfNodesToScore: 200\n",
        encoding="utf-8",
    )
    loaded, (problem,) = load_config(str(path))
    assert loaded is None
    assert (problem.file, problem.line, problem.column) == (str(path), 5, 29)
    assert problem.source_line == "  percentageOfNodesToScore: 200"
    assert problem.width == 3


def test_files_that_hold_no_configuration(tmp_path: Path) -> None:
    """A missing, an empty and a double file are refused, each with a sentence."""
    (missing,) = load_config(str(tmp_path / "none.yaml"))[1]
    assert missing.message == "cannot read the file: No such file or directory"
    path = tmp_path / "config.yaml"
    path.write_text("# nothing\n", encoding="utf-8")
    (empty,) = load_config(str(path))[1]
    assert empty.message == "the file holds no configuration"
    one = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    path.write_text(f"{one}---\n{one}", encoding="utf-8")
    (double,) = load_config(str(path))[1]
    assert (double.line, double.message) == (4, "a configuration file holds one document")
    path.write_bytes(b"\xff\xfe\x00")
    (binary,) = load_config(str(path))[1]
    assert binary.message == "the byte 0xff is not UTF-8"


def test_schema_key_is_for_editors_only() -> None:
    """A `$schema` key is allowed and ignored."""
    loaded, problems = config_from_value({"$schema": "https://example.com/x.json", **HEAD})
    assert loaded is not None
    assert not problems


def test_the_default_configuration_enables_the_named_policies() -> None:
    """Without a file, given policies join the default plugins, or take the place of one."""
    config = default_config(["Mine", "TaintToleration"])
    assert [p.name for p in config.model.profiles[0].plugins.multi_point.enabled] == ["Mine"]
