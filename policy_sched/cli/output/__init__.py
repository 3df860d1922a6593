"""Rendering: diagnostics, JUnit, TAP and SARIF, the terminal dashboard, usage errors.

Everything here turns a report into text. The reports themselves are made by the packages that they
describe.
"""
