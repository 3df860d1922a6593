"""Alerts and dashboard: every name in them is one that a scheduler's /metrics has."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from policy_sched.deploy.contents import Options
from policy_sched.deploy.manifests import alert_rules, dashboard
from tests.shown import page

OPTIONS = Options(name="sched-a")
ROW = re.compile(r"^\| `(\w+)` \| (\w+) \| ([^|]*) \|", re.MULTILINE)
PROMETHEUS = {
    "up": frozenset[str](),
    "process_resident_memory_bytes": frozenset[str](),
    "process_cpu_seconds_total": frozenset[str](),
}
"""Series of Prometheus itself, and of every process."""
TARGET = frozenset({"job", "instance"})


def exposed() -> dict[str, frozenset[str]]:
    """Return the series that docs/operating.md lists, with their labels."""
    series: dict[str, frozenset[str]] = dict(PROMETHEUS)
    for name, kind, labels in ROW.findall(page("docs/operating.md")):
        own = frozenset(re.findall(r"`(\w+)`", labels))
        if kind == "histogram":
            series |= {f"{name}_sum": own, f"{name}_count": own, f"{name}_bucket": own | {"le"}}
        else:
            series[name] = own
    return series


def expressions() -> list[str]:
    """Return every expression of the alerts and of the dashboard."""
    rules = [rule["expr"] for rule in alert_rules(OPTIONS)["groups"][0]["rules"]]
    panels = json.loads(dashboard(OPTIONS))["panels"]
    return rules + [target["expr"] for panel in panels for target in panel["targets"]]


def unknown(expression: str) -> list[str]:
    """Return the series and the labels in an expression that no scheduler has."""
    series = exposed()
    bad = []
    for name, selector in re.findall(r"(\w+)\{([^}]*)\}", expression):
        if name not in series:
            bad.append(name)
            continue
        labels = set(re.findall(r"(\w+)=", selector)) - TARGET
        bad += [f"{name}.{label}" for label in sorted(labels - series[name])]
    grouped = {
        word
        for by in re.findall(r"by \(([^)]*)\)", expression)
        for word in by.replace(" ", "").split(",")
    }
    there = frozenset[str]().union(
        TARGET, *(series.get(name, frozenset()) for name in re.findall(r"(\w+)\{", expression))
    )
    return bad + sorted(grouped - there)


@pytest.mark.parametrize("expression", expressions())
def test_series_and_labels_of_an_expression_exist(expression: str) -> None:
    """An alert about a metric that nothing exposes never fires."""
    assert 'job="sched-a"' in expression
    assert unknown(expression) == []


def test_a_wrong_series_or_label_would_be_seen() -> None:
    """The check above sees misspelled series, labels of selectors and labels of groups."""
    assert unknown("rate(scheduler_pending_podz{job='a'}[5m])") == ["scheduler_pending_podz"]
    assert unknown("scheduler_pending_pods{que='x'}") == ["scheduler_pending_pods.que"]
    assert unknown("sum by (plugin) (scheduler_pending_pods{job='a'})") == ["plugin"]


def test_each_alert_says_what_to_do() -> None:
    """Names are unique; each alert has a severity, a summary and a description."""
    rules = alert_rules(OPTIONS)["groups"][0]["rules"]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["description"].endswith(".")


def test_a_shadow_has_no_alert_about_a_lease() -> None:
    """A shadow holds no lease and binds nothing: `no leader` would fire for ever."""
    shadow = Options(shadow="default-scheduler")
    names = {rule["alert"] for rule in alert_rules(shadow)["groups"][0]["rules"]}
    assert "PolicySchedDown" in names
    assert not {"PolicySchedNoLeader", "PolicySchedStuck"} & names


def test_panels_do_not_overlap() -> None:
    """Each panel has an id and a place of its own, within 24 columns."""
    panels: list[dict[str, Any]] = json.loads(dashboard(OPTIONS))["panels"]
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len({panel["id"] for panel in panels}) == len(panels) > 10
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_takes_the_rules(tmp_path: Path) -> None:
    """Prometheus' own check of a rule file, of the alerts and of the dashboard's queries."""
    queries = [
        {"record": f"query:{number}", "expr": text.replace("$__rate_interval", "5m")}
        for number, text in enumerate(expressions())
    ]
    groups = [*alert_rules(OPTIONS)["groups"], {"name": "queries", "rules": queries}]
    file = tmp_path / "rules.json"
    file.write_text(json.dumps({"groups": groups}), "utf-8")
    ended = subprocess.run(["promtool", "check", "rules", file], check=False, capture_output=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_documentation_lists_each_alert() -> None:
    """An operator who is paged finds the alert, with its severity, in docs/operating.md."""
    text = page("docs/operating.md")
    rules = alert_rules(OPTIONS)["groups"][0]["rules"]
    rows = [f"| `{rule['alert']}` | {rule['labels']['severity']} |" for rule in rules]
    assert [row for row in rows if row not in text] == []
    assert text.count("| `PolicySched") == len(rows)
