"""Bodies in protobuf, as client-go programs send them; answers are always JSON."""
