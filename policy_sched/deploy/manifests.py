"""All objects of a deployment, in the order in which they can be created, and their texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import yaml

from policy_sched.deploy.contents import APP, SYSTEM, Contents, Options
from policy_sched.deploy.workload import Plain, access, monitored, named, priority, workload
from policy_sched.report import json_text

_OURS: Final = {"app.kubernetes.io/managed-by": "policy-sched-manifests"}
_RESTRICTED: Final = {"pod-security.kubernetes.io/enforce": "restricted"}


def manifests(options: Options, files: Contents) -> Iterator[Plain]:
    """Yield the objects, each with labels to find it by; a namespace of its own is among them."""
    for one in _objects(options, files):
        metadata = one["metadata"]
        metadata["labels"] = {APP: options.name, **_OURS, **metadata.get("labels", {})}
        yield one


def _objects(options: Options, files: Contents) -> Iterator[Plain]:
    if options.namespace != SYSTEM:
        namespace = named("v1", "Namespace", options.namespace)
        namespace["metadata"]["labels"] = dict(_RESTRICTED)
        yield namespace
    yield from access(options, files.lease)
    yield from priority(options)
    yield from workload(options, files)
    if options.service_monitor:
        yield from monitored(options)


def as_yaml(objects: Sequence[Plain]) -> str:
    """Return the objects as documents of YAML; the same bytes for the same objects."""
    return yaml.dump_all(
        objects, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100, explicit_start=True
    )


def as_json(objects: Sequence[Plain]) -> str:
    """Return the objects as a List in JSON."""
    return json_text({"apiVersion": "v1", "kind": "List", "items": list(objects)})


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, and nothing as an alias."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - PyYAML's signature
        """Write everything where it belongs."""
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002 - PyYAML's
        """Indent lists below their keys."""
        super().increase_indent(flow, indentless=False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
