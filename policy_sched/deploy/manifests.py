"""All objects of a deployment, in the order in which they can be created, and their texts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import yaml

from policy_sched.deploy.access import Plain, access, named, priority
from policy_sched.deploy.contents import Contents
from policy_sched.deploy.options import SYSTEM, Options
from policy_sched.deploy.workload import monitored, workload


def manifests(options: Options, files: Contents) -> Iterator[Plain]:
    """Yield the objects; a namespace of its own is among them."""
    if options.namespace != SYSTEM:
        yield named("v1", "Namespace", options.namespace)
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
    document = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


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
