"""Policy time: configuration and policy files become pipelines.

models/ -> validate/ -> load/ -> resolve/ -> build/ -> check/ -> reload/. Every problem is reported
with file, line and column.
"""
