"""What is wrong with the fields of an object: causes, and the refusal that names all of them.

(apimachinery's field.Error, and NewInvalid.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from policy_sched.client.apimachinery import ApiError, Resource, encoded
from policy_sched.embedded.apiserver.registry import quoted
from policy_sched.manifests import Plain
from policy_sched.model import formats

MOST: Final = 1_000
"""Causes that one refusal names."""
IMMUTABLE: Final = "field is immutable"


def shown(value: object) -> str:
    """Return a value as messages have it."""
    if isinstance(value, str):
        return quoted(value)
    return quoted("null") if value is None else encoded(value).decode()


class Problems:
    """Collects what is wrong. ``at`` is a field's path, such as ``spec.containers[0].name``."""

    def __init__(self) -> None:
        self.causes: dict[tuple[str, str, str], None] = {}

    def _add(self, at: str, reason: str, text: str, why: str = "") -> None:
        if len(self.causes) < MOST:
            self.causes[at, reason, f"{text}: {why}" if why else text] = None

    def required(self, at: str, why: str = "") -> None:
        """A required value is missing."""
        self._add(at, "FieldValueRequired", "Required value", why)

    def invalid(self, at: str, value: object, why: str) -> None:
        """A value is not what it has to be."""
        self._add(at, "FieldValueInvalid", f"Invalid value: {shown(value)}", why)

    def unsupported(self, at: str, value: object, known: Iterable[str]) -> None:
        """A value is none of those that are known."""
        why = f"supported values: {', '.join(map(quoted, known))}"
        self._add(at, "FieldValueNotSupported", f"Unsupported value: {shown(value)}", why)

    def duplicate(self, at: str, value: object) -> None:
        """A value is duplicate."""
        self._add(at, "FieldValueDuplicate", f"Duplicate value: {shown(value)}")

    def unknown(self, at: str, value: object) -> None:
        """A value names something that is not there."""
        self._add(at, "FieldValueNotFound", f"Not found: {shown(value)}")

    def forbidden(self, at: str, why: str) -> None:
        """Something must not be."""
        self._add(at, "FieldValueForbidden", "Forbidden", why)

    def too_long(self, at: str, most: int) -> None:
        """A value has too many bytes."""
        self._add(at, "FieldValueTooLong", "Too long", f"may not be more than {most} bytes")

    def too_many(self, at: str, count: int, most: int) -> None:
        """A list has too many items."""
        noun = "item" if most == 1 else "items"
        why = f"must have at most {most} {noun}"
        self._add(at, "FieldValueTooMany", f"Too many: {count}", why)

    def each(self, at: str, value: object, words: Iterable[str]) -> None:
        """A value is invalid for each of some reasons."""
        for why in words:
            self.invalid(at, value, why)

    def refusal(self, resource: Resource, name: str) -> ApiError:
        """Return the answer that tells everything."""
        texts = [f"{at}: {words}" for at, _, words in self.causes]
        said = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
        kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
        causes = [
            {"reason": reason, "message": words, "field": at} for at, reason, words in self.causes
        ]
        group: dict[str, Any] = {"group": resource.group} if resource.group else {}
        details = {"name": name, **group, "kind": resource.kind, "causes": causes}
        return ApiError(422, "Invalid", f'{kind} "{name}" is invalid: {said}', details)


MOST_ANNOTATED: Final = 256 * 1024
"""Bytes that annotations may have, keys and values."""
_OWNED_BY: Final = ("apiVersion", "kind", "name", "uid")
_OWNERS: Final = "metadata.ownerReferences"


def check_metadata(problems: Problems, meta: Plain) -> None:
    """Check an object's metadata but for its name."""
    check_labels(problems, "metadata.labels", meta.get("labels"))
    check_annotations(problems, "metadata.annotations", meta.get("annotations"))
    references = meta.get("ownerReferences") or ()
    for place, one in enumerate(references):
        for field in _OWNED_BY:
            if not one.get(field):
                what = "version" if field == "apiVersion" else field
                why = f"{what} must not be empty"
                problems.invalid(f"{_OWNERS}[{place}].{field}", "", why)
    controllers = [one.get("name") for one in references if one.get("controller")]
    if len(controllers) > 1:
        first, second = (f"{one}" for one in controllers[:2])
        why = (
            "Only one reference can have Controller set to true. Found"
            f' "true" in references for {first} and {second}'
        )
        problems.invalid(_OWNERS, references, why)
    for one in meta.get("finalizers") or ():
        problems.each("metadata.finalizers", one, formats.qualified(str(one)))


