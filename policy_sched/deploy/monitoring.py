"""Alerts for Prometheus and a dashboard for Grafana, made of monitoring.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any, Final

from policy_sched.deploy.contents import Options
from policy_sched.report import json_text

Plain = dict[str, Any]
_WIDTH: Final = 12
"""Columns of a panel; a dashboard has 24."""
_HEIGHT: Final = 8
_DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}


def _definitions() -> dict[str, list[Plain]]:
    return tomllib.loads(files(__package__).joinpath("monitoring.toml").read_text("utf-8"))


def _of_job(expression: str, options: Options) -> str:
    """Return an expression about the scrapes of this deployment: their job is its Service."""
    return expression.replace("JOB", f'job="{options.name}"')


def alert_rules(options: Options) -> Plain:
    """Return the alerts as the content of a rule file of Prometheus."""
    rules = [
        {
            "alert": alert["name"],
            "expr": _of_job(alert["expr"], options),
            "for": alert["for"],
            "labels": {"severity": alert["severity"]},
            "annotations": {"summary": alert["summary"], "description": alert["description"]},
        }
        for alert in _definitions()["alert"]
        if options.shadow is None or not alert.get("leads")
    ]
    return {"groups": [{"name": options.name, "rules": rules}]}


def dashboard(options: Options) -> str:
    """Return the dashboard as JSON; the data source is chosen in Grafana."""
    panels = list(_panels(_definitions()["panel"], options))
    source = {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
    }
    return json_text(
        {
            "title": options.name,
            "uid": options.name[:40],  # the longest that Grafana takes
            "tags": ["scheduler"],
            "schemaVersion": 39,
            "editable": True,
            "refresh": "30s",
            "time": {"from": "now-3h", "to": "now"},
            "templating": {"list": [source]},
            "panels": panels,
        }
    )


def _panels(definitions: list[Plain], options: Options) -> Iterator[Mapping[str, object]]:
    for number, panel in enumerate(definitions):
        row, column = divmod(number, 24 // _WIDTH)
        yield {
            "id": number + 1,
            "type": "timeseries",
            "title": panel["title"],
            "datasource": _DATASOURCE,
            "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
            "fieldConfig": {"defaults": {"unit": panel["unit"], "min": 0}, "overrides": []},
            "targets": [
                {
                    "refId": chr(ord("A") + index),
                    "datasource": _DATASOURCE,
                    "expr": _of_job(expression, options),
                    "legendFormat": legend,
                }
                for index, (expression, legend) in enumerate(panel["queries"])
            ],
        }
