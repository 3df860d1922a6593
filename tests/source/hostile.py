"""Makes hostile YAML and JSON: documents of kinds that are read here, with parts that are odd.

A document is built as data and then damaged at random paths: values become scalars of odd tags,
numbers without end, anchors, merge keys, null or another type; keys become odd; the text gets
encodings and characters that no text should have. The same seed makes the same text.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from random import Random
from typing import Any, Final


class Raw(str):
    """Text that stands in the document as it is."""

    __slots__ = ()


ODD: Final = tuple(
    Raw(text)
    for text in (
        *("~", "null", "yes", "off", "''", '""', "[]", "{}", "[[]]", "{a: {}}", "=", "<<", "-"),
        *("0", "-1", "1e400", "-.inf", ".nan", ".NaN", "0x", "0b", "0o17", "017", "1_000", "1__"),
        *(
            "12:30",
            "1:2:3.5",
            "2001-01-01",
            "2001-13-45T99:99:99Z",
            "+",
            "-0",
            "9" * 5000,
            "0x" + "f" * 5000,
        ),
        *(
            "1" * 19,
            "1" * 99,
            "9223372036854775808",
            "-9223372036854775809",
            "1.5",
            "1.",
            ".5",
            "1e3",
        ),
        *(
            '!!int "+"',
            '!!int ""',
            '!!int "0b"',
            '!!int "_"',
            '!!float ""',
            '!!float "."',
            "!!bool x",
        ),
        *(
            '!!int "1:x"',
            '!!float "1:x"',
            '!!float "-"',
            '!!null "x"',
            "!!timestamp x",
            "!!timestamp ''",
        ),
        *(
            "!!binary x",
            "!!binary '===='",
            "!!set {a, b}",
            "!!omap [a: 1]",
            "!!pairs [a: 1]",
            "!!str",
            "!!map x",
        ),
        *(
            "!!seq {}",
            "!!str [a]",
            "!!int []",
            "!x y",
            "! x",
            "!<> x",
            "!!python/object:os.system x",
            "!!merge x",
        ),
        *(
            "!!python/name:os.system ''",
            "!!yaml x",
            "!!value x",
            "*missing",
            "&a",
            "&a *a",
            "&a [*a]",
            "&a {b: *a}",
        ),
        *(
            '"\\x00"',
            '"\\ud800"',
            '"\\udfff\\ud800"',
            '"\\u202e::"',
            '"\\n::warning::x"',
            '"\\e[2J"',
            '"\\x85"',
        ),
        *(
            '"a\\0b"',
            "'::error::x'",
            "'##vso[task.x]y'",
            "|\n  x",
            ">-\n  ::warning::x",
            "? x",
            ": x",
            "a: b: c",
        ),
        *(
            "[1, 2",
            "{a: 1",
            "'x",
            '"x',
            "%x",
            "@x",
            "`x",
            "\tx",
            "{? [a] : b}",
            "{? {a: b} : c}",
            "{[a]: b}",
        ),
        *(
            "{<<: 1}",
            "{<<: [1]}",
            "{<<: {a: 1}}",
            "{<<: [{a: 1}, {a: 2}]}",
            "{? !!int '+' : 1}",
            "{.nan: 1, .nan: 2}",
        ),
        *(
            "{1: a, '1': b}",
            "{true: a, 'true': b}",
            "{~: a}",
            "{'': a}",
            "{a: 1, a: 2}",
            "[" * 99 + "]" * 99,
        ),
        *(
            "[" * 101 + "]" * 101,
            "{a: " * 120 + "}" * 120,
            "1 # x",
            "#",
            "'a\n\n b'",
            "é",
            "😀",
            "\u2028",
            "\x7f",
            "\x01",
        ),
    )
)
"""Values, as they are written."""

KEYS: Final = (
    *(
        "<<",
        "''",
        "~",
        ".nan",
        "1",
        "true",
        "[a]",
        "{a: b}",
        "? x",
        "!!int '+'",
        "&k x",
        "*k",
        '"\\n::warning::"',
    ),
    *(
        '"\\x00"',
        "x" * 5000,
        "'a b'",
        "=",
        "-",
        "__proto__",
        "apiVersion",
        "kind",
        '"\\ud800"',
        "😀",
    ),
)
DOCUMENTS: Final[tuple[dict[str, Any], ...]] = (
    {
        "apiVersion": "policysched.dev/v1alpha1",
        "kind": "Policy",
        "metadata": {"name": "P", "annotations": {"a": "b"}},
        "spec": {
            "params": {"gpu": "x", "most": 3, "list": [1, 2]},
            "variables": [{"name": "v", "expression": "1"}],
            "filter": [{"expression": "node.podCount < params.most", "message": "m"}],
            "score": {"expression": "1", "normalize": "none"},
            "preEnqueue": [{"expression": "true", "message": "m"}],
        },
    },
    {
        "apiVersion": "policysched.dev/v1alpha1",
        "kind": "PolicyTest",
        "name": "t",
        "policies": [],
        "config": None,
        "objects": [{"node": "n", "resources": {"cpu": 4}}, {"pod": "p", "node": "n"}],
        "pending": [{"pod": "q", "cpu": 1, "labels": {"a": "b"}}],
        "expect": [{"pod": "q", "chosen": "n", "rejected": {"m": "r"}, "scores": {"n": 1}}],
    },
    {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "parallelism": 8,
        "leaderElection": {"leaderElect": False, "leaseDuration": "15s"},
        "extenders": [{"urlPrefix": "http://127.0.0.1:1", "weight": 1}],
        "profiles": [
            {
                "schedulerName": "a",
                "plugins": {"score": {"enabled": [{"name": "NodeResourcesFit", "weight": 2}]}},
                "pluginConfig": [{"name": "NodeResourcesFit", "args": {"ignoredResources": ["a"]}}],
            }
        ],
    },
    {
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": "n", "labels": {"a": "b"}},
                "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
                "status": {
                    "allocatable": {"cpu": "4", "memory": "1Gi", "pods": "10"},
                    "images": [{"names": ["a"], "sizeBytes": 1}],
                },
            },
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "p", "namespace": "d", "ownerReferences": [{"kind": "x"}]},
                "spec": {
                    "priority": 1,
                    "nodeSelector": {"a": "b"},
                    "containers": [
                        {
                            "name": "c",
                            "resources": {"requests": {"cpu": "1"}},
                            "ports": [{"hostPort": 1}],
                        }
                    ],
                    "tolerations": [{"key": "a", "tolerationSeconds": 3}],
                    "topologySpreadConstraints": [
                        {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}
                    ],
                },
                "status": {"phase": "Pending", "conditions": [{"type": "x", "status": "True"}]},
            },
        ],
    },
    {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c"}]},
            },
        },
    },
    {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "SECRET"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    },
)
"""A document of each kind, in order."""

WRONG: Final[tuple[Any, ...]] = (
    *(None, True, 0, -1, 2**31, 2**63, 10**400, 1e308, "", "x", [], {}, [None], {"a": None}, [[]]),
    *(
        "\0",
        "\ud800",
        "a\n::warning::b",
        "9" * 5000,
        "1e999999999",
        "-1",
        "1Ei",
        "x" * 70000,
        ["x"] * 300,
    ),
)
"""Values of JSON that are of the wrong type nearly everywhere."""


def hostile_yaml(random: Random) -> str:
    """Return one or more damaged documents as YAML."""
    parts = [_damaged(random, ODD) for _ in range(random.choice((1, 1, 1, 2)))]
    text = "\n---\n".join(_written(part, random) for part in parts)
    for _ in range(random.choice((0, 0, 1, 2))):
        text = random.choice(_TEXTS)(text, random)
    return text


def hostile_json(random: Random) -> str:
    """Return a damaged document as JSON, some without being JSON any more."""
    text = json.dumps(_damaged(random, WRONG), indent=random.choice((None, 2)))
    if random.random() < 0.2:
        at = random.randrange(len(text))
        odd = (
            "NaN",
            "Infinity",
            "9" * 5000,
            "[" * 5000,
            "\x00",
            "\u2028",
            ",",
            "}",
            '"',
            "\\ud800",
        )
        text = text[:at] + random.choice(odd) + text[at:]
    return text


def _damaged(random: Random, odd: tuple[Any, ...]) -> Any:
    document: Any = copy.deepcopy(random.choice(DOCUMENTS))
    for _ in range(random.choice((1, 1, 2, 3))):
        inside: Any = document
        while True:
            places = list(inside) if isinstance(inside, dict) else list(range(len(inside)))
            if not places:
                break
            step = random.choice(places)
            if isinstance(inside[step], dict | list) and inside[step] and random.random() < 0.85:
                inside = inside[step]
                continue
            if isinstance(inside, dict) and random.random() < 0.15:
                key = random.choice(KEYS)
                inside[Raw(key) if odd is ODD else key] = inside.pop(step)
            else:
                inside[step] = copy.deepcopy(random.choice(odd))
            break
    return document


def _written(value: Any, random: Random, indent: int = 0) -> str:
    """Return data as YAML in block or flow style."""
    if isinstance(value, Raw):
        return str(value)
    if not value or not isinstance(value, dict | list) or random.random() < 0.1:
        return _flow(value)
    pad = "\n" + "  " * indent
    if isinstance(value, dict):
        lines = (
            f"{_flow(key)}: {_written(item, random, indent + 1)}" for key, item in value.items()
        )
        return pad + pad.join(lines)
    return pad + pad.join(f"- {_written(item, random, indent + 1)}" for item in value)


def _flow(value: Any) -> str:
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_flow(key)}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return json.dumps(value)


def _inserted(text: str, random: Random) -> str:
    at = random.randrange(len(text) + 1)
    odd = (*"\x00\ufeff\u202e\u2028\x85", "\x1b[2J", "&a ", "*a ", "!!int ", "<<: ", "- ", ": ")
    return text[:at] + random.choice(odd) + text[at:]


_TEXTS: Final[tuple[Callable[[str, Random], str], ...]] = (
    lambda text, _: "\ufeff" + text,
    lambda text, _: text.replace("\n", "\r\n"),
    lambda text, _: text.replace("\n", "\r"),
    lambda text, _: "%YAML 1.2\n---\n" + text,
    lambda text, _: "%YAML 9.9\n%TAG ! tag:x,1:\n--- !a\n" + text,
    lambda text, _: "--- # x\n" + text + "\n...\n---\n...\n",
    lambda text, _: text.replace("  ", "\t", 1),
    lambda text, _: text + "\n<<: *missing\n",
    lambda text, random: text[: random.randrange(len(text) + 1)],
    _inserted,
)


def _laughs(levels: int, width: int) -> str:
    text = f"a0: &a0 [{', '.join(['x'] * width)}]\n"
    for level in range(1, levels):
        text += f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * width)}]\n"
    return text


def _merges(levels: int, width: int) -> str:
    keys = ", ".join(f"k{i}: 1" for i in range(width))
    text = f"a0: &a0 {{{keys}}}\n"
    for level in range(1, levels):
        text += f"a{level}: &a{level} {{<<: [{', '.join([f'*a{level - 1}'] * width)}]}}\n"
    return text


SEEDS: Final[dict[str, str]] = {
    "billion laughs": _laughs(10, 10),
    "laughs that only double": _laughs(4_000, 2),
    "merge keys of merge keys": _merges(12, 10),
    "one mapping merged again and again": "a: &a {b: 1}\nc:\n  <<: [" + "*a," * 20_000 + "]\n",
    "merged mappings of many keys": f"a: &a {{{', '.join(f'k{i}: 1' for i in range(500))}}}\n"
    + "".join(f"b{i}: {{<<: *a}}\n" for i in range(500)),
    "aliases nested by aliases": "a0: &a0 [x]\n"
    + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 5000)),
    "2,000 unknown keys": "apiVersion: policysched.dev/v1alpha1\nkind: Policy\n"
    "metadata: {name: P}\nspec:\n" + "".join(f"  fliter{i}: 1\n" for i in range(2_000)),
    "deep flow": "a: " + "[" * 100_000,
    "deep block": "- " * 50_000,
    "deep keys": "? " * 50_000,
    "anchors without end": "".join(f"&a{i} " for i in range(10_000)),
    "a recursive list": "a: &a [*a]",
    "a recursive key": "&a ? *a : b",
    "4,000 duplicate keys": "a: 1\n" * 4_000,
    "4,000 documents": "---\na: !x\n" * 4_000,
    "a byte order mark inside": "a: 1\n\ufeffb: 2\n",
    "nothing": "",
    "only a comment": "# x",
    "only a scalar": "x",
    "NUL": "a: \x00",
}
"""Texts that are hostile as a whole."""
