"""The fields of all kinds that are served, and their types."""