def check_labels(problems: Problems, at: str, labels: Any) -> None:
    """Check keys and values of labels."""
    if not isinstance(labels, dict):
        return
    for key, value in labels.items():
        problems.each(at, key, formats.qualified(key))
        problems.each(at, value, formats.label_value(str(value)))


def check_annotations(problems: Problems, at: str, annotations: Any) -> None:
    """Check keys of annotations, and how long they are altogether."""
    if not isinstance(annotations, dict):
        return
    size = 0
    for key, value in annotations.items():
        problems.each(at, key, formats.qualified(key.lower()))
        size += len(key) + len(str(value))
    if size > MOST_ANNOTATED:
        problems.too_long(at, MOST_ANNOTATED)


EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_SELECTOR_OPERATORS: Final = ("DoesNotExist", "Exists", "In", "NotIn")
_FEW: Final = ("In", "NotIn")
_NONE: Final = ("Exists", "DoesNotExist")


def items(value: Any) -> Iterator[tuple[int, Plain]]:
    """Yield the objects of a list with their places; nothing of what is no list."""
    for place, one in enumerate(value if isinstance(value, list) else ()):
        if isinstance(one, dict):
            yield place, one


def inside(value: Any, field: str) -> Any:
    """Return a field of what may be an object."""
    return value.get(field) if isinstance(value, dict) else None


def check_label_selector(problems: Problems, at: str, selector: Any) -> None:
    """Check a label selector."""
    check_labels(problems, f"{at}.matchLabels", inside(selector, "matchLabels"))
    for place, one in items(inside(selector, "matchExpressions")):
        here, operator = f"{at}.matchExpressions[{place}]", one.get("operator")
        if operator in _FEW and not one.get("values"):
            why = "must be specified when `operator` is 'In' or 'NotIn'"
            problems.required(f"{here}.values", why)
        elif operator in _NONE and one.get("values"):
            why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            problems.forbidden(f"{here}.values", why)
        elif operator not in _SELECTOR_OPERATORS:
            problems.invalid(f"{here}.operator", operator or "", "not a valid selector operator")
        problems.each(f"{here}.key", one.get("key") or "", formats.qualified(one.get("key") or ""))
        for number, value in enumerate(one.get("values") or ()):
            words = formats.label_value(str(value))
            problems.each(f"{here}.values[{number}]", value, words)


def check_node_selector(problems: Problems, at: str, selector: Any) -> None:
    """Check the required part of a node affinity."""
    if not inside(selector, "nodeSelectorTerms"):
        why = "must have at least one node selector term"
        problems.required(f"{at}.nodeSelectorTerms", why)
    for place, term in items(inside(selector, "nodeSelectorTerms")):
        check_node_term(problems, f"{at}.nodeSelectorTerms[{place}]", term)


def check_node_term(problems: Problems, at: str, term: Any) -> None:
    """Check one term of a node selector."""
    for place, one in items(inside(term, "matchExpressions")):
        here = f"{at}.matchExpressions[{place}]"
        _check_node_requirement(problems, here, one)
        problems.each(f"{here}.key", one.get("key") or "", formats.qualified(one.get("key") or ""))
    for place, one in items(inside(term, "matchFields")):
        _check_field(problems, f"{at}.matchFields[{place}]", one)


def _check_node_requirement(problems: Problems, at: str, one: Plain) -> None:
    operator, values = one.get("operator"), one.get("values") or ()
    if operator in _FEW:
        if not values:
            why = "must be specified when `operator` is 'In' or 'NotIn'"
            problems.required(f"{at}.values", why)
    elif operator in _NONE:
        if values:
            why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            problems.forbidden(f"{at}.values", why)
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            why = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            problems.required(f"{at}.values", why)
    else:
        problems.invalid(f"{at}.operator", operator or "", "not a valid selector operator")


def _check_field(problems: Problems, at: str, one: Plain) -> None:
    values = one.get("values") or ()
    if one.get("operator") not in _FEW:
        why = "not a valid selector operator"
        problems.invalid(f"{at}.operator", one.get("operator") or "", why)
    elif len(values) != 1:
        why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        problems.required(f"{at}.values", why)
    if one.get("key") != "metadata.name":
        why = "not a valid field selector key"
        problems.invalid(f"{at}.key", one.get("key") or "", why)
        return
    for number, value in enumerate(values):
        problems.each(f"{at}.values[{number}]", value, formats.subdomain(str(value)))


