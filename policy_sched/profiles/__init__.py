"""Configuration and policy files become pipelines."""
