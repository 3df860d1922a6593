"""Text that XML 1.0 can hold: it has no way to write most control characters."""

from __future__ import annotations

import re
from typing import Final

_NEVER: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def xml_text(text: str) -> str:
    """Return a text with a replacement character for each that no XML document may have."""
    return _NEVER.sub("\ufffd", text)
