"""The language server: what an editor asks of policy files, over the Language Server Protocol."""
