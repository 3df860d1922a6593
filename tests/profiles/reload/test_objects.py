"""Policies as objects beside files: one set, all or nothing, and the start without broken ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from policy_sched.errors import Diagnostic, Severity
from policy_sched.profiles.load import PolicyObject, read_object
from policy_sched.profiles.reload.inputs import Compilation, PolicyFiles, alone, first_compilation
from tests.profiles.load.test_policy_object import policy_object

Plain = dict[str, Any]
FILTER = [{"expression": "node.name != 'a'"}]
WRONG = [{"expression": "node.nmae != 'a'"}]
HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
JOINS = {"profiles": ["default-scheduler"]}


def config(*names: str) -> Plain:
    """Return a configuration that enables policies by name."""
    enabled = [{"name": name} for name in names]
    return {**HEAD, "profiles": [{"plugins": {"multiPoint": {"enabled": enabled}}}]}


def enabled(compilation: Compilation) -> list[str]:
    """Return the last filters of the only profile."""
    (ready,) = compilation.plans
    return [name for name, _ in ready.plan.points["filter"]][-2:]


def test_the_configuration_enables_objects_by_name() -> None:
    """Like files; another object is idle, and none is enabled without being named."""
    objects = (policy_object("mine", filter=FILTER), policy_object("idle", filter=FILTER))
    compilation = PolicyFiles(config("mine"), objects=objects).compile()
    assert not compilation.problems
    assert enabled(compilation)[1:] == ["mine"]
    without = PolicyFiles(objects=objects).compile()
    assert "mine" not in without.plans[0].plan.plugins


def test_an_object_that_names_a_profile_joins_it(tmp_path: Path) -> None:
    """Files and named policies come first, objects in order of name."""
    file = tmp_path / "file.yaml"
    file.write_text(
        "apiVersion: policysched.dev/v1alpha1\nkind: Policy\nmetadata: {name: zz}\n"
        "spec: {filter: [{expression: node.name != 'b'}]}\n"
    )
    objects = (
        policy_object("b", filter=FILTER, **JOINS),
        policy_object("a", filter=FILTER, **JOINS),
    )
    compilation = PolicyFiles(None, (str(file),), objects=objects).compile()
    (ready,) = compilation.plans
    assert [name for name, _ in ready.plan.points["filter"]][-3:] == ["zz", "a", "b"]


def test_an_object_that_the_configuration_names_and_that_is_gone_is_its_problem() -> None:
    """Deleted or renamed: told in the configuration, and the set in force stays."""
    compilation = PolicyFiles(config("mine")).compile()
    assert compilation.failed
    assert compilation.problems[0].message.endswith('plugin "mine" does not exist')


def test_one_broken_object_refuses_the_set_and_is_told_with_its_field() -> None:
    """Enabled or idle: whoever applied it is told in its status."""
    objects = (policy_object("good", filter=FILTER), policy_object("bad", filter=WRONG))
    compilation = PolicyFiles(objects=objects).compile()
    (problem,) = compilation.problems
    assert (problem.file, problem.code) == ("policy.policysched.dev/bad", "PS102")
    assert list(compilation.paths.values()) == ["spec.filter[0].expression"]
    assert compilation.failed


def test_a_start_leaves_broken_objects_out() -> None:
    """There is no set in force that could stay, and a scheduler has to come up."""
    objects = (policy_object("bad", filter=WRONG), policy_object("good", filter=FILTER, **JOINS))
    files, compilation = first_compilation(PolicyFiles(objects=objects))
    assert [given.name for given in files.objects] == ["good"]
    assert enabled(compilation)[1:] == ["good"]
    named, compilation = first_compilation(PolicyFiles(config("bad"), objects=objects))
    assert compilation.failed
    assert not named.objects or "bad" not in [given.name for given in named.objects]


def test_a_start_leaves_out_what_no_compiler_can_compile() -> None:
    """The process that compiles names no object; each is tried alone then."""
    objects = tuple(policy_object(name, filter=FILTER, **JOINS) for name in ("a", "costly", "b"))
    tried: list[tuple[str, ...]] = []

    def compiler(files: PolicyFiles) -> Compilation:
        tried.append(tuple(given.name for given in files.objects))
        if "costly" in tried[-1]:
            why = "cannot compile the policies: it takes more than 30 seconds of processor time"
            return Compilation((), (Diagnostic("<default configuration>", 1, 1, "PS503", why),))
        return files.compile()

    files, compilation = first_compilation(PolicyFiles(objects=objects), compiler)
    assert not compilation.failed
    assert [given.name for given in files.objects] == ["a", "b"]
    assert tried == [("a", "costly", "b"), ("a",), ("costly",), ("b",), ("a", "b")]


def test_what_an_api_server_writes_is_no_part_of_a_set(tmp_path: Path) -> None:
    """An object has the hash of the same policy in a file, and its text is that of each version."""
    head = {"apiVersion": "policysched.dev/v1alpha1", "kind": "Policy"}
    metadata = {"name": "mine", "labels": {"team": "a"}, "annotations": {"note": "b"}}
    own = {**head, "metadata": metadata, "spec": {"filter": FILTER, **JOINS}}
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(own))
    of_file = PolicyFiles(None, (str(file),)).compile()
    stamps = {"uid": "1", "generation": 2, "creationTimestamp": "2026-01-01T00:00:00Z"}
    fields = [{"manager": "kubectl", "operation": "Apply"}]
    texts = []
    for version in ("1", "2"):
        stamped = metadata | stamps | {"resourceVersion": version, "managedFields": fields}
        raw = json.dumps({**own, "metadata": stamped, "status": {"hash": version}})
        given = PolicyObject("mine", raw.encode(), 2)
        of_object = PolicyFiles(objects=(given,), keeps_texts=True).compile()
        assert of_object.content_hash == of_file.content_hash
        texts.append(of_object.sources)
    assert texts[0] == texts[1]
    assert json.loads(texts[0][given.file]) == own


def test_an_object_is_judged_alone() -> None:
    """Beside the default plugins, whatever configuration is in force."""
    sort = policy_object("sort", queueSort=[{"expression": "pod.priority"}])
    assert not alone(sort).compile().problems
    assert alone(policy_object("bad", filter=WRONG)).compile().failed
    assert all(
        problem.severity is Severity.ERROR
        for problem in alone(policy_object("bad", filter=WRONG)).compile().problems
    )


def test_of_a_thousand_objects_one_that_changed_is_read_again() -> None:
    """A reload takes as long as what changed; an object of 1 MB is refused unread."""
    names = [f"p{i}" for i in range(1000)]
    objects = tuple(policy_object(name, filter=FILTER) for name in names)
    assert not PolicyFiles(objects=objects).compile().problems
    before = read_object.cache_info().misses
    changed = policy_object("p7", filter=WRONG)
    large = policy_object("p8", filter=FILTER, variables=[{"name": "x", "expression": "1" * 2**20}])
    after = tuple(
        {"p7": changed, "p8": large}.get(name, given)
        for name, given in zip(names, objects, strict=True)
    )
    compilation = PolicyFiles(objects=after).compile()
    assert {p.file.partition("/")[2] for p in compilation.problems} == {"p7", "p8"}
    assert read_object.cache_info().misses == before + 2
