"""The contract with plugins, and the runner that executes it."""
