"""The part of Python that tests of programs are written in, worked out within bounds and without running anything.

Data sets state what a program has to do as Python asserts. Their literals, loops over cases and small helper functions
are walked through as a syntax tree: nothing is compiled, imported or looked up on an object, only the operations listed
in `operations` and `library` exist, and work, depth and size of values are bounded.
"""
