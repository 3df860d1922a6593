"""HTTP extenders: services that take part in filtering, scoring, preempting and binding."""
