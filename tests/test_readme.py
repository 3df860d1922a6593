"""The examples of the README and of docs/ are run, and what is shown is what they print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.shown import PAGES, ROOT, Example, blocks, examples, page, printed, shared_files

BLOCKS = blocks(page("README.md"))
ORDERED = {
    "docs/tutorial.md": "test_first_hour.py",
    "docs/embedded-cluster.md": "test_kubectl_custom_resources.py",
    "docs/inputs.md": "test_inputs_page.py",
    "docs/rollouts.md": "test_rollouts_run.py",
}
"""Pages whose commands depend on those before them, and the module that runs them in order."""
EXAMPLES = [
    pytest.param(example, id=f"{name}: {example.command}")
    for name in PAGES
    if name not in ORDERED
    for block in blocks(page(name))
    for example in examples(block)
]


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_print_what_the_page_shows(example: Example, tmp_path: Path) -> None:
    """Every command of a console block, run in the checkout, prints the lines below it."""
    folder = tmp_path / "example"
    folder.mkdir()
    for name, text in shared_files().items():
        (folder / name).write_text(text, encoding="utf-8")
    assert printed(example.command, "example", folder) == example.output


def test_every_page_with_commands_is_typed() -> None:
    """The pages that are run here and the ordered one have the verbs that reviewers read of."""
    shown = {name for name in PAGES if any(examples(block) for block in blocks(page(name)))}
    assert shown == {
        "README.md",
        "docs/policy-guide.md",
        "docs/experiments.md",
        "docs/simulation.md",
        *ORDERED,
    }
    verbs = {example.values[0].command.split()[1] for example in EXAMPLES}
    assert verbs == {
        *("check", "diff", "eval", "explain", "fit", "prove", "simulate", "sweep", "test", "tune"),
    }


def test_the_readme_is_short() -> None:
    """A stranger reads it in one go."""
    assert len(page("README.md").splitlines()) <= 200


def test_the_policy_has_ten_lines() -> None:
    """The first policy that a reader sees is a whole one, and it is short."""
    language, text = next(block for block in BLOCKS if block[0] == "yaml")
    assert language == "yaml"
    assert yaml.safe_load(text)["kind"] == "Policy"
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert len(lines) == 10


def test_there_are_two_set_up_commands() -> None:
    """One installs and simulates, the other installs and tests; each is one line."""
    commands = [line for language, text in BLOCKS if language == "sh" for line in text.splitlines()]
    set_up = [line for line in commands if line.startswith("python3.11 -m venv")]
    simulating, testing = set_up
    assert "policy-sched simulate policies/example-cluster" in simulating
    assert "pytest" in testing


DOCUMENTS = [
    *PAGES,
    *(name for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "policies/README.md")),
]


def headings(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    found = re.findall(r"^#+ (.*)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in found}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_lead_to_what_exists(name: str) -> None:
    """Every relative link of a page names a file, and a heading of it if it has an anchor."""
    for target in re.findall(r"\]\(([^)\s]+)\)", page(name)):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        file = (ROOT / name).parent / path if path else ROOT / name
        assert file.exists(), f"{name}: {target}"
        if anchor:
            assert anchor in headings(file.read_text(encoding="utf-8")), f"{name}: {target}"


def test_every_page_is_linked() -> None:
    """Each page of docs/ is reached from the README, directly or by pages that it links to."""
    reached, waiting = set[str](), ["README.md"]
    while waiting:
        name = waiting.pop()
        reached.add(name)
        for target in re.findall(r"\]\(([^)\s#]+\.md)", page(name)):
            if not target.startswith("https://"):
                path = str(((ROOT / name).parent / target).resolve().relative_to(ROOT))
                waiting += [path] if path not in reached else []
    assert [name for name in PAGES if name not in reached] == []


def test_no_document_names_an_address_or_a_package_that_does_not_exist() -> None:
    """There is no public address and no package on an index yet."""
    for name in DOCUMENTS:
        assert "OWNER" not in page(name), name
        assert not re.search(r"pip install ['\"]?policy.sched\b(?!-)", page(name)), name
