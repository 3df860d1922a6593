"""The verb ``docs``: the manual's reference, or what it says of one name."""

from __future__ import annotations

import re

from policy_sched.cli.manual import reference
from policy_sched.cli.render import OK
from policy_sched.errors import PolicySchedError
from policy_sched.language.reference import entries, nearest


def docs(topic: str = "", /) -> int:
    """Print the reference of the language, of commands, hooks, columns and codes.

    Parameters
    ----------
    topic
        A code (PS412), a function (percent), a variable (node), a field (node.labels), a section
        (permit), a verb (check), or the beginning of a heading (columns); without it everything.
    """
    if not topic:
        print(reference())
        return OK
    found = entries(topic)
    parts = [str(entry) for entry in found] or _headed(topic)
    if not parts:
        close = nearest(topic)
        hint = f'; did you mean "{close}"?' if close else ""
        raise PolicySchedError(f'the reference has nothing called "{topic}"{hint}')
    print("\n\n".join(parts))
    return OK


def _headed(topic: str) -> list[str]:
    """Return the parts of the reference whose heading begins with, or ends in, the topic."""
    parts = re.split(r"^(?=##+ )", reference(), flags=re.MULTILINE)
    wanted = topic.lower()
    found = []
    for number, part in enumerate(parts):
        heading = part.partition("\n")[0].lstrip("#").strip().lower()
        if heading.startswith(wanted) or heading.endswith(f" {wanted}"):
            depth = len(part) - len(part.lstrip("#"))
            inner = []
            for following in parts[number + 1 :]:
                if len(following) - len(following.lstrip("#")) <= depth:
                    break
                inner.append(following)
            found.append("".join([part, *inner]).rstrip())
            break
    return found
