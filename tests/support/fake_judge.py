"""A server that speaks OpenAI's protocol and judges as a test wants it."""

import contextlib
import json
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True)
class Asked:
    """What an honest judge reads in a request. number: of the request, from 1."""

    number: int
    body: dict[str, Any]
    fence: str
    right: str
    wrong: str
    gold: str
    answer: str

    @staticmethod
    def of(number: int, body: dict[str, Any]) -> "Asked":
        """As the prompt says: the answer is between two lines that have the fence."""
        system, user = (message["content"] for message in body["messages"])
        fence = re.search(r"<<(answer-\w+)>>", system)
        words = re.findall(r"^(verdict-\w+) ", system, re.MULTILINE)
        assert fence is not None
        inside = re.search(rf"^<<{fence[1]}>>\n(.*)\n<</{fence[1]}>>$", user, re.DOTALL | re.MULTILINE)
        gold = re.search(r"^Reference answer:\n(.*?)\n\n<<", user, re.DOTALL | re.MULTILINE)
        assert inside is not None
        assert gold is not None
        return Asked(number, body, fence[1], words[0], words[1], gold[1], inside[1])


# A text, or a status with a body.
Reply = str | tuple[int, str]


def honest(asked: Asked) -> Reply:
    """Right where the last box holds the reference answer, letter by letter."""
    boxes = re.findall(r"\\boxed\{([^}]*)\}", asked.answer)
    is_right = bool(boxes) and boxes[-1] == asked.gold
    return f"The result is {boxes[-1:]}.\n{asked.right if is_right else asked.wrong}"


@dataclass
class FakeJudge:
    """says: the reply to a request. drips: seconds between two bytes of it. keys: that came, one for each request."""

    says: Callable[[Asked], Reply] = honest
    drips: float = 0.0
    asked: list[Asked] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)

    def __enter__(self) -> Self:
        fake = self
        lock = threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with lock:
                    asked = Asked.of(len(fake.asked) + 1, body)
                    fake.asked.append(asked)
                    fake.keys.append(self.headers.get("Authorization"))
                said = fake.says(asked) if self.path == "/v1/chat/completions" else (404, "no such path")
                if isinstance(said, str):
                    choice = {"message": {"role": "assistant", "content": said}, "finish_reason": "stop"}
                    said = 200, json.dumps({"choices": [choice]})
                # Whoever asked may have left.
                with contextlib.suppress(OSError):
                    self._send(*said)

            def _send(self, status: int, text: str) -> None:
                content = text.encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                for start in range(0, len(content), 1) if fake.drips else ():
                    self.wfile.write(content[start : start + 1])
                    self.wfile.flush()
                    time.sleep(fake.drips)
                if not fake.drips:
                    self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"
