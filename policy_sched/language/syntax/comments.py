"""Finds the ``//`` comments of an expression."""

from __future__ import annotations

from collections.abc import Iterator


def comments(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each ``//`` comment of a rule, strings left alone."""
    quote, i = "", 0
    while i < len(text):
        if quote:
            if text[i] == "\\":
                i += 1
            elif text.startswith(quote, i):
                i += len(quote) - 1
                quote = ""
        elif text[i] in "\"'":
            quote = text[i] * 3 if text.startswith(text[i] * 3, i) else text[i]
            i += len(quote) - 1
        elif text.startswith("//", i):
            end = text.find("\n", i)
            end = len(text) if end < 0 else end
            yield i, end
            i = end
        i += 1
