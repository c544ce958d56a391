"""Signed requests: HTTP message signatures (RFC 9421) with Ed25519.

A `Signer` is an `httpx.Auth`, so it signs requests to Bursar's server (`Client(url, signer=signer)`) and to every
service that Bursar meters (`httpx.Client(auth=signer)`). `Signer.sign` returns the headers for any other HTTP library.

`Signer.from_seed` needs the package `cryptography`: `pip install 'bursar[signing]'`. A `Signer` with a function of
yours needs no package, for example if a key service signs.
"""

from __future__ import annotations

import base64
import hashlib
import importlib
import re
import time
import uuid
from collections.abc import Callable, Generator
from typing import Any, cast
from urllib.parse import urlsplit

import httpx

from bursar.errors import InvalidOption

_COMPONENTS = ("@method", "@authority", "@path", "@query", "x-agent-id")
_NAME = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,247}[\x21-\x7e])?")
_NONCE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{16,128}")
_DEFAULT_PORTS = {"http": 80, "https": 443}


class Signer(httpx.Auth):
    """Signs the requests of an agent. Each attempt gets a signature of its own: a signature is accepted once."""

    requires_request_body = True

    def __init__(self, public_key: bytes, sign: Callable[[bytes], bytes], *, agent: str | None = None) -> None:
        """`sign` returns the Ed25519 signature of a text by the key whose public half is `public_key`. `agent` is the
        name under which the service has registered the key; default: the public key in hexadecimal."""
        if len(public_key) != 32:
            raise InvalidOption("public_key: must be 32 bytes")
        if agent is not None and not _NAME.fullmatch(agent):
            raise InvalidOption("agent: must be 1 to 249 printable ASCII characters without a space at either end")
        self._sign = sign
        self.public_key = public_key.hex()
        self.agent = agent if agent is not None else self.public_key

    @classmethod
    def from_seed(cls, seed: bytes | str, *, agent: str | None = None) -> Signer:
        """Creates a signer with a private key: 32 bytes, or 64 hexadecimal digits. Needs the package `cryptography`."""
        try:
            key_bytes = bytes.fromhex(seed) if isinstance(seed, str) else seed
        except ValueError:
            key_bytes = b""
        if len(key_bytes) != 32:
            raise InvalidOption("seed: must be 32 bytes, or 64 hexadecimal digits")
        try:
            ed25519: Any = importlib.import_module("cryptography.hazmat.primitives.asymmetric.ed25519")
        except ImportError as error:
            text = "signing needs the package `cryptography`: install it with pip install 'bursar[signing]'"
            raise InvalidOption(text) from error
        key = ed25519.Ed25519PrivateKey.from_private_bytes(key_bytes)
        return cls(cast("bytes", key.public_key().public_bytes_raw()), key.sign, agent=agent)

    def sign(
        self, method: str, url: str, body: bytes = b"", *, created: int | None = None, nonce: str | None = None
    ) -> dict[str, str]:
        """Returns the headers that sign a request. `url` is absolute, and `body` is what is sent. `created`, in seconds
        since 1970, and `nonce` are for tests."""
        parts = urlsplit(url)
        host = (parts.hostname or "").lower()
        host = f"[{host}]" if ":" in host else host
        port = "" if parts.port in (None, _DEFAULT_PORTS.get(parts.scheme)) else f":{parts.port}"
        return self._headers(method, f"{host}{port}", parts.path or "/", parts.query, body, created, nonce)

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Signs a request of `httpx`."""
        path, _, query = request.url.raw_path.decode("ascii").partition("?")
        host = request.headers["host"].lower()
        request.headers.update(self._headers(request.method, host, path, query, request.content, None, None))
        yield request

    def _headers(
        self, method: str, host: str, path: str, query: str, body: bytes, created: int | None, nonce: str | None
    ) -> dict[str, str]:
        nonce = uuid.uuid4().hex if nonce is None else nonce
        if not _NONCE.fullmatch(nonce):
            raise InvalidOption("nonce: must be 16 to 128 visible ASCII characters")
        created = int(time.time()) if created is None else created
        headers = {"x-agent-id": self.agent}
        signed: dict[str, str] = dict(zip(_COMPONENTS, (method, host, path, f"?{query}", self.agent), strict=True))
        if body:
            headers["content-digest"] = f"sha-256=:{_base64(hashlib.sha256(body).digest())}:"
            signed["content-digest"] = headers["content-digest"]
        names = " ".join(f'"{name}"' for name in signed)
        text = f'({names});created={created};nonce="{nonce}";keyid="{self.public_key}";alg="ed25519"'
        lines = [f'"{name}": {value}' for name, value in signed.items()]
        base = "\n".join([*lines, f'"@signature-params": {text}'])
        headers["signature-input"] = f"agent={text}"
        headers["signature"] = f"agent=:{_base64(self._sign(base.encode('ascii')))}:"
        return headers


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
