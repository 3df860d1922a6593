"""Which pod goes next."""
