"""A Kubernetes scheduler whose policy is data."""

__version__ = "0.1.0"
