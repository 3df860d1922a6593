"""Prints our kinds as CustomResourceDefinitions, from the models that read files.

A structural schema has no references, one type in each place, and no conditions that state types.
So references are written out, and what may be of several types has none: the scheduler judges it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from policy_sched.profiles.models import policy
from policy_sched.profiles.models.policy_status import PolicyStatus
from policy_sched.profiles.models.rollout import Rollout
from policy_sched.profiles.models.rollout_status import RolloutStatus
from policy_sched.profiles.models.schema import Schema, printed_schema
from policy_sched.profiles.models.types import Document

_ANY: Final = "x-kubernetes-preserve-unknown-fields"
_KEPT: Final = (
    "type", "description", "format", "pattern", "enum", "required", "minimum", "maximum",
    "minItems", "maxItems", "minLength", "maxLength", _ANY,
    "x-kubernetes-list-type", "x-kubernetes-list-map-keys",
)  # fmt: skip
"""Words that mean the same in both kinds of schema."""


class CustomResource(NamedTuple):
    """A kind of ours that a cluster keeps objects of.

    ``columns``: what kubectl get shows, as name, type, path and description. ``defaults``: fields
    that the API server fills in, by their paths.
    """

    api_version: str
    kind: str
    plural: str
    short_names: tuple[str, ...]
    model: type[Document]
    status: type[Document]
    columns: tuple[tuple[str, str, str, str], ...]
    defaults: Mapping[tuple[str, ...], Any]

    @property
    def name(self) -> str:
        """The name of the definition."""
        return f"{self.plural}.{self.group}"

    @property
    def group(self) -> str:
        """The API group."""
        return self.api_version.partition("/")[0]


CUSTOM_RESOURCES: Final = (
    CustomResource(
        policy.POLICY_API_VERSION,
        policy.POLICY_KIND,
        "policies",
        ("pol",),
        policy.Policy,
        PolicyStatus,
        (
            (
                "Accepted",
                "string",
                '.status.conditions[?(@.type=="Accepted")].status',
                "Whether the policy has no error.",
            ),
            ("Mode", "string", ".spec.enforcement", "Whether the policy decides, or is audited."),
            (
                "Generation",
                "integer",
                ".status.observedGeneration",
                "The generation of the policy that the scheduler has judged.",
            ),
            (
                "Matched",
                "integer",
                ".status.counts.podsMatched",
                "Evaluations of pods in which the policy took part.",
            ),
            ("Age", "date", ".metadata.creationTimestamp", "Since when the policy is there."),
        ),
        {("spec", "enforcement"): "Enforce"},
    ),
    CustomResource(
        policy.POLICY_API_VERSION,
        policy.ROLLOUT_KIND,
        "rollouts",
        ("polro",),
        Rollout,
        RolloutStatus,
        (
            ("Phase", "string", ".status.phase", "Where the rollout is."),
            ("Step", "string", ".status.step", "The step, and of how many."),
            ("Candidate", "string", ".status.candidate", "The policies that are rolled out."),
            ("Age", "date", ".metadata.creationTimestamp", "Since when the rollout is there."),
        ),
        {},
    ),
)
"""Our kinds that a cluster may have objects of."""


def definition_of(resource: CustomResource) -> dict[str, Any]:
    """Return the CustomResourceDefinition of a kind."""
    kind, version = resource.kind, resource.api_version.partition("/")[2]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.name},
        "spec": {
            "group": resource.group,
            "scope": "Cluster",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": resource.plural,
                "singular": kind.lower(),
                "shortNames": list(resource.short_names),
                "categories": ["scheduling"],
            },
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": _root(resource)},
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [
                        {"name": name, "type": form, "jsonPath": path, "description": text}
                        for name, form, path, text in resource.columns
                    ],
                }
            ],
        },
    }


def _root(resource: CustomResource) -> Schema:
    printed, status = printed_schema(resource.model), printed_schema(resource.status)
    fields = {key: value for key, value in printed["properties"].items() if key not in _OWN}
    root = {
        "type": "object",
        "description": printed["description"],
        "required": [key for key in printed["required"] if key not in _OWN],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            **{key: structural(value, printed["definitions"]) for key, value in fields.items()},
            "status": structural(status, status["definitions"]),
        },
    }
    del root["properties"]["status"]["properties"]["$schema"]
    for path, value in resource.defaults.items():
        place = root
        for step in path:
            place = place["properties"][step]
        place["default"] = value
    return root


_OWN: Final = frozenset({"$schema", "apiVersion", "kind", "metadata"})
"""Keys of a document whose schema in a cluster is not ours."""


def structural(schema: Schema, definitions: Schema) -> Schema:
    """Return a JSON Schema of draft-07 as a structural one, with its references written out."""
    result: Schema = {}
    for part in (*schema.get("allOf", ()), schema):
        reference = part.get("$ref")
        if reference is not None:
            result |= structural(definitions[reference.rpartition("/")[2]], definitions)
        result |= {key: part[key] for key in _KEPT if key in part}
    if "const" in schema:
        result["enum"] = [schema["const"]]
    inner = {
        name: structural(value, definitions) for name, value in schema.get("properties", {}).items()
    }
    if inner:
        result["properties"] = inner
    if "items" in schema:
        result["items"] = structural(schema["items"], definitions)
    values = schema.get("additionalProperties", False)
    if values is True:
        result[_ANY] = True
    elif values:
        result["additionalProperties"] = structural(values, definitions)
    if "anyOf" in schema or isinstance(result.get("type"), list):
        return _of_any_type(result, schema.get("anyOf", ()), definitions)
    return result


def _of_any_type(result: Schema, choices: Any, definitions: Schema) -> Schema:
    """Return the schema of what may be of several types; the fields of the mapping among them."""
    forms = [structural(choice, definitions) for choice in choices]
    fields = {key: value for form in forms for key, value in form.get("properties", {}).items()}
    described = {"description": result["description"]} if "description" in result else {}
    return {**described, _ANY: True, **({"properties": fields} if fields else {})}
