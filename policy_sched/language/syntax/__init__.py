"""Text becomes an AST; the only stage that knows Lark.

Also the typed AST, comments, string literals, and hints for the syntax of other languages.
"""

from policy_sched.language.syntax import ast
from policy_sched.language.syntax.ast import Span, children, walk
from policy_sched.language.syntax.ast_builder import ESCAPES, KEYWORDS, RESERVED, quote
from policy_sched.language.syntax.parser import comments, parse, parse_cel

__all__ = [
    "ESCAPES",
    "KEYWORDS",
    "RESERVED",
    "Span",
    "ast",
    "children",
    "comments",
    "parse",
    "parse_cel",
    "quote",
    "walk",
]
