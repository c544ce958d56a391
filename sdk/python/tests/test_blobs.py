"""Blobs against a small local server that keeps them in memory and breaks connections."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from conftest import FakeRequest, FakeServer, Server
from test_worker import ended, running, worker_of

from bursar import AsyncClient, AsyncJobContext, Client, errors
from bursar.worker import JobContext

DATA = bytes(range(256)) * 4096


class Store:
    """A server with the routes of blobs."""

    def __init__(self) -> None:
        self.blobs: dict[str, tuple[bytes, dict[str, Any]]] = {}
        self.fail_uploads = 0
        self.cut_downloads_at: list[int] = []
        self.server = FakeServer(self._reply)
        self.url = self.server.url

    def _reply(self, request: FakeRequest) -> Any:
        parts = urlsplit(request.path)
        segments = parts.path.removeprefix("/v1/blobs").strip("/").split("/")
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if request.method == "POST" and segments == [""]:
            return self._put(request, query)
        if segments == [""]:
            items = [meta for _, meta in self.blobs.values()]
            start = int(query.get("cursor", 0))
            end = start + int(query.get("limit", 100))
            return answer(200, {"items": items[start:end], "next": str(end) if end < len(items) else None})
        blob = self.blobs.get(segments[0])
        if blob is None:
            return answer(404, {"type": "/problems/not-found", "title": "", "status": 404, "detail": "no such blob"})
        if request.method == "DELETE" or segments[1:2] == ["references"]:
            return 204, {}, b""
        if segments[1:] == ["meta"] or segments[1:] == ["restore"]:
            return answer(200, blob[1])
        if segments[1:] == ["link"]:
            return answer(200, {"id": "key_1", "url": f"{self.url}/linked", "expires_at": None})
        return self._bytes(request, *blob)

    def _put(self, request: FakeRequest, query: dict[str, str]) -> Any:
        if self.fail_uploads:
            self.fail_uploads -= 1
            return None
        digest = hashlib.sha256(request.body)
        expected = f"sha-256=:{base64.b64encode(digest.digest()).decode()}:"
        if request.headers.get("repr-digest", expected) != expected:
            return answer(400, {"type": "/problems/invalid", "title": "", "status": 400, "detail": "wrong digest"})
        id = f"blob_{digest.hexdigest()[:8]}"
        known = id in self.blobs
        meta = {
            "id": id,
            "namespace": query.get("namespace", "default"),
            "filename": query.get("filename"),
            "metadata": json.loads(query.get("metadata", "null")),
            "content_type": request.headers["content-type"],
            "size": len(request.body),
            "sha256": digest.hexdigest(),
            "state": "live",
        }
        self.blobs.setdefault(id, (request.body, meta))
        return answer(200 if known else 201, meta)

    def _bytes(self, request: FakeRequest, data: bytes, meta: dict[str, Any]) -> Any:
        match = re.fullmatch(r"bytes=(\d+)-", request.headers.get("range", ""))
        start = int(match[1]) if match else 0
        if start:
            assert request.headers["if-range"] == f'"{meta["sha256"]}"'
        headers = {"etag": f'"{meta["sha256"]}"', "content-type": meta["content_type"]}
        if not self.cut_downloads_at:
            return 206 if match else 200, headers, data[start:]
        end = self.cut_downloads_at.pop(0)

        def cut(handler: Any) -> None:
            handler.send_response(206 if match else 200)
            for name, value in {**headers, "content-length": str(len(data) - start)}.items():
                handler.send_header(name, value)
            handler.end_headers()
            handler.wfile.write(data[start:end])

        return cut


def answer(status: int, body: Any) -> tuple[int, dict[str, str], bytes]:
    return status, {"content-type": "application/json"}, json.dumps(body).encode()


@pytest.fixture
def store() -> Iterator[Store]:
    store = Store()
    yield store
    store.server.close()


def test_bytes_are_stored_once(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "a.bin"
    file.write_bytes(DATA)
    with Client(store.url) as client:
        blob = client.blobs.put(
            DATA, namespace="media", filename="a b.png", content_type="image/png", metadata={"k": 1}
        )
        assert (blob["namespace"], blob.get("filename"), blob.get("metadata")) == ("media", "a b.png", {"k": 1})
        assert (blob["content_type"], blob.get("size")) == ("image/png", len(DATA))
        sources: list[Any] = [file, io.BytesIO(DATA), iter([DATA[:1000], DATA[1000:]])]
        assert {client.blobs.put(source)["id"] for source in sources} == {blob["id"]}
        assert client.blobs.get(blob["id"]).read() == DATA
        saved = tmp_path / "saved"
        assert client.blobs.get(blob["id"]).save(saved) == len(DATA)
        assert saved.read_bytes() == DATA
        client.blobs.put(b"other")
        assert len(list(client.blobs.iterate(limit=1))) == 2
        assert client.blobs.meta(blob["id"])["id"] == blob["id"]
        client.blobs.add_reference(blob["id"], "invoice/7")
        assert store.server.requests[-1].path.endswith("/references/invoice%2F7")
        client.blobs.remove_reference(blob["id"], "invoice/7")
        assert client.blobs.link(blob["id"], expires_in_ms=1000).get("url") == f"{store.url}/linked"
        client.blobs.delete(blob["id"])
        assert client.blobs.restore(blob["id"])["id"] == blob["id"]
        with pytest.raises(errors.NotFound):
            client.blobs.get("blob_none").read()


def test_an_upload_is_repeated_if_its_source_can_be_read_again(store: Store) -> None:
    store.fail_uploads = 2
    with Client(store.url) as client:
        assert client.blobs.put(io.BytesIO(DATA)).get("size") == len(DATA)
        assert len(store.server.requests) == 3
        store.fail_uploads = 1
        with pytest.raises(errors.OutcomeUnknown):
            client.blobs.put(iter([DATA]))
        assert len(store.server.requests) == 4


def test_a_broken_download_continues(store: Store) -> None:
    with Client(store.url) as client:
        blob = client.blobs.put(DATA)["id"]
        store.cut_downloads_at = [1000, 500_000]
        assert client.blobs.get(blob).read() == DATA
    ranges = [request.headers.get("range") for request in store.server.requests[1:]]
    assert ranges == [None, "bytes=1000-", "bytes=500000-"]


def test_asyncio(store: Store, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with AsyncClient(store.url) as client:
            store.fail_uploads = 1
            blob = await client.blobs.put(DATA, namespace="media")
            store.cut_downloads_at = [1000]
            assert await client.blobs.get(blob["id"]).read() == DATA
            assert await client.blobs.get(blob["id"]).save(tmp_path / "saved") == len(DATA)
            assert (await client.blobs.put(iter([DATA])))["id"] == blob["id"]
            assert [one["id"] async for one in client.blobs.iterate()] == [blob["id"]]

    asyncio.run(scenario())
    assert (tmp_path / "saved").read_bytes() == DATA


def test_a_job_refers_to_the_blobs_that_it_puts(store: Store) -> None:
    job: Any = {"id": "job_1", "queue": "q", "kind": "k", "payload": None, "attempt": 1}
    with Client(store.url) as client:
        ctx = JobContext(job, 1, lambda _item: None, client)
        blob = ctx.blobs.put(DATA)["id"]
        ctx.blobs.put(DATA)
        assert ctx.made_blobs() == [blob]
        client.blobs.put(b"not of the job")
        assert ctx.made_blobs() == [blob]


def test_blobs_of_a_real_server(server: Server, client: Client, name: str) -> None:
    data = DATA + name.encode()
    blob = client.blobs.put(data, namespace=name, filename="a b.bin", metadata={"k": 1})
    assert (blob.get("size"), blob.get("sha256")) == (len(data), hashlib.sha256(data).hexdigest())
    assert blob["content_type"] == "application/octet-stream"
    assert (blob.get("filename"), blob.get("metadata")) == ("a b.bin", {"k": 1})
    assert client.blobs.put(iter([data[:7], data[7:]]), namespace=name)["id"] == blob["id"]
    reader = client.blobs.get(blob["id"])
    assert reader.read() == data
    assert (reader.size, reader.content_type) == (len(data), "application/octet-stream")
    live = [found["id"] for found in client.blobs.iterate(namespace=name, limit=1) if found["state"] == "live"]
    assert live == [blob["id"]]
    client.blobs.add_reference(blob["id"], "invoice/7")
    assert client.blobs.meta(blob["id"]).get("references") == ["invoice/7"]
    client.blobs.remove_reference(blob["id"], "invoice/7")
    client.blobs.delete(blob["id"])
    assert client.blobs.restore(blob["id"])["state"] == "live"

    async def read() -> bytes:
        async with server.async_client() as asynchronous:
            copied = await asynchronous.blobs.put(data, namespace=name)
            assert copied["id"] == blob["id"]
            return await asynchronous.blobs.get(blob["id"]).read()

    assert asyncio.run(read()) == data


def test_a_link_needs_no_token(client: Client, name: str) -> None:
    blob = client.blobs.put(name.encode(), namespace=name)["id"]
    link = client.blobs.link(blob, expires_in_ms=600_000)
    url = link.get("url") or ""
    assert httpx.get(url, trust_env=False).content == name.encode()
    assert (link["id"], blob) in [(found["id"], found["blob"]) for found in client.links.iterate()]
    client.links.revoke(link["id"])
    assert httpx.get(url, trust_env=False).status_code >= 400


def test_a_signed_upload_goes_to_the_storage(client: Client, name: str) -> None:
    data = f"signed {name}".encode()
    digest = hashlib.sha256(data).hexdigest()
    signed = client.blobs.presign(namespace=name, content_type="text/plain", size=len(data), sha256=digest)
    upload = signed.get("upload")
    assert upload is not None
    sent = httpx.request(
        upload["method"], upload.get("url") or "", headers=upload["headers"], content=data, trust_env=False
    )
    assert sent.is_success, sent.text
    blob = client.blobs.commit(signed["blob"]["id"])
    assert blob["state"] == "live"
    assert client.blobs.get(blob["id"]).read() == data
    again = client.blobs.presign(namespace=name, content_type="text/plain", size=len(data), sha256=digest)
    assert (again["blob"]["id"], again.get("upload")) == (blob["id"], None)
    assert client.blobs.gc(dry_run=True)["dry_run"]
    assert client.blobs.gc()["failed"] == 0


def test_a_worker_puts_and_gets_blobs(server: Server, client: Client, name: str) -> None:
    worker = worker_of(server, name)

    @worker.job("upper")
    async def upper(payload: str, ctx: AsyncJobContext) -> str:
        text = await ctx.blobs.get(payload).read()
        return (await ctx.blobs.put(text.upper(), namespace=name))["id"]

    source = client.blobs.put(f"text {name}".encode(), namespace=name)["id"]
    job = client.jobs.enqueue(queue=name, kind="upper", payload=source)["id"]
    with running(worker):
        made = str(ended(client, job)["result"])
    assert client.blobs.get(made).read() == f"text {name}".upper().encode()
    assert client.blobs.meta(made).get("jobs") == 1
