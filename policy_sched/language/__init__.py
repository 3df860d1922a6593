"""The rule language: text to typed tree to NumPy; it knows columns, not scheduling."""
