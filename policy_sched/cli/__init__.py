"""The command line: one file per verb.

A verb parses its options, calls one package below and prints the result. Verbs are imported when
they run, so that `--version` and `--help` start fast. Reading arguments is in input/, options
shared by verbs in options/, rendering in output/. Nothing here decides anything.
"""
