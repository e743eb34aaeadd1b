"""Realistic faults that are put into the sources on purpose, one at a time: the tests have to notice each.

`python -m tests.faults` does it in a copy of the sources and prints which test notices which fault.
"""
