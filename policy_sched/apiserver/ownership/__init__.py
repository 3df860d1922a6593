"""Who has written which field of an object: server-side apply and what it needs."""
