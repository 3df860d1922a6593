"""A running instance: reads files and a store, decides pods, serves HTTP, until it is stopped."""
