"""How decisions reach a cluster: the client protocol and its implementations."""