def check_affinity(problems: Problems, at: str, affinity: Any) -> None:
    """Check the affinity of a pod."""
    nodes = inside(affinity, "nodeAffinity")
    here = f"{at}.nodeAffinity"
    required = inside(nodes, "requiredDuringSchedulingIgnoredDuringExecution")
    if required is not None:
        place = f"{here}.requiredDuringSchedulingIgnoredDuringExecution"
        check_node_selector(problems, place, required)
    for number, one in items(inside(nodes, "preferredDuringSchedulingIgnoredDuringExecution")):
        place = f"{here}.preferredDuringSchedulingIgnoredDuringExecution[{number}]"
        _check_weight(problems, place, one)
        check_node_term(problems, f"{place}.preference", one.get("preference"))
    for kind in ("podAffinity", "podAntiAffinity"):
        _check_pod_affinity(problems, f"{at}.{kind}", inside(affinity, kind))


def _check_weight(problems: Problems, at: str, one: Plain) -> None:
    weight = one.get("weight") or 0
    if not 1 <= weight <= 100:
        problems.invalid(f"{at}.weight", weight, "must be in the range 1-100")


def _check_pod_affinity(problems: Problems, at: str, affinity: Any) -> None:
    required = inside(affinity, "requiredDuringSchedulingIgnoredDuringExecution")
    for number, term in items(required):
        place = f"{at}.requiredDuringSchedulingIgnoredDuringExecution[{number}]"
        _check_pod_term(problems, place, term)
    preferred = inside(affinity, "preferredDuringSchedulingIgnoredDuringExecution")
    for number, one in items(preferred):
        place = f"{at}.preferredDuringSchedulingIgnoredDuringExecution[{number}]"
        _check_weight(problems, place, one)
        _check_pod_term(problems, f"{place}.podAffinityTerm", one.get("podAffinityTerm"))


def _check_pod_term(problems: Problems, at: str, term: Any) -> None:
    check_label_selector(problems, f"{at}.labelSelector", inside(term, "labelSelector"))
    check_label_selector(problems, f"{at}.namespaceSelector", inside(term, "namespaceSelector"))
    for place, name in enumerate(inside(term, "namespaces") or ()):
        problems.each(f"{at}.namespaces[{place}]", name, formats.label(str(name)))
    check_topology_key(problems, f"{at}.topologyKey", inside(term, "topologyKey"))


def check_topology_key(problems: Problems, at: str, key: Any) -> None:
    """Check the key of a topology."""
    if not key:
        problems.required(at, "can not be empty")
    else:
        problems.each(at, key, formats.qualified(key))


def check_tolerations(problems: Problems, at: str, tolerations: Any) -> None:
    """Check the tolerations of a pod."""
    for place, one in items(tolerations):
        here, key, value = f"{at}[{place}]", one.get("key") or "", one.get("value") or ""
        operator, effect = one.get("operator") or "", one.get("effect") or ""
        if key:
            problems.each(f"{here}.key", key, formats.qualified(key))
        elif operator != "Exists":
            why = 'operator must be Exists when `key` is empty, which means "match all values'
            problems.invalid(f"{here}.operator", operator, f'{why} and all keys"')
        if one.get("tolerationSeconds") is not None and effect != "NoExecute":
            why = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            problems.invalid(f"{here}.effect", effect, why)
        if operator in ("", "Equal"):
            for why in formats.label_value(value):
                problems.invalid(f"{here}.operator", value, why)
        elif operator == "Exists":
            if value:
                why = "value must be empty when `operator` is 'Exists'"
                problems.invalid(f"{here}.operator", one.get("value"), why)
        elif operator not in ("Gt", "Lt"):
            problems.unsupported(f"{here}.operator", operator, ("Equal", "Exists"))
        if effect:
            check_effect(problems, f"{here}.effect", effect)


def check_effect(problems: Problems, at: str, effect: str) -> None:
    """Check the effect of a taint."""
    if not effect:
        problems.required(at)
    elif effect not in EFFECTS:
        problems.unsupported(at, effect, EFFECTS)


def check_taints(problems: Problems, at: str, taints: Iterable[Plain]) -> None:
    """Check the taints of a node."""
    seen = set()
    for place, one in enumerate(taints):
        here, key, value = f"{at}[{place}]", one.get("key") or "", one.get("value") or ""
        problems.each(f"{here}.key", key, formats.qualified(key))
        problems.each(f"{here}.value", value, formats.label_value(value))
        effect = one.get("effect") or ""
        check_effect(problems, f"{here}.effect", effect)
        if (key, effect) in seen:
            problems.duplicate(here, one)
        seen.add((key, effect))
