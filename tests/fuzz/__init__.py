"""A structure-aware fuzzer of files and requests."""
