"""Checks of the metadata that every object has: names, labels, annotations, owners, finalizers."""

from __future__ import annotations

from typing import Any, Final

from policy_sched.embedded.apiserver.validation.problems import Problems
from policy_sched.manifests import Plain
from policy_sched.model import formats

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
