"""The embedded control plane behind the Kubernetes REST API.

request/ parses, security/ authenticates and authorizes, endpoints/ handles requests, registry/
knows the kinds, printers/ makes kubectl's tables, managedfields/ server-side apply, protobuf/ and
validation/ the bodies. One request at a time, in the event loop.
"""
