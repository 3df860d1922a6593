"""Manifests are read from anywhere, and every mistake is shown where it is."""

from __future__ import annotations

import gzip
import importlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

from policy_sched.manifests.load import SLOW_YAML, Manifests, decode_object, load
from policy_sched.manifests.struct_errors import MAX_LOOK
from policy_sched.model.kinds import CLUSTER_SCOPED, KINDS, SKIPPED_KINDS
from policy_sched.model.pod import Pod
from policy_sched.model.storage import CsiNode

FOLDER = Path(__file__).parent / "manifests"

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\n"


def names(manifests: Manifests) -> list[str]:
    """Return the names of the objects in order; there must be no problems."""
    assert not manifests.diagnostics, "\n".join(d.render() for d in manifests.diagnostics)
    return [o.metadata.name for o in manifests.objects]


def pod_line(name: str) -> str:
    """Return a pod as one line of JSON."""
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}})


def messages(manifests: Manifests) -> list[str]:
    """Return place, code and message of every problem."""
    return [f"{d.line}:{d.column} {d.code} {d.message}" for d in manifests.diagnostics]


class TestMistakes:
    """Golden diagnostics."""

    @pytest.mark.parametrize(
        ("name", "good"),
        [("broken.yaml", ["fancy", "twice"]), ("broken.jsonl", ["good", "classy", "zero"])],
    )
    def test_each_mistake_in_a_manifest_has_its_place_and_good_objects_are_read(
        self, name: str, good: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Every kind of mistake has its file:line:column, and the good objects are read."""
        monkeypatch.chdir(FOLDER)
        found = load([name])
        text = "".join(f"{d.render()}\n" for d in found.diagnostics)
        assert (
            text == Path(name).with_suffix(".txt" if "yaml" in name else ".jsonl.txt").read_text()
        )
        assert [o.metadata.name for o in found.objects] == good

    def test_the_same_mistake_in_json_and_yaml(self, tmp_path: Path) -> None:
        """A pretty-printed JSON file is located as exactly as YAML."""
        data = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p"},
            "spec": {"priority": "x"},
        }
        (tmp_path / "a.json").write_text(json.dumps(data, indent=2))
        assert messages(load([str(tmp_path / "a.json")])) == [
            "8:17 PS703 priority must be a whole number, not the text 'x'"
        ]

    def test_mistake_in_a_list(self, tmp_path: Path) -> None:
        """A bad item of a JSON list is located, and its neighbours are read."""
        items = [{"metadata": {"name": "a"}}, {"metadata": {}}, {"metadata": {"name": "c"}}]
        data = {"apiVersion": "v1", "kind": "PodList", "items": items}
        text = json.dumps(data)
        (tmp_path / "a.json").write_text(text)
        found = load([str(tmp_path / "a.json")])
        assert [o.metadata.name for o in found.objects] == ["a", "c"]
        column = text.index("{}") + 1
        assert messages(found) == [f"1:{column} PS704 Pod has no metadata.name"]

    def test_json_that_is_no_yaml(self, tmp_path: Path) -> None:
        """A record with a character that YAML forbids is located by its line and a path."""
        line = pod_line("a").replace("}}", ', "uid": "\x7f"}, "spec": {"priority": "x"}}')
        (tmp_path / "a.jsonl").write_text(f"\n{line}\n")
        (problem,) = load([str(tmp_path / "a.jsonl")]).diagnostics
        assert (problem.line, problem.column, problem.context) == (2, 1, "at spec.priority")

    @pytest.mark.parametrize(
        ("name", "data", "message"),
        [
            ("a.json", b'{"a": 1,}', "1:9 PS701 the text is not JSON: "),
            ("a.json", b"[]", "1:1 PS703 an object must be a mapping with apiVersion and kind"),
            ("a.yaml", b"a: b\n\xff", "2:1 PS701 the byte 0xff is not UTF-8"),
            ("a.yaml.gz", b"plain", "1:1 PS701 the file cannot be read: Not a gzipped file"),
            (
                "a.json.gz",
                gzip.compress(b"{}", mtime=0)[:-9],
                "1:1 PS701 the file cannot be read: ",
            ),
        ],
        ids=["comma", "array", "latin", "unpacked", "cut"],
    )
    def test_a_file_that_cannot_be_read_is_one_problem(
        self, name: str, data: bytes, message: str, tmp_path: Path
    ) -> None:
        """A file that cannot be read is one problem with its place."""
        (tmp_path / name).write_bytes(data)
        found = messages(load([str(tmp_path / name)]))
        assert len(found) == 1
        assert found[0].startswith(message)

    def test_missing_file_and_empty_directory(self, tmp_path: Path) -> None:
        """A path without manifests is an error, not an empty cluster."""
        found = load([str(tmp_path / "missing.yaml"), str(tmp_path)])
        assert {d.message for d in found.diagnostics} == {
            "the file cannot be read: No such file or directory",
            "the directory holds no manifests (.yaml, .yml, .json, .jsonl, or .gz)",
        }


class TestSources:
    """Where manifests come from."""

    def test_files_of_every_ending_are_read_packed_or_not(self, tmp_path: Path) -> None:
        """YAML, JSON and JSON lines are read, each packed or not, in the order of the names."""
        (tmp_path / "deep" / "er").mkdir(parents=True)
        (tmp_path / "notes.txt").write_text("no manifest")
        two = f"{pod_line('c1')}\n\n{pod_line('c2')}\r\n"
        for name, text in {
            "a.yaml": POD % "a",
            "b.yml": f"---\n{POD % 'b1'}---\n---\n{POD % 'b2'}",
            "c.jsonl": two,
            "d.json": pod_line("d"),
            "deep/er/e.yaml": POD % "e",
        }.items():
            (tmp_path / name).write_text(text)
            packed = text.replace('"c', '"C').replace("name: ", "name: z")
            packed = packed.replace('"name": "d"', '"name": "D"')
            (tmp_path / f"{name}.gz").write_bytes(gzip.compress(packed.encode()))
        assert names(load([str(tmp_path)])) == [
            *("a", "za", "b1", "b2", "zb1", "zb2", "c1", "c2", "C1", "C2", "d", "D", "e", "ze")
        ]  # fmt: skip

    def test_explicit_file_of_any_name(self, tmp_path: Path) -> None:
        """A file that is named is read as YAML whatever its ending."""
        (tmp_path / "cluster.txt").write_text(POD % "a")
        assert names(load([str(tmp_path / "cluster.txt")])) == ["a"]

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            (POD % "a", ["a"]),
            (pod_line("a"), ["a"]),
            (f"\n{pod_line('a')}\n{pod_line('b')}\n", ["a", "b"]),
            ("", []),
        ],
    )
    def test_standard_input_is_yaml_json_or_json_lines(
        self, text: str, expected: list[str]
    ) -> None:
        """Standard input is YAML, JSON or JSON lines, by its first character."""
        assert names(load(["-"], io.StringIO(text))) == expected

    def test_paths_are_read_in_the_order_given(self, tmp_path: Path) -> None:
        """Paths are read in the order they are given."""
        for name in "ab":
            (tmp_path / f"{name}.yaml").write_text(POD % name)
        assert names(load([str(tmp_path / "b.yaml"), str(tmp_path / "a.yaml")])) == ["b", "a"]


class TestObjects:
    """The decoded objects."""

    def test_runtime_classes_are_held_against_pods(self, tmp_path: Path) -> None:
        """An overhead that is no quantity was a traceback; a class that is missing, nothing."""
        head = "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: sandboxed}\n"
        path = tmp_path / "all.yaml"
        for amount in ("nix", "1e2000", "-1", ".nan"):
            path.write_text(f"{head}overhead: {{podFixed: {{cpu: {amount}}}}}\n")
            (problem,) = load([str(path)]).diagnostics
            assert (problem.line, problem.column) == (4, 28)
        path.write_text(f"{head}---\n{POD % 'p'}spec: {{runtimeClassName: sandbox}}\n")
        (problem,) = load([str(path)]).diagnostics
        assert problem.message == "there is no RuntimeClass 'sandbox'"
        assert problem.hint == "did you mean 'sandboxed'?"

    @pytest.mark.parametrize("form", ["yaml", "json", "jsonl"])
    def test_every_kind_is_decoded_or_passed_over(self, form: str, tmp_path: Path) -> None:
        """Every kind is decoded or passed over, in YAML and in JSON."""
        lines = [
            json.dumps({"apiVersion": v, "kind": k, "metadata": {"name": f"{k}-{v}".lower()}})
            for v, k in (*KINDS, *sorted(SKIPPED_KINDS))
        ]
        separator = "\n---\n" if form == "yaml" else "\n"
        path = tmp_path / f"all.{form}"
        path.write_text(separator.join(lines))
        found = load([str(path)])
        assert [(o.api_version, o.kind) for o in found.objects] == list(KINDS)
        assert [type(o) for o in found.objects] == list(KINDS.values())
        assert {d.code for d in found.diagnostics} == {"PS719"}  # what would change pods
        assert found.skipped == len(SKIPPED_KINDS)

    @pytest.mark.parametrize("form", ["yaml", "json"])
    def test_items_of_lists_are_objects_of_their_kinds(self, form: str, tmp_path: Path) -> None:
        """Items of a List have a kind, items of a CSINodeList need none."""
        items = [{"metadata": {"name": "n1"}}, {"metadata": {"name": "n2"}}]
        typed = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINodeList", "items": items}
        mixed = {"apiVersion": "v1", "kind": "List", "items": [json.loads(pod_line("p"))]}
        for number, data in enumerate((typed, mixed, {**mixed, "items": None})):
            (tmp_path / f"{number}.{form}").write_text(json.dumps(data))
        found = load([str(tmp_path)])
        assert names(found) == ["n1", "n2", "p"]
        assert isinstance(found.objects[0], CsiNode)
        assert found.objects[0].kind == "CSINode"

    def test_nulls_are_nothing(self) -> None:
        """Nulls mean the same as leaving the field out, as in Go; in a map they are empty."""
        text = (
            "{apiVersion: v1, kind: Pod,"
            " metadata: {name: p, creationTimestamp: null, labels: {a: null}},"
            " spec: {containers: null, priority: null, overhead: {cpu: null}}, status: null}"
        )
        found = load(["-"], io.StringIO(f"# yaml\n{text}"))
        assert names(found) == ["p"]
        pod = found.objects[0]
        assert isinstance(pod, Pod)
        assert pod.metadata.labels == {"a": ""}
        assert pod.spec.overhead == {"cpu": 0}

    def test_unknown_fields_are_ignored(self) -> None:
        """Fields that scheduling does not read may hold anything."""
        text = f"{POD % 'p'}spec: {{dnsPolicy: [1], containers: [{{name: c, env: 5}}]}}\n"
        assert names(load(["-"], io.StringIO(text))) == ["p"]

    def test_objects_of_one_name_may_differ_in_kind_or_namespace(self) -> None:
        """Objects of one name may differ in kind or namespace."""
        text = "---\n".join(
            f"apiVersion: v1\nkind: {kind}\nmetadata: {{name: a, namespace: {space}}}\n"
            for kind, space in (("Pod", "x"), ("Pod", "y"), ("Service", "x"), ("Node", "''"))
        )
        assert names(load(["-"], io.StringIO(text))) == ["a"] * 4

    def test_cluster_scoped_kinds_are_kinds(self) -> None:
        """The list of kinds without namespace names kinds that are decoded."""
        assert {kind for _, kind in KINDS} >= CLUSTER_SCOPED


class TestDefaults:
    """Defaults of the API server."""

    @staticmethod
    def pod(text: str, *, defaults: bool = True) -> Pod:
        """Load one pod and its other objects."""
        found = load(["-"], io.StringIO(text), defaults=defaults)
        assert not found.diagnostics
        (pod,) = (o for o in found.objects if isinstance(o, Pod))
        return pod

    def test_a_container_with_limits_alone_requests_them(self) -> None:
        """A container that only has limits requests them."""
        text = (
            f"{POD % 'p'}spec:\n  containers:\n"
            "  - resources: {limits: {cpu: 2, memory: 1Gi}, requests: {cpu: 1}}\n"
            "  initContainers:\n  - resources: {limits: {x.io/a: 1}}\n"
        )
        spec = self.pod(text).spec
        assert spec.containers[0].resources.requests == {"cpu": 1, "memory": "1Gi"}
        assert spec.init_containers[0].resources.requests == {"x.io/a": 1}
        assert self.pod(text, defaults=False).spec.containers[0].resources.requests == {"cpu": 1}

    def test_a_pod_on_the_hosts_network_takes_its_ports(self) -> None:
        """A pod on the host's network takes its ports there."""
        ports = "containers: [{ports: [{containerPort: 80}, {containerPort: 1, hostPort: 2}]}]"
        text = f"{POD % 'p'}spec: {{hostNetwork: true, {ports}}}"
        assert [p.host_port for p in self.pod(text).spec.containers[0].ports] == [80, 2]
        text = f"{POD % 'p'}spec: {{{ports}}}"
        assert [p.host_port for p in self.pod(text).spec.containers[0].ports] == [0, 2]

    def test_resources_of_the_pod_cover_the_containers_requests(self) -> None:
        """Resources of the pod cover the containers' requests, then its limits."""
        text = (
            f"{POD % 'p'}spec:\n  resources: {{limits: {{cpu: 4, memory: 2Gi, x.io/a: 1}}}}\n"
            "  containers:\n"
            "  - resources: {requests: {cpu: 1500m}}\n  - resources: {requests: {cpu: 1n}}\n"
        )
        resources = self.pod(text).spec.resources
        assert resources is not None
        assert resources.requests == {"cpu": "1500000001n", "memory": "2Gi"}

    CLASSES = """
kind: PriorityClassList
apiVersion: scheduling.k8s.io/v1
items:
- {metadata: {name: high}, value: 100, preemptionPolicy: Never}
- {metadata: {name: mid}, value: 7, globalDefault: true}
- {metadata: {name: low}, value: 5, globalDefault: true}
"""

    @pytest.mark.parametrize(
        ("spec", "priority", "policy"),
        [
            ("priorityClassName: high", 100, "Never"),
            (
                "priorityClassName: high, preemptionPolicy: PreemptLowerPriority",
                100,
                "PreemptLowerPriority",
            ),
            ("priorityClassName: system-node-critical", 2_000_001_000, ""),
            ("priorityClassName: high, priority: 3", 3, ""),
            ("nodeName: ''", 5, ""),
        ],
    )
    def test_a_priority_class_becomes_its_value(
        self, spec: str, priority: int, policy: str
    ) -> None:
        """A class becomes its number; the lowest default class applies to pods without one."""
        pod = self.pod(f"{POD % 'p'}spec: {{{spec}}}\n---{self.CLASSES}")
        assert (pod.spec.priority, pod.spec.preemption_policy) == (priority, policy)


class TestDecodeObject:
    """One object of plain data."""

    def test_a_manifest_becomes_a_struct(self) -> None:
        """Plain data becomes a struct."""
        assert decode_object(json.loads(pod_line("p")), pytest.fail).metadata.name == "p"  # type: ignore[union-attr, arg-type]

    def test_a_kind_that_is_passed_over_is_no_problem(self) -> None:
        """A kind that is passed over is nothing, and no problem."""
        data = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
        assert decode_object(data, pytest.fail) is None  # type: ignore[arg-type]

    def test_problems_have_paths(self) -> None:
        """Every problem is reported with its path inside the object."""
        found: list[Any] = []
        data = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p"},
            "spec": {"overhead": {"cpu": "x"}, "tolerations": [{}, {"key": 1}]},
        }
        assert decode_object(data, lambda *problem: found.append(problem)) is None
        assert [(path, code) for path, code, _, _ in found] == [
            (("spec", "overhead", "cpu"), "PS707"),
            (("spec", "tolerations", 1, "key"), "PS703"),
        ]


