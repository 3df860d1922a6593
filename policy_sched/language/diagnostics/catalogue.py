"""The catalogue of the rule language's problems, and the shape of one problem inside a text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from policy_sched.errors import Severity


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """What is wrong with ``text[start:end]`` of one expression, before it has a place in a file."""

    start: int
    end: int
    code: str
    message: str
    hint: str = ""

    @property
    def severity(self) -> Severity:
        """How bad it is, by its code."""
        return WARNINGS.get(self.code, Severity.ERROR)


#: What each code means; the manual lists them.
CODES: Final[dict[str, str]] = {
    "PS001": "unexpected token",
    "PS002": "syntax of another language",
    "PS003": "bad escape in a string",
    "PS004": "string or comment without an end",
    "PS005": "reserved word or keyword as a name",
    "PS011": "number literal out of range",
    "PS012": "bad duration, timestamp, quantity, semver, regex or selector literal",
    "PS014": "CEL feature outside the dialect",
    "PS101": "unknown name or function",
    "PS102": "unknown field",
    "PS103": "type has no fields",
    "PS104": "name is not available in this section",
    "PS107": "wrong number of arguments of a macro",
    "PS108": "macro variable is not a simple name",
    "PS109": "macro variable shadows a visible name",
    "PS110": "variable or function used before its definition, or recursively",
    "PS111": "duplicate name",
    "PS201": "no overload for these types",
    "PS203": "expected one type, found another",
    "PS204": "mixed element or branch types",
    "PS205": "type cannot be inferred",
    "PS206": "not iterable",
    "PS207": "constant overflows",
    "PS208": "quantity dimensions differ",
    "PS211": "resource name too dynamic",
    "PS301": "section result has the wrong type",
    "PS302": "score must be int or double",
    "PS305": "rule result is a list, map, record or optional",
    "PS306": "message must be a string",
    "PS311": "section not allowed twice, or queueSort differs between profiles",
    "PS312": "matchConditions beside queueSort",
    "PS313": "unstable sort key",
    "PS321": "score range is not within 0..100 and there is no normalize",
    "PS323": "Max or MaxReverse on a possibly negative score",
    "PS401": "always true",
    "PS402": "always false",
    "PS403": "unreachable branch or rule",
    "PS404": "unused variable, function or parameter",
    "PS405": "duplicate rule or condition",
    "PS406": "quantity suffix does not suit the resource",
    "PS407": "comment would hide the rest of a folded text",
    "PS408": "suppression without a code, a reason or an effect",
    "PS410": "name is not in the given snapshot",
    "PS411": "filter rejects every node of the snapshot",
    "PS412": "inequality over a key that may be missing",
    "PS413": "an error is possible and onError is not stated",
    "PS420": "filter reads now without requeue.every",
    "PS421": "pod cannot be batched",
    "PS501": "source, node or nesting limit",
    "PS502": "macro or list limit",
    "PS503": "cost over budget",
    "PS506": "regular expression depends on the node",
    "PS509": "predicate over the pods of a domain or of the cluster reads the node",
    "PS510": "cluster.pods used for more than a count",
    "PS601": "no such key",
    "PS602": "no value",
    "PS603": "overflow",
    "PS604": "divide by zero",
    "PS605": "conversion",
    "PS606": "index out of range",
    "PS607": "not finite",
    "PS701": "YAML syntax",
    "PS702": "unknown key",
    "PS703": "wrong YAML type",
    "PS704": "missing key",
    "PS705": "unknown policy or builtin",
    "PS706": "apiVersion",
    "PS707": "value not allowed",
    "PS708": "duplicate",
    "PS711": "plugins that cannot be made of policies that compile",
    "PS712": "file that never changes where it is mounted",
    "PS713": "object that the cluster refuses",
}
#: Codes that are not errors.
WARNINGS: Final[dict[str, Severity]] = {
    **dict.fromkeys(
        (
            "PS109",
            "PS401",
            "PS402",
            "PS403",
            "PS404",
            "PS405",
            "PS406",
            "PS408",
            "PS410",
            "PS411",
            "PS412",
            "PS413",
            "PS420",
            "PS712",
        ),
        Severity.WARNING,
    ),
    "PS421": Severity.NOTE,
}

#: Limits of one expression and of one policy, with their units.
MAX_SOURCE_BYTES: Final = 10_240
MAX_NODES: Final = 2_000  # of the typed tree, functions inlined
MAX_DEPTH: Final = 100  # of the syntax tree
MAX_INLINED_DEPTH: Final = 150  # of the typed tree with functions and variables written out
MAX_MACROS: Final = 32  # in one expression
MAX_MACRO_NESTING: Final = 3
MAX_LIST_ITEMS: Final = 1_024  # of one literal
MAX_ELEMENTS: Final = 2_000  # of the lists of one expression, those of its variables included
MAX_TYPE_DEPTH: Final = 32  # of the types of expressions and parameters
MAX_FIELDS: Final = 1_000  # of a policy's params, and of the records in them, all together
MAX_FUNCTION_PARAMS: Final = 64
MAX_VARIABLES: Final = 64
MAX_FUNCTIONS: Final = 32
MAX_RULES: Final = 64
MAX_PATTERN_BYTES: Final = 512
MAX_RULE_COST: Final = 500  # units of one rule, see cost.py; an annotation may raise it
MAX_ANNOTATED_COST: Final = 20_000  # the most that the annotation may say
MAX_PROFILE_COST: Final = 5_000  # units of all rules of a profile
MAX_ANNOTATED_PROFILE_COST: Final = 50_000  # the same with what annotations add
MAX_PROBLEMS: Final = 100  # printed of one policy
