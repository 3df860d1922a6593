"""Completion and hover inside the selectors of device classes and claims."""

from __future__ import annotations

import pytest

from policy_sched.lsp.suggestions import meaning, suggestions

CLASS = """\
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec:
  selectors:
  - cel:
      expression: """
TEMPLATE = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: P}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpu}
spec:
  spec:
    devices:
      requests:
      - name: gpu
        exactly:
          deviceClassName: gpu
          selectors:
          - cel:
              expression: |-
                device.driver == "gpu.example.com" &&
                """


def labels(text: str) -> set[str]:
    """Return the suggestions at the end of a text."""
    line, character = text.count("\n"), len(text) - text.rfind("\n") - 1
    return {suggestion.label for suggestion in suggestions("claim.yaml", text, line, character)}


@pytest.mark.parametrize("head", [CLASS, TEMPLATE])
@pytest.mark.parametrize(
    ("written", "there", "missing"),
    [
        ("dev", {"device"}, {"duration"}),
        ("", {"device", "semver", "quantity", "lists", "has"}, {"node", "pod", "math", "percent"}),
        ("device.", {"driver", "attributes", "capacity"}, {"name", "startsWith"}),
        ("device.driver.st", {"startsWith"}, {"endsWith"}),
        ('device.attributes["d"].', {"exists", "size"}, {"isGreaterThan"}),
        ('device.attributes["d"].model.', {"startsWith", "isGreaterThan", "major"}, {"driver"}),
        ('device.capacity["d"].memory.', {"isGreaterThan", "compareTo"}, {"sign", "startsWith"}),
        ('device.attributes["d"].exists(k, k.', {"startsWith"}, {"isGreaterThan"}),
        ('device.capacity["d"].?memory.optMap(m, m.', {"isLessThan"}, {"startsWith"}),
        ('device.capacity["d"].?memory.', {"orValue", "optMap"}, {"map"}),
        ('device.attributes["d"].map(k, 1).', {"sortBy", "transformMapEntry", "slice"}, {"optMap"}),
        ("ip.", {"isCanonical"}, {"family"}),
    ],
)
def test_what_a_selector_may_go_on_with(
    head: str, written: str, there: set[str], missing: set[str]
) -> None:
    """The device's fields, methods that suit the type, and functions of Kubernetes' CEL."""
    names = labels(head + written)
    assert there <= names
    assert not missing & names


def test_domains_that_the_manifest_names() -> None:
    """Inside the brackets of attributes and capacity stand the drivers that the file names."""
    assert labels(f'{TEMPLATE}device.attributes["') == {"gpu.example.com"}
    assert labels(f'{TEMPLATE}device.capacity["x') == set()


def test_nothing_outside_of_selectors() -> None:
    """Keys of a manifest are not those of a policy."""
    assert labels(CLASS.partition("spec:")[0] + "spec:\n  fil") == set()
    assert labels(CLASS.partition("spec:")[0] + "spec:\n  extendedResourceName: de") == set()


@pytest.mark.parametrize(
    ("written", "word", "title"),
    [
        ('device.attributes["d"].a', "device", "device: Device"),
        ('device.attributes["d"].a', "attributes", "device.attributes: map(string, map(string, "),
        ('semver("1.0.0") == semver("1")', "semver", "semver(string) -> semver"),
        ('device.capacity["d"].m.isLessThan(quantity("1"))', "isLessThan", "quantity.isLessThan("),
    ],
)
def test_hover_explains_the_word_at_the_cursor(written: str, word: str, title: str) -> None:
    """The word at the cursor is explained: its type, and its meaning."""
    text = CLASS + written
    line = text.count("\n")
    column = text.split("\n")[line].index(word)
    entry = meaning("class.yaml", text, line, column + 1)
    assert entry is not None
    assert title in entry.title
