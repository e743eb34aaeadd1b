"""A server that speaks vLLM's protocol and samples with the engine of this package, to be disturbed by tests."""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from safetensors.torch import load_file
from torch import Tensor

from groupwise.model.load import Policy
from groupwise.rollout.engine import SampleRequest, SamplingParams
from groupwise.rollout.inprocess import InProcessEngine
from groupwise.rollout.vllm.weight_reader import digest_of


@dataclass
class FakeVllm:
    """policy: of its own; its weights are replaced. before_answer: called before a request is served, with how many
    were; what it returns takes the place of the answer's status. loads: what becomes of the weights of a file."""

    policy: Policy
    before_answer: Callable[[str, int], int | None] = lambda _path, _count: None
    loads: Callable[[dict[str, Tensor]], dict[str, Tensor]] = lambda weights: weights
    version: str = "default"
    paths: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    answered: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[str, Tensor] = {}
        self._server: ThreadingHTTPServer | None = None
        self._port = 0
        self.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Come up, at the same address as before, with weights that are nobody's."""
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._serve()

            def do_POST(self) -> None:
                self._serve()

            def log_message(self, *_: Any) -> None:
                pass

            def _serve(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                fake.keys.append(self.headers.get("Authorization"))
                status, answer = fake.serve(self.path, json.loads(body) if body else {})
                if status == 0:
                    self.close_connection = True
                    return
                text = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        self._server.daemon_threads = True
        self._port = self._server.server_address[1]
        self.version, self._held = "default", {}
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def serve(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        path = path.partition("?")[0]
        with self._lock:
            self.paths.append(path)
            status = self.before_answer(path, self.paths.count(path))
            if status is not None:
                return status, {"error": "as the test wants it"}
            match path:
                case "/weight_info":
                    return 200, {"weight_version": self.version}
                case "/update_weight_version":
                    self.version = body["new_version"]
                case "/collective_rpc" if body["method"] == "reload_weights":
                    self._load(Path(body["kwargs"]["weights_path"]))
                case "/collective_rpc":
                    seed = body["kwargs"]["seed"]
                    read = {name: ["whole", digest_of(weight, "whole", seed)] for name, weight in self._held.items()}
                    return 200, {"results": [read]}
                case "/inference/v1/generate":
                    return 200, {"choices": [self._sample(body)]}
            return 200, {}

    def _load(self, folder: Path) -> None:
        self.folders.append(str(folder))
        self._held = self.loads(load_file(folder / "model.safetensors"))
        weights = dict(self.policy.model.named_parameters())
        for name, weight in self._held.items():
            if name in weights:
                weights[name].data.copy_(weight)

    def _sample(self, body: dict[str, Any]) -> dict[str, Any]:
        fields = body["sampling_params"]
        sampling = SamplingParams(
            temperature=fields["temperature"],
            max_new_tokens=fields["max_tokens"],
            stop_ids=tuple(fields["stop_token_ids"]),
            top_k=max(fields["top_k"], 0),
            top_p=fields["top_p"],
            min_p=fields["min_p"],
            record_kept=fields["logprobs"] > 0,
        )
        request = SampleRequest(np.asarray(body["token_ids"]), (fields["seed"],))
        ((one,),) = InProcessEngine(self.policy, 1).generate([request], sampling)
        ids = [int(token) for token in one.ids]
        content: list[dict[str, Any]] = [
            {"token_id": token, "logprob": float(logp), "top_logprobs": []}
            for token, logp in zip(ids, one.logps, strict=True)
        ]
        if one.kept is not None:
            ends = np.cumsum(one.kept.counts_T)[:-1]
            for own, kept in zip(content, np.split(one.kept.ids, ends), strict=True):
                dropped = next(token for token in range(len(kept) + 1) if token not in kept)
                own["top_logprobs"] = [{"token_id": int(token), "logprob": -1.0} for token in kept]
                own["top_logprobs"].append({"token_id": dropped, "logprob": -9999.0})
        answer = {
            "token_ids": ids,
            "finish_reason": one.finish_reason,
            "logprobs": {"content": content},
            "weight_versions": [{"version": self.version, "start": 0, "end": len(ids)}],
        }
        self.answered.append({"seed": fields["seed"], "ids": ids, "version": self.version})
        return answer
