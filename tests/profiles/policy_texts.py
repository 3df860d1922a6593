"""Policies and configurations as texts, for tests that write them to disk and change them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

HEAD = "apiVersion: policysched.dev/v1alpha1\nkind: Policy\nmetadata: {name: NAME}\nspec:\n"


def keeping(name: str, expression: str, message: str = "kept away") -> str:
    """Return a policy whose filter lets a pod on the nodes for which the expression holds."""
    return HEAD.replace("NAME", name) + (
        f"  filter:\n  - expression: '{expression}'\n    message: {message}\n"
    )


def gating(name: str, expression: str) -> str:
    """Return a policy that keeps the pods out of the queue for which the expression fails."""
    return HEAD.replace("NAME", name) + (
        f"  preEnqueue:\n  - expression: '{expression}'\n    message: gated\n"
    )


def scoring(name: str, expression: str) -> str:
    """Return a policy that scores nodes."""
    return HEAD.replace("NAME", name) + f"  score: {{expression: '{expression}'}}\n"


def sorting(name: str, expression: str) -> str:
    """Return a policy that orders the queue by one key."""
    return HEAD.replace("NAME", name) + f"  queueSort:\n  - expression: '{expression}'\n"


def config(profiles: Mapping[str, list[str]], queue_sort: str = "PrioritySort") -> str:
    """Return a configuration: by schedulerName, the policies enabled beside the default plugins."""
    lines = ["apiVersion: kubescheduler.config.k8s.io/v1", "kind: KubeSchedulerConfiguration"]
    lines.append("profiles:")
    for name, policies in profiles.items():
        enabled = ", ".join(f"{{name: {policy}}}" for policy in policies)
        lines += [f"- schedulerName: {name}", "  plugins:"]
        lines.append(f"    multiPoint: {{enabled: [{enabled}]}}")
        if queue_sort != "PrioritySort":
            sort = f"{{disabled: [{{name: '*'}}], enabled: [{{name: {queue_sort}}}]}}"
            lines.append(f"    queueSort: {sort}")
    return "\n".join(lines) + "\n"


def write(path: Path, text: str) -> None:
    """Write a file as editors do: beside it, and then renamed."""
    other = path.with_name(f".{path.name}.new")
    other.write_text(text, encoding="utf-8")
    os.replace(other, path)
