"""HTTP servers that stay within bounds: connections, time-outs, and answers to broken requests."""