@pytest.mark.parametrize("suffix", [".yaml", ".jsonl"])
def test_a_duration_annotation_is_checked(tmp_path: Path, suffix: str) -> None:
    """On a pod and on the template of a workload, at the place of the text."""
    metadata = {"name": "a", "annotations": {"policysched.dev/duration": "two days"}}
    spec = {"template": {"metadata": metadata, "spec": {"containers": []}}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": spec}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    separator = "\n---\n" if suffix == ".yaml" else "\n"
    path = tmp_path / f"pods{suffix}"
    path.write_text(separator.join(map(json.dumps, (pod, job))), encoding="utf-8")
    found = load([str(path)])
    assert found.objects == []
    assert [d.code for d in found.diagnostics] == ["PS707", "PS707"]
    for problem in found.diagnostics:
        assert problem.message.startswith("'two days' is not a duration")
        assert problem.source_line[problem.column - 1 :].startswith('"two days"')


def snapshot(pods: int, anchors: str = "") -> str:
    """Return a List of pods in YAML; ``anchors`` goes into the metadata of the first."""
    head = "apiVersion: v1\nkind: List\nitems:\n"
    item = "- apiVersion: v1\n  kind: Pod\n  metadata: {%sname: p%d}\n  spec: {nodeName: n}\n"
    first = item % (anchors, 0)
    return head + first + "".join(item % ("", number) for number in range(1, pods + 1))


class TestSnapshots:
    """The fast path of YAML: only an invalid object is read a second time."""

    def test_a_wrong_object_among_many_has_its_place(self, tmp_path: Path) -> None:
        """A snapshot of 44 MB took 171 s since all of it was kept with its places."""
        items = "".join(
            f"- apiVersion: v1\n  kind: Pod\n  metadata: {{name: p{i}}}\n" for i in range(9)
        )
        wrong = (
            "- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: é\n  spec:\n    priority: x\n"
        )
        text = f"apiVersion: v1\nitems:\n{items}{wrong}{items[:52]}kind: List\n"
        (tmp_path / "a.yaml").write_text(text)
        found = load([str(tmp_path / "a.yaml")])
        assert len(found.objects) == 9
        assert messages(found) == [
            "35:15 PS703 priority must be a whole number, not the text 'x'",
            "38:20 PS708 duplicate Pod default/p0",
        ]

    @pytest.mark.parametrize("kind", ["yaml", "json"])
    def test_an_item_that_is_no_object(self, kind: str, tmp_path: Path) -> None:
        """Null, text and a list among the items have their places, the others are read."""
        pod = json.loads(pod_line("a"))
        items = [None, pod, "x", {"apiVersion": "v1", "kind": "List", "items": []}]
        data = {"apiVersion": "v1", "kind": "List", "items": items}
        (tmp_path / f"a.{kind}").write_text(json.dumps(data))
        found = load([str(tmp_path / f"a.{kind}")])
        assert [o.metadata.name for o in found.objects] == ["a"]
        assert messages(found) == [
            "1:48 PS703 an object must be a mapping with apiVersion and kind",
            "1:118 PS703 an object must be a mapping with apiVersion and kind",
            "1:123 PS706 a list inside a list is not read",
        ]

    def test_large_yaml_comes_with_a_hint(self, tmp_path: Path) -> None:
        """For megabytes of YAML a hint recommends JSON, which is faster."""
        (tmp_path / "a.yaml").write_text(f"# {' ' * SLOW_YAML}\n{POD % 'a'}")
        (hint,) = load([str(tmp_path / "a.yaml")]).hints
        assert hint.endswith(
            "a.yaml: 8 MiB of YAML; JSON is read four times as fast (kubectl get -o json)"
        )

    @pytest.mark.parametrize("anchors", ["", "labels: &few {tier: web}, annotations: *few, "])
    def test_large_yaml_with_aliases_needs_no_places(
        self, anchors: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One alias in a snapshot of 44 MB took 53 s and 2 GB: all was read with its places."""
        module = importlib.import_module("policy_sched.source.plain")
        monkeypatch.setattr(module, "MAX_LOOK", 0)
        (tmp_path / "a.yaml").write_text(snapshot(300, anchors))
        found = load([str(tmp_path / "a.yaml")])
        assert (len(found.objects), found.diagnostics) == (301, [])

    def test_positions_in_a_document_with_aliases(self, tmp_path: Path) -> None:
        """Only the wrong object of a large file is read with its places, aliases included."""
        text = snapshot(20, "labels: &few {tier: [1]}, ").replace("tier: [1]}, ", "tier: x}, ", 1)
        text += "- {apiVersion: v1, kind: Pod, metadata: {name: b, labels: *few}, spec: *none}\n"
        (tmp_path / "a.yaml").write_text(text.replace("kind: List", "kind: List\nx: &none 3"))
        found = load([str(tmp_path / "a.yaml")])
        assert len(found.objects) == 21
        assert messages(found) == ["3:10 PS703 spec must be a mapping, not the number 3"]

    def test_a_mistake_in_a_huge_document_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A document whose error would take gigabytes to find is rejected with its position."""
        module = importlib.import_module("policy_sched.source.plain")
        monkeypatch.setattr(module, "MAX_LOOK", 1 << 10)
        head = "# a comment\napiVersion: v1\nkind: List\nkind: List\nitems:\n"
        pad = "- {apiVersion: v1, kind: Pod, metadata: {name: p%d, labels: {a: b}}}\n"
        (tmp_path / "a.yaml").write_text(head + "".join(pad % n for n in range(100)))
        (refusal,) = load([str(tmp_path / "a.yaml")]).diagnostics
        assert (refusal.line, refusal.column) == (4, 1)
        assert refusal.message == "a key, tag, alias or number is not valid here"
        assert refusal.hint == "in 1 KiB or less of YAML the message would say what is wrong"


@pytest.mark.parametrize("kind", ["yaml", "json"])
def test_a_mistake_in_an_object_beyond_a_mebibyte(kind: str, tmp_path: Path) -> None:
    """The message names the path instead of the position, which would take seconds to find."""
    spec = {"priority": "x", "nodeName": "n" * (1 << 20)}
    data = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}
    (tmp_path / f"a.{kind}").write_text(f"\n{json.dumps(data)}\n")
    (found,) = load([str(tmp_path / f"a.{kind}")]).diagnostics
    assert (found.message, found.context) == (
        "priority must be a whole number, not the text 'x'",
        "at spec.priority",
    )


@pytest.mark.parametrize("template", [False, True])
def test_spread_constraints_that_the_api_server_refuses(template: bool, tmp_path: Path) -> None:
    """A pod with 20,000 constraints over one key took 4.7 s; there may be one of each kind."""
    constraints = [
        {"topologyKey": key, "whenUnsatisfiable": when, "maxSkew": skew}
        for key, when, skew in (
            ("zone", "DoNotSchedule", 1),
            ("zone", "ScheduleAnyway", 1),
            ("host", "DoNotSchedule", 1),
            ("zone", "DoNotSchedule", 2),
        )
    ]
    spec: dict[str, Any] = {"topologySpreadConstraints": constraints}
    if template:
        spec = {"template": {"spec": spec}}
    kind, version = ("Deployment", "apps/v1") if template else ("Pod", "v1")
    data = {"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": spec}
    (tmp_path / "a.json").write_text(json.dumps(data, indent=1))
    (found,) = load([str(tmp_path / "a.json")]).diagnostics
    assert found.message == ("duplicate {topologyKey, whenUnsatisfiable}: {zone, DoNotSchedule}")
    assert found.source_line.strip() == "{"
    assert found.line == (26 if template else 24)


def test_null_is_absent_in_every_form_of_a_manifest(tmp_path: Path) -> None:
    """A node whose images have no names, as `kubectl get nodes` prints it in JSON and in YAML."""
    for number, (ending, text) in enumerate(
        {
            "json": '{"apiVersion": "v1", "kind": "List", "items": [%s]}',
            "jsonl": "%s",
            "yaml": "%s",
        }.items()
    ):
        node = (
            '{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n%d", "labels": null},'
            ' "spec": {"taints": null}, "status": {"images": [{"names": null}], "capacity": null}}'
        )
        (tmp_path / f"nodes.{ending}").write_text(text % (node % number))
    found = load([str(tmp_path)])
    assert found.diagnostics == []
    assert [thing.metadata.name for thing in found.objects] == ["n0", "n1", "n2"]


@pytest.mark.parametrize("suffix", ["yaml", "json"])
def test_an_oversized_object_is_reported_by_its_line(tmp_path: Path, suffix: str) -> None:
    """Positions in 8 MiB, for a wrong apiVersion, took 18 s and 700 MB."""
    resources = {f"k{number}": "v" * 100 for number in range(MAX_LOOK // 100)}
    long = {"apiVersion": "v2", "kind": "Pod", "metadata": {"name": "p", "labels": resources}}
    file = tmp_path / f"w.{suffix}"
    file.write_text(json.dumps(long))
    (problem,) = load([str(file)]).diagnostics
    assert (problem.line, problem.message) == (1, "Pod is not in apiVersion 'v2'")
    assert problem.context == "at apiVersion"


@pytest.mark.parametrize("suffix", ["yaml", "json"])
def test_workloads_of_more_pods_than_a_cluster_may_have_are_refused(
    tmp_path: Path, suffix: str
) -> None:
    """``replicas: 2147483647`` kept `simulate` busy until the memory was used up."""
    file = tmp_path / f"w.{suffix}"
    for kind, version, spec, path in (
        ("Deployment", "apps/v1", {"replicas": 2**31 - 1}, "replicas"),
        ("StatefulSet", "apps/v1", {"replicas": 150_001}, "replicas"),
        ("Job", "batch/v1", {"parallelism": 2**31 - 1, "completions": 2**31 - 1}, "parallelism"),
    ):
        data = {"apiVersion": version, "kind": kind, "metadata": {"name": "w"}, "spec": spec}
        file.write_text(json.dumps(data))
        (found,) = load([str(file)]).diagnostics
        assert (found.code, found.line) == ("PS707", 1)
        assert (
            f"{spec[path]} pods are more than the 150000 that a cluster may have" in found.message
        )
    spec = {"parallelism": 5, "completions": 2**31 - 1}
    file.write_text(json.dumps({**data, "spec": spec}))
    assert not load([str(file)]).diagnostics


@pytest.mark.parametrize("suffix", ["json", "jsonl", "yaml"])
def test_a_large_file_shows_how_far_it_is_read(tmp_path: Path, suffix: str) -> None:
    """Progress is reported after each thousand objects."""
    objects = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"n{i}"}}
        for i in range(2_500)
    ]
    lines = [json.dumps(one) for one in objects]
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    text = {"json": listed, "jsonl": "\n".join(lines), "yaml": "\n---\n".join(lines)}[suffix]
    file = tmp_path / f"snapshot.{suffix}"
    file.write_text(text)
    seen: list[int] = []
    assert len(load([str(file)], advance=seen.append).objects) == 2_500
    assert seen == [1000, 1000]
