"""The language server for policy files (extra `[lsp]`).

Diagnostics, completion, hovers, definitions and fixes, from the same checks as `check`.
"""
