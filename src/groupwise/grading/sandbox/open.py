"""Finding a sandbox that holds on this machine."""

from collections.abc import Callable

from groupwise.errors import DataError
from groupwise.grading.sandbox.backend import Backend, Bare, UnavailableError
from groupwise.grading.sandbox.bubblewrap import Bubblewrap
from groupwise.grading.sandbox.nsjail import Nsjail
from groupwise.grading.sandbox.probe import probe
from groupwise.grading.sandbox.runs import SandboxOptions
from groupwise.grading.sandbox.sandbox import Sandbox
from groupwise.grading.sandbox.sandlock import Sandlock

BACKENDS: dict[str, Callable[[], Backend]] = {
    "bubblewrap": Bubblewrap,
    "sandlock": Sandlock,
    "nsjail": Nsjail,
    "none": Bare,
}


def open_sandbox(options: SandboxOptions) -> Sandbox:
    """The sandbox that the options name, after a short trial that its walls hold.

    `auto` takes the first that does of bubblewrap, sandlock and nsjail. Raises DataError, with the reason of each,
    where none does.
    """
    names = [name for name in BACKENDS if name != "none"] if options.backend == "auto" else [options.backend]
    reasons = []
    for name in names:
        try:
            return open_backend(name, options)
        except UnavailableError as error:
            reasons.append(f"  {name}: {error}")
    raise DataError(
        "no sandbox works here, so programs of a model cannot be run safely:\n"
        + "\n".join(reasons)
        + "\nInstall one of them, or allow unprivileged user namespaces (in a container: run it with"
        " `--security-opt seccomp=unconfined`). `sandbox.backend: none` runs programs without any isolation: only for"
        " programs that you would run yourself."
    )


def open_backend(name: str, options: SandboxOptions) -> Sandbox:
    """One backend; raises UnavailableError where it does not work or does not hold."""
    try:
        return open_made(BACKENDS[name](), options)
    except UnavailableError as error:
        if name != "bubblewrap" or "mount proc" not in str(error):
            raise
        return open_made(Bubblewrap(proc=False), options)


def open_made(backend: Backend, options: SandboxOptions) -> Sandbox:
    """A sandbox with this backend, tried."""
    sandbox = Sandbox(backend, options)
    try:
        if leak := probe(sandbox):
            raise UnavailableError(leak)
    except BaseException:
        sandbox.close()
        raise
    return sandbox
