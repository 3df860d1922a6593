"""A running instance: files and a store in, decisions out, until somebody says stop."""
