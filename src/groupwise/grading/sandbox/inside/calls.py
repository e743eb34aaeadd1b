"""Inside the sandbox, behind the text of values.py and limits.py: load a program and make calls of its function.

Standard input: the program, then the encoded calls. Standard output: a frame for each call, as soon as it has returned:
a letter, the length of what follows, a colon, and the encoded value or a text. Nothing here knows what is expected.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from groupwise.grading.sandbox.inside.limits import new_main, prepare, read_input
    from groupwise.grading.sandbox.wire_values import ForeignError, decode, encode


def frame(channel: int, letter: bytes, payload: bytes) -> None:
    """Write one frame at once."""
    data = letter + b"%d:" % len(payload) + payload
    while data:
        data = data[os.write(channel, data) :]


def text_of(error: BaseException) -> bytes:
    """Type and message of an exception, which may have been written to harm whoever prints it."""
    try:
        message = str(error)
    except BaseException:
        message = ""
    return f"{type(error).__name__}: {message}"[:2000].encode("utf-8", "replace")


def make_calls(channel: int, function: "Any", calls: "list[bytes]") -> None:
    """One frame for each call; every call has its own arguments."""
    for position in range(len(calls)):
        args, kwargs, sources, steps = decode(calls[position])
        try:
            for place, source in sources.items():
                args[place] = eval(source, {})
            result = made = function(*args, **kwargs)
            for name, values, named, fresh in steps:
                result = getattr(made if fresh else result, name)
                if values is not None:
                    result = result(*values, **named)
            payload = encode(result)
        except ForeignError as error:
            frame(channel, b"g", str(error)[:2000].encode("utf-8", "replace"))
        except BaseException as error:
            frame(channel, b"x", text_of(error))
        else:
            frame(channel, b"r", payload)


def serve() -> None:
    """Load, call, end without running what the program left for the end."""
    sign, (program_bytes, calls_bytes, name) = prepare()
    source = read_input(int(program_bytes))
    calls = decode(read_input(int(calls_bytes)))
    path = os.path.join(os.getcwd(), "program.py")
    with open(path, "wb") as file:
        file.write(source)
    channel = os.dup(1)
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    module = new_main("solution", path)
    os.write(2, sign)
    try:
        exec(compile(source, path, "exec"), module.__dict__)
    except BaseException as error:
        frame(channel, b"L", text_of(error))
    else:
        if name in module.__dict__:
            make_calls(channel, module.__dict__[name], calls)
        else:
            frame(channel, b"L", f"the program defines no {name}".encode("utf-8", "replace"))
    sys.stdout.flush()
    os._exit(0)


serve()
