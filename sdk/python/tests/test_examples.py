"""The examples and the snippets of the documents run."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, WAIT, Server, until
from provider import Provider

EXAMPLES = ROOT / "examples" / "python"


def environment(server: Server, **more: str) -> dict[str, str]:
    return {**os.environ, "BURSAR_SERVER": server.url, "BURSAR_TOKEN": server.token, **more}


def run(server: Server, path: Path) -> str:
    done = subprocess.run(
        [sys.executable, str(path)], env=environment(server), capture_output=True, text=True, timeout=WAIT, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_first_worker(own_server: Server) -> None:
    output = run(own_server, EXAMPLES / "first_worker.py")
    assert output == "succeeded cut 30 s [{'scope': 'team:media', 'amount': 300}]\n"


def test_media_pipeline(own_server: Server) -> None:
    output = run(own_server, EXAMPLES / "media_pipeline.py")
    assert output == "succeeded [{'scope': 'customer:7', 'amount': 45}] A QUIET HARBOUR\n"


@pytest.mark.parametrize("document", ["sdk/python/README.md", "docs/python.md"])
def test_snippets_of_documents_run(own_server: Server, tmp_path: Path, document: str) -> None:
    """Blocks after `<!-- run -->` are programs of their own."""
    blocks = re.findall(r"<!-- run -->\n```python\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)
    assert blocks
    for number, block in enumerate(blocks):
        program = tmp_path / f"block_{number}.py"
        program.write_text(block)
        run(own_server, program)


def test_agent_fleet(own_server: Server) -> None:
    provider = Provider()
    client = own_server.client()
    settings = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": f"{provider.url}/v1", "AGENTS": "20"}
    process = subprocess.Popen(
        [sys.executable, str(EXAMPLES / "agent_fleet.py")],
        env=environment(own_server, **settings),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        until(lambda: len(client.jobs.list(queue="agents", state="succeeded")["items"]) == 20, "twenty answers")
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=WAIT)
    finally:
        process.kill()
        process.wait()
        provider.close()
    assert output == "20 completed, 0 failed\n"
    balance = client.budgets.get("fleet")["balances"][0]
    assert balance["held"] == 0
    assert 0 < balance["posted"] < 25_000_000


def test_metered_api(own_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURSAR_SERVER", own_server.url)
    monkeypatch.setenv("BURSAR_TOKEN", own_server.token)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import metered_api  # type: ignore[import-not-found, unused-ignore]  # pyright: ignore[reportMissingImports]
    from fastapi.testclient import TestClient

    own_server.client().budgets.define("customer:ann", limits=[{"amount": 40_000, "window": "month"}])
    with TestClient(metered_api.app) as api:
        video = {"prompt": "a harbour", "seconds": 30}
        headers = {"customer": "ann", "idempotency-key": "order-7"}
        first, again = (api.post("/videos", json=video, headers=headers) for _ in range(2))
        assert first.status_code == 202
        assert first.json() == again.json()
        assert api.get(f"/videos/{first.json()['job']}").json()["state"] == "queued"
        assert api.get("/videos/job_01j9zq3v4w5x6y7z8abcdefghj").status_code == 404
        refused = api.post("/videos", json=video, headers={"customer": "ann"})
        assert refused.status_code == 402
        assert "customer:ann" in refused.json()["detail"]["reason"]


def test_quota_api(own_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURSAR_SERVER", own_server.url)
    monkeypatch.setenv("BURSAR_TOKEN", own_server.token)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import quota_api  # type: ignore[import-not-found, unused-ignore]  # pyright: ignore[reportMissingImports]
    from fastapi.testclient import TestClient

    own_server.client().meter.set_limit(agent_id="ann", limits=[{"amount": 15, "window": "lifetime"}])
    with TestClient(quota_api.app) as api:
        ann = {"x-agent-id": "ann"}
        first = api.post("/claims", headers=ann)
        assert (first.status_code, first.headers["x-quota-remaining"]) == (200, "5")
        over = api.post("/claims", headers=ann)
        assert (over.status_code, over.headers.get("retry-after")) == (429, None)
        assert api.get("/claims", headers=ann).headers["x-quota-remaining"] == "4"
        assert api.get("/claims", headers={"x-agent-id": "x" * 300}).status_code == 400
        assert api.get("/livez").status_code == 200
        # A caller that was never seen gets the default quota; a refusal of it says when to come back.
        own_server.client().meter.check(agent_id="bob", cost=10_000)
        hourly = api.get("/claims", headers={"x-agent-id": "bob"})
        assert hourly.status_code == 429
        assert int(hourly.headers["retry-after"]) > 0
        # Without the server, the API stays available.
        own_server.kill()
        assert api.get("/claims", headers=ann).status_code == 200
