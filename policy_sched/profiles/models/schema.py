"""Prints the JSON Schemas (draft-07) of our kinds of documents from their models.

``python -m policy_sched.profiles.models.schema`` writes them into the schemas
directory; descriptions are the docstrings of the models' classes and attributes.
"""

from __future__ import annotations

import ast
import itertools
import json
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

from policy_sched.profiles.models import defaults, kube_scheduler_configuration
from policy_sched.profiles.models.defaults import TEST_FILE
from policy_sched.profiles.models.experiment import Experiment
from policy_sched.profiles.models.plugin_args import ARGS
from policy_sched.profiles.models.policy import Policy
from policy_sched.profiles.models.policy_proof import PolicyProof
from policy_sched.profiles.models.policy_test import NamespaceEntry, PolicyTest, keys_of
from policy_sched.profiles.models.rollout import Rollout
from policy_sched.profiles.models.types import DURATION_PATTERN, Document
from policy_sched.source import write_file

Schema = dict[str, Any]

_REF: Final = "#/definitions/{model}"


def attribute_docs(model: type[Document]) -> dict[str, str]:
    """Return the docstring below each attribute of ``model``, read from its source file."""
    path = sys.modules[model.__module__].__file__
    assert path is not None
    body = _classes(path)[model.__name__]
    docs: dict[str, str] = {}
    for statement, following in itertools.pairwise(body):
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            docs[statement.target.id] = " ".join(str(following.value.value).split())
    return docs


@cache
def _classes(path: str) -> dict[str, list[ast.stmt]]:
    """Return the bodies of the classes of a source file."""
    tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    return {n.name: n.body for n in tree.body if isinstance(n, ast.ClassDef)}


def _models(model: type[Document] = Document) -> Iterator[type[Document]]:
    """Yield every model of the room."""
    for subclass in model.__subclasses__():
        yield subclass
        yield from _models(subclass)


def _simplify(schema: Any) -> Any:
    """Return ``schema`` without generated titles, and without null: absence is left out."""
    if isinstance(schema, list):
        return [_simplify(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {k: v for k, v in schema.items() if not (k == "title" and isinstance(v, str))}
    if kept.get("default", ...) is None:
        del kept["default"]
    if kept.get("pattern") == DURATION_PATTERN and "default" in kept:
        kept["default"] = f"{kept['default'] // kube_scheduler_configuration.SECOND}s"
    choices = [s for s in kept.get("anyOf", ()) if s != {"type": "null"}]
    if len(choices) == 1:
        del kept["anyOf"]
        kept = {**choices[0], **kept}
        kept.pop("title", None)
    elif choices:
        kept["anyOf"] = choices
    return {key: _simplify(value) for key, value in kept.items()}


def _describe(definition: Schema, model: type[Document]) -> None:
    """Put the docstrings of ``model`` and its attributes into its definition."""
    definition["description"] = " ".join((model.__doc__ or "").split())
    for ancestor in reversed(model.__mro__):
        if ancestor is Document or not issubclass(ancestor, Document):
            continue
        for name, text in attribute_docs(ancestor).items():
            field = model.model_fields[name]
            properties = definition["properties"]
            key = field.alias or name
            if "$ref" in properties[key]:
                # Draft-07 ignores the neighbours of $ref.
                properties[key] = {
                    "allOf": [{"$ref": properties[key].pop("$ref")}],
                    **properties[key],
                }
            properties[key] = {"description": text, **properties[key]}


def printed_schema(model: type[Document], extra: tuple[type[Document], ...] = ()) -> Schema:
    """Return the draft-07 schema of ``model``; ``extra`` models join its definitions."""
    definitions: Schema = {}
    root: Schema = {}
    for kind in (model, *extra):
        printed = kind.model_json_schema(by_alias=True, ref_template=_REF)
        definitions.update(printed.pop("$defs", {}))
        if kind is model:
            root = printed
        else:
            definitions[kind.__name__] = printed
    root, definitions = _simplify(root), _simplify(definitions)
    by_name = {m.__name__: m for m in _models()}
    _describe(root, model)
    for name, definition in definitions.items():
        _describe(definition, by_name[name])
    root["properties"] = {
        "$schema": {"type": "string", "description": "Address of this schema; for editors only."},
        **root["properties"],
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": model.__name__,
        **root,
        "definitions": dict(sorted(definitions.items())),
    }


def configuration_schema() -> Schema:
    """Return the schema of a KubeSchedulerConfiguration document, plugin arguments included."""
    schema = printed_schema(
        kube_scheduler_configuration.KubeSchedulerConfiguration, tuple(ARGS.values())
    )
    schema["definitions"]["PluginConfig"]["allOf"] = [
        {
            "if": {"properties": {"name": {"const": name}}, "required": ["name"]},
            "then": {"properties": {"args": {"$ref": _REF.format(model=model.__name__)}}},
        }
        for name, model in ARGS.items()
    ]
    return schema


def test_schema() -> Schema:
    """Return the schema of a PolicyTest document; short forms and manifests differ."""
    schema = printed_schema(PolicyTest)
    expected = schema["definitions"]["Expectation"]["properties"]
    for nowhere in ("chosen", "placement"):  # null says that the pod fits nowhere
        expected[nowhere]["type"] = ["string", "null"]
    expected["placements"]["additionalProperties"]["type"] = ["integer", "null"]
    del schema["required"]  # as in the shortest tests: a name and what is pending
    properties = schema["properties"]
    pod = {"if": {"required": ["pod"]}, "then": {"$ref": _REF.format(model="PodEntry")}}
    manifest = {"if": {"required": ["kind"]}, "then": {"$ref": _REF.format(model="Manifest")}}
    node, namespace = (
        {"$ref": _REF.format(model=model)} for model in ("NodeEntry", "NamespaceEntry")
    )
    # An object of an input, in short: what it begins with, and what it has, only the test's
    # policies and their schemas know.
    names = {"enum": list(keys_of(NamespaceEntry))}
    alone = {"required": ["namespace"], "propertyNames": names}
    short_form = {"if": alone, "then": namespace, "else": {"type": "object", "minProperties": 1}}
    short_form = {"if": {"required": ["node"]}, "then": node, "else": short_form}
    properties["objects"]["items"] = {**manifest, "else": {**pod, "else": short_form}}
    text = {"if": {"type": "string"}, "then": {"minLength": 1}}
    last = {"$ref": _REF.format(model="PodEntry")}
    properties["pending"]["items"] = {**text, "else": {**manifest, "else": last}}
    return schema


def schemas() -> dict[str, str]:
    """Return the text of every schema file by its name."""
    printed = {
        defaults.CONFIGURATION_FILE: configuration_schema(),
        defaults.POLICY_FILE: printed_schema(Policy),
        TEST_FILE: test_schema(),
        defaults.EXPERIMENT_FILE: printed_schema(Experiment),
        defaults.PROOF_FILE: printed_schema(PolicyProof),
        defaults.ROLLOUT_FILE: printed_schema(Rollout),
    }
    return {name: _text(schema) for name, schema in printed.items()}


def _text(document: Schema) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def definitions() -> dict[str, str]:
    """Return the text of the file of each CustomResourceDefinition by its name."""
    from policy_sched.profiles.models import custom_resources  # noqa: PLC0415 - it imports this

    return {
        f"{resource.name}.json": _text(custom_resources.definition_of(resource))
        for resource in custom_resources.CUSTOM_RESOURCES
    }


def main() -> None:
    """Write the schema files."""
    for name, text in {**schemas(), **definitions()}.items():
        write_file(defaults.schemas_directory() / name, text.encode())


if __name__ == "__main__":
    main()
