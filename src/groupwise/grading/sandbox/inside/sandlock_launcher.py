"""Just outside the sandbox: confine a command with sandlock and end as it ends.

Arguments: the folder that holds the package sandlock, the policy as JSON, and the command.
"""

import json
import os
import signal
import sys

sys.path.append(sys.argv[1])
from sandlock import ExitReason, Sandbox

process = Sandbox(**json.loads(sys.argv[2])).popen(sys.argv[3:])
result = process.wait()
if result.reason != ExitReason.EXITED:
    os._exit(128 + (result.signal if result.signal > 0 else signal.SIGKILL))
os._exit(result.exit_code & 255)
