"""Inside the sandbox, behind the text of limits.py: become another program, which keeps standard input to itself."""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from groupwise.grading.sandbox.inside.limits import prepare

sign, rest = prepare()
os.write(2, sign)
os.execv(rest[0], rest)
