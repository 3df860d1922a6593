"""Problems with the fields of an object: causes, and the error that names all of them.

(apimachinery's field.Error, and NewInvalid.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from policy_sched.client.apimachinery import ApiError, Resource, encoded
from policy_sched.manifests import Plain
from policy_sched.model import formats

MOST: Final = 1_000
"""Causes that one refusal names."""
IMMUTABLE: Final = "field is immutable"
MOST_STEPS: Final = 200_000
"""Steps that checking one object by a schema may take: a second or two."""


def shown(value: object) -> str:
    """Return a value as messages have it."""
    if isinstance(value, str):
        return formats.quoted(value)
    return formats.quoted("null") if value is None else encoded(value).decode()


class Problems:
    """Collects what is wrong. ``at`` is a field's path, such as ``spec.containers[0].name``."""

    def __init__(self) -> None:
        self.causes: dict[tuple[str, str, str], None] = {}
        self._spent = [0]

    def spend(self, steps: int) -> bool:
        """Count the steps of a check; return whether there are enough left to go on."""
        self._spent[0] += steps
        return not self.exhausted

    @property
    def exhausted(self) -> bool:
        """Whether a check has taken too many steps."""
        return self._spent[0] > MOST_STEPS

    def apart(self) -> Problems:
        """Return a collection for causes that may be dropped; it shares this one's steps."""
        others = Problems()
        others._spent = self._spent
        return others

    def take(self, others: Problems) -> None:
        """Add the causes of another collection."""
        self.causes |= others.causes

    def _add(self, at: str, reason: str, text: str, why: str = "") -> None:
        if len(self.causes) < MOST:
            self.causes[at, reason, f"{text}: {why}" if why else text] = None

    def required(self, at: str, why: str = "") -> None:
        """A required value is missing."""
        self._add(at, "FieldValueRequired", "Required value", why)

    def invalid(self, at: str, value: object, why: str) -> None:
        """A value breaks a rule; ``why`` says which."""
        self._add(at, "FieldValueInvalid", f"Invalid value: {shown(value)}", why)

    def must_be(self, at: str, value: str | None, why: str) -> None:
        """A value is missing, or another one than it must be."""
        if value:
            self.invalid(at, value, why)
        else:
            self.required(at, why)

    def wrong_type(self, at: str, actual: str, why: str) -> None:
        """A value has another type than its schema says."""
        self._add(at, "FieldValueTypeInvalid", f"Invalid value: {shown(actual)}", why)

    def unsupported(self, at: str, value: object, supported: Iterable[str]) -> None:
        """A value is none of the supported ones."""
        why = f"supported values: {', '.join(map(formats.quoted, supported))}"
        self._add(at, "FieldValueNotSupported", f"Unsupported value: {shown(value)}", why)

    def duplicate(self, at: str, value: object) -> None:
        """A value is duplicate."""
        self._add(at, "FieldValueDuplicate", f"Duplicate value: {shown(value)}")

    def unknown(self, at: str, value: object) -> None:
        """A value names something that does not exist."""
        self._add(at, "FieldValueNotFound", f"Not found: {shown(value)}")

    def forbidden(self, at: str, why: str) -> None:
        """A field must not be set."""
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

    @property
    def text(self) -> str:
        """All causes, "" if there are none."""
        texts = [f"{at}: {words}" if at else words for at, _, words in self.causes]
        return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]" if texts else ""

    def refusal(self, resource: Resource, name: str) -> ApiError:
        """Return the refusal with all causes."""
        kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
        causes = [
            {"reason": reason, "message": words, "field": at} for at, reason, words in self.causes
        ]
        group: dict[str, Any] = {"group": resource.group} if resource.group else {}
        details = {"name": name, **group, "kind": resource.kind, "causes": causes}
        return ApiError(422, "Invalid", f'{kind} "{name}" is invalid: {self.text}', details)


MOST_ANNOTATED: Final = 256 * 1024
"""Bytes that annotations may have, keys and values."""
_OWNED_BY: Final = ("apiVersion", "kind", "name", "uid")
_OWNERS: Final = "metadata.ownerReferences"


def check_metadata(problems: Problems, meta: Plain) -> None:
    """Check an object's metadata but for its name."""
    check_labels(problems, "metadata.labels", meta.get("labels"))
    check_annotations(problems, "metadata.annotations", meta.get("annotations"))
    references = meta.get("ownerReferences") or ()
    for index, reference in enumerate(references):
        for field in _OWNED_BY:
            if not reference.get(field):
                what = "version" if field == "apiVersion" else field
                why = f"{what} must not be empty"
                problems.invalid(f"{_OWNERS}[{index}].{field}", "", why)
    controllers = [reference.get("name") for reference in references if reference.get("controller")]
    if len(controllers) > 1:
        first, second = (f"{reference}" for reference in controllers[:2])
        why = (
            "Only one reference can have Controller set to true. Found"
            f' "true" in references for {first} and {second}'
        )
        problems.invalid(_OWNERS, references, why)
    for reference in meta.get("finalizers") or ():
        problems.each("metadata.finalizers", reference, formats.qualified(str(reference)))


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


def items(value: Any) -> Iterator[tuple[int, Plain]]:
    """Yield the objects of a list with their indexes; nothing if the value is no list."""
    for index, item in enumerate(value if isinstance(value, list) else ()):
        if isinstance(item, dict):
            yield index, item


def inside(value: Any, field: str) -> Any:
    """Return a field of a value; None if the value is no object."""
    return value.get(field) if isinstance(value, dict) else None
