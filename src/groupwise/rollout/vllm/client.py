"""One vLLM server over HTTP: where it is, what it is asked, and how a failure of it looks."""

import http.client
import ipaddress
import json
import os
import socket
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from groupwise.errors import GroupwiseError, UsageError

# How long a server may take for what is done in no time by one that lives, such as a look at its health.
SHORT_SECONDS = 10.0


class ServerGoneError(GroupwiseError):
    """A server does not answer, answers with an error of its own, or lost its weights."""


class ServerRefusedError(GroupwiseError):
    """A server lives and refuses what it is asked."""


@dataclass
class Client:
    """A server by its address, and how many requests are with it. Threads may share it for calls."""

    address: str
    api_key: str = ""
    in_flight: int = 0
    is_down: bool = False

    def call(self, path: str, body: Any = None, seconds: float = SHORT_SECONDS, method: str = "POST") -> Any:
        """What a server answers, as JSON.

        Raises:
            ServerGoneError: where it does not answer in time, or with a status of 500 or more.
            ServerRefusedError: where it answers with another error.
        """
        parts = urlsplit(self.address)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=seconds)
        headers = {"Content-Type": "application/json"}
        if self.api_key:
            headers["Authorization"] = f"Bearer {self.api_key}"
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            text = response.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            raise ServerGoneError(f"{self.address} does not answer: {type(error).__name__}: {error}") from error
        finally:
            connection.close()
        if response.status >= 500:
            raise ServerGoneError(f"{self.address}{path} failed with {response.status}: {text[:300]}")
        if response.status >= 400:
            raise ServerRefusedError(f"{self.address}{path} answers {response.status}: {text[:500]}")
        try:
            return json.loads(text) if text else None
        except ValueError as error:
            raise ServerGoneError(f"{self.address}{path} answers what is not JSON: {text[:100]!r}") from error

    def is_healthy(self) -> bool:
        """Whether it answers at all."""
        try:
            self.call("/health", method="GET")
        except (ServerGoneError, ServerRefusedError):
            return False
        return True

    def weight_version(self) -> str:
        """The version that its weights were last given."""
        return str(self.call("/weight_info", method="GET")["weight_version"])

    def rpc(self, method: str, seconds: float, **arguments: Any) -> list[Any]:
        """Call a method of every worker."""
        body = {"method": method, "kwargs": arguments, "timeout": seconds}
        return list((self.call("/collective_rpc", body, seconds) or {}).get("results", []))


def checked_address(address: str, api_key: str) -> str:
    """An address that weights and prompts may be sent to.

    Raises:
        UsageError: for what is not http or https, is neither loopback nor private, or is not loopback and has no key.
    """
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/"):
        raise UsageError(f"engine.addresses: {address!r} is no address such as http://127.0.0.1:8000")
    try:
        found = {str(entry[4][0]) for entry in socket.getaddrinfo(parts.hostname, parts.port or 80)}
    except OSError as error:
        raise UsageError(f"engine.addresses: {parts.hostname!r} cannot be found: {error}") from error
    hosts = [ipaddress.ip_address(host) for host in found]
    if not all(host.is_loopback or host.is_private for host in hosts):
        raise UsageError(
            f"engine.addresses: {address} is a public address. Whoever can reach such a server can replace its "
            "weights: give a loopback or private one, through a tunnel if need be"
        )
    if not all(host.is_loopback for host in hosts) and not api_key:
        raise UsageError(
            f"engine.addresses: {address} is not loopback: start the server with --api-key, and name the environment "
            "variable that holds the key in engine.api_key_variable"
        )
    return address.rstrip("/")


def key_from(variable: str) -> str:
    """The API key in an environment variable. Raises UsageError where it is not set."""
    if variable and not os.environ.get(variable):
        raise UsageError(f"engine.api_key_variable={variable}: the environment has no such variable")
    return os.environ.get(variable, "") if variable else ""
