"""Checks of the selectors over devices, in device classes and resource claims.

(pkg/apis/resource/validation, validateCELSelector.)
"""

from __future__ import annotations

from typing import Any, Final

from policy_sched.embedded.apiserver.validation.problems import Problems, inside
from policy_sched.language.cel import compile_selector

MOST_BYTES: Final = 10 * 1024
"""Bytes that an expression may have."""


def check_selector(problems: Problems, at: str, selector: Any) -> None:
    """Check one selector."""
    here, cel = f"{at}.cel", inside(selector, "cel")
    if not isinstance(cel, dict):
        problems.required(here)
        return
    expression = cel.get("expression")
    expression = expression if isinstance(expression, str) else ""
    if len(expression.encode(errors="replace")) > MOST_BYTES:
        problems.too_long(f"{here}.expression", MOST_BYTES)
        return
    compiled = compile_selector(expression, new=True)
    if compiled.error:
        problems.invalid(f"{here}.expression", expression, compiled.error)
    elif compiled.too_complex:
        problems.forbidden(f"{here}.expression", "too complex, exceeds cost limit")
