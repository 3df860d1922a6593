"""Checks of the selectors over devices, in device classes and resource claims.

(pkg/apis/resource/validation, validateCELSelector.)
"""

from __future__ import annotations

from typing import Any, Final

from policy_sched.embedded.apiserver.validation.problems import Problems, inside, items
from policy_sched.language.cel import compile_selector
from policy_sched.manifests import Plain

MOST_BYTES: Final = 10 * 1024
"""Bytes that an expression may have."""


def check_device_class(problems: Problems, data: Plain) -> None:
    """Check a device class."""
    _check_selectors(problems, "spec", data.get("spec"))


def check_claim(problems: Problems, data: Plain) -> None:
    """Check a claim."""
    _check_requests(problems, "spec.devices.requests", inside(data.get("spec"), "devices"))


def check_claim_template(problems: Problems, data: Plain) -> None:
    """Check a template of claims."""
    spec = inside(data.get("spec"), "spec")
    _check_requests(problems, "spec.spec.devices.requests", inside(spec, "devices"))


def _check_requests(problems: Problems, at: str, devices: Any) -> None:
    for i, request in items(inside(devices, "requests")):
        _check_selectors(problems, f"{at}[{i}].exactly", request.get("exactly"))
        for k, choice in items(request.get("firstAvailable")):
            _check_selectors(problems, f"{at}[{i}].firstAvailable[{k}]", choice)


def _check_selectors(problems: Problems, at: str, value: Any) -> None:
    for i, selector in items(inside(value, "selectors")):
        here, cel = f"{at}.selectors[{i}].cel", selector.get("cel")
        if not isinstance(cel, dict):
            problems.required(here)
            continue
        expression = cel.get("expression")
        expression = expression if isinstance(expression, str) else ""
        if len(expression.encode(errors="replace")) > MOST_BYTES:
            problems.too_long(f"{here}.expression", MOST_BYTES)
            continue
        compiled = compile_selector(expression, new=True)
        if compiled.error:
            problems.invalid(f"{here}.expression", expression, compiled.error)
        elif compiled.too_complex:
            problems.forbidden(f"{here}.expression", "too complex, exceeds cost limit")
