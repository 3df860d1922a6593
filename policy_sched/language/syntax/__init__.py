"""Text becomes an AST; the only stage that knows Lark.

Also the typed AST, comments, string literals, and hints for the syntax of other languages.
"""

from policy_sched.language.syntax import ast as ast
from policy_sched.language.syntax.ast import Span as Span, children as children, walk as walk
from policy_sched.language.syntax.ast_builder import (
    ESCAPES as ESCAPES,
    KEYWORDS as KEYWORDS,
    RESERVED as RESERVED,
    quote as quote,
)
from policy_sched.language.syntax.parser import (
    comments as comments,
    parse as parse,
    parse_cel as parse_cel,
)
