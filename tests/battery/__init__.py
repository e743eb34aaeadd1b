"""Fifty cases in which trainers fail in use, each with its points and the tests that prove it.

Every block is a file: its cases by number, the tests elsewhere that prove them, and what no other test does.
`python -m tests.battery` runs all of it and prints the score; `python -m tests.battery page` makes docs/reliability.md.
"""
