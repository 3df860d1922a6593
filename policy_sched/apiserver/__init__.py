"""The embedded cluster behind the Kubernetes REST API: one request at a time, in the event loop."""
