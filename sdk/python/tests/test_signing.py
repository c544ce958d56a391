"""Signed requests."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import ROOT, FakeServer, Reply, Server
from ed25519 import public_key, reference_signer

from bursar import AsyncClient, Client, Signer, errors

SEED = bytes([7] * 32)
VECTORS: list[dict[str, Any]] = json.loads((ROOT / "tests/signatures/vectors.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
def test_all_languages_sign_alike(vector: dict[str, Any]) -> None:
    signer = reference_signer(bytes.fromhex(vector["seed"]), vector["agent"])
    arguments = (vector["method"], vector["url"], vector["body"].encode())
    options = {"created": vector["created"], "nonce": vector["nonce"]}
    assert signer.sign(*arguments, **options) == vector["headers"]


def test_a_seed_needs_the_package_for_signatures() -> None:
    if importlib.util.find_spec("cryptography") is None:
        with pytest.raises(errors.InvalidOption, match=r"pip install 'bursar\[signing\]'"):
            Signer.from_seed(SEED)
    else:
        one, other = Signer.from_seed(SEED.hex()), reference_signer(SEED)
        one_signed, other_signed = (
            signer.sign("GET", "http://a/", created=1_800_000_000, nonce="0123456789abcdef") for signer in (one, other)
        )
        assert one_signed == other_signed


def test_wrong_keys_and_names_are_refused() -> None:
    for seed in ("", "zz" * 32, bytes(31)):
        with pytest.raises(errors.InvalidOption, match="seed: must be 32 bytes"):
            Signer.from_seed(seed)
    for agent in ("", " a", "a ", "é", "x" * 250):
        with pytest.raises(errors.InvalidOption, match="agent: must be"):
            reference_signer(SEED, agent)
    with pytest.raises(errors.InvalidOption, match="public_key: must be"):
        Signer(b"", lambda text: text)
    with pytest.raises(errors.InvalidOption, match="nonce: must be"):
        reference_signer(SEED).sign("GET", "http://a/", nonce="short")


def test_every_attempt_has_a_signature_of_its_own(fake: Callable[..., FakeServer]) -> None:
    busy = json.dumps({"type": "/problems/busy", "title": "", "status": 503, "detail": "busy"}).encode()
    replies: list[Reply] = [(503, {}, busy), (200, {}, b"{}")] * 2
    answers = iter(replies)
    server = fake(lambda _: next(answers))
    signer = reference_signer(SEED, "agent:bot")
    with Client(server.url, token="secret", signer=signer) as client:
        client.budgets.credit("a", amount=1, reason="x")

    async def credit() -> None:
        async with AsyncClient(server.url, token="secret", signer=signer) as client:
            await client.budgets.credit("a", amount=1, reason="x")

    asyncio.run(credit())
    inputs = [request.headers["signature-input"] for request in server.requests]
    assert len(set(inputs)) == 4
    for request in server.requests:
        assert request.headers["x-agent-id"] == "agent:bot"
        assert '"content-digest");created=' in request.headers["signature-input"]


@pytest.fixture
def signed_server(tmp_path: Path) -> Iterator[Server]:
    """A server whose agents must sign, with a quota of three requests."""
    config = tmp_path / "bursar.toml"
    config.write_text(
        f"""
        [meter]
        signed = "required"
        quota = [{{ amount = 3, window = "lifetime" }}]
        [meter.signatures]
        authorities = ["*"]
        [meter.signatures.agents]
        "agent:bot" = [{{ key = "{public_key(SEED).hex()}" }}]
        """
    )
    server = Server(tmp_path, config)
    server.start()
    yield server
    server.kill()


def test_a_server_accepts_what_the_client_signs_once_and_nothing_else(signed_server: Server) -> None:
    with signed_server.client() as operator:
        token = operator.keys.create(name="bot", role="agent")["token"]
    signer = reference_signer(SEED, "agent:bot")
    url = f"{signed_server.url}/v1/commands"
    body = json.dumps({"charges": [{"scope": "é", "amount": 1, "limits": [{"amount": 9, "window": "lifetime"}]}]})

    def send(headers: dict[str, str], content: str = body, to: str = url) -> tuple[int, str | None]:
        own = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        answer = httpx.post(to, headers={**own, **headers}, content=content.encode(), trust_env=False)
        return answer.status_code, answer.json().get("reason")

    def sign() -> dict[str, str]:
        return signer.sign("POST", url, body.encode())

    assert send({}) == (401, "unsigned")
    assert send(sign(), body.replace('"amount": 1,', '"amount": 2,')) == (401, "digest-mismatch")
    assert send(sign(), to=f"{url}?a=b") == (401, "wrong-signature")
    signed = sign()
    assert send(signed) == (201, None)
    assert send(signed) == (401, "replayed")

    with Client(signed_server.url, token=token, signer=signer) as client:
        assert client.budgets.get("é")["scope"] == "é"

    async def read() -> None:
        async with AsyncClient(signed_server.url, token=token, signer=signer) as client:
            assert (await client.budgets.get("é"))["scope"] == "é"
            with pytest.raises(errors.QuotaExceeded):
                await client.budgets.get("é")

    asyncio.run(read())
    with Client(signed_server.url, token=token) as client, pytest.raises(errors.SignatureRefused) as refused:
        client.budgets.get("é")
    assert refused.value.reason == "unsigned"
