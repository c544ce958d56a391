"""Starts many model calls at once under a budget, and counts how many are sent. See README.md."""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import json
import os
import platform
import secrets
import socket
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import openai
from provider import Provider

from bursar import AsyncClient
from bursar.llm import Bounds, Price, wrap_openai

HERE = Path(__file__).resolve().parent
MODEL = "race-model"
OUTPUT_TOKENS = 100
# Micro-dollars for a million tokens. Only output is paid for, so that the most that a call can cost is what it does cost.
OUTPUT_PRICE = 10_000_000
COST = OUTPUT_TOKENS * OUTPUT_PRICE // 1_000_000
MESSAGES = [{"role": "user", "content": "Describe a harbour at dawn."}]
START_SECONDS = 180.0

Call = Callable[[], Awaitable[object]]


async def main() -> int:
    options = parse()
    print(f"{options.calls} calls at once, each costs {COST} micro-dollars. {versions(options.bursar)}\n")
    print("| budget for | who keeps the budget | sent | overspent |")
    print("| --- | --- | --- | --- |")
    kept = True
    for calls in (20.0, 20.5):
        budget = int(calls * COST)
        for name, race in RACES.items():
            if options.only and name not in options.only:
                continue
            try:
                counts = [await run(race, budget, options) for _ in range(options.rounds)]
            except (OSError, RuntimeError, ImportError) as why:
                print(f"| {calls:g} | {TITLES[name]} | not run: {why} | |", flush=True)
                kept = kept and name != "bursar"
                continue
            least, most = min(counts), max(counts)
            over = [max(0, count * COST - budget) / budget for count in (least, most)]
            sent = f"{least}" if least == most else f"{least} to {most}"
            spent = f"{over[0]:.0%}" if over[0] == over[1] else f"{over[0]:.0%} to {over[1]:.0%}"
            print(f"| {calls:g} | {TITLES[name]} | {sent} of {options.calls} | {spent} |", flush=True)
            if name == "bursar":
                kept = kept and (least, most) == (20, 20)
    return 0 if kept else 1


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bursar", type=Path, required=True, help="path of the Bursar binary")
    parser.add_argument("--calls", type=int, default=200, help="calls that start at once")
    parser.add_argument("--rounds", type=int, default=3, help="races of each kind")
    parser.add_argument("--delay", type=float, default=0.5, help="seconds that the model takes to answer")
    parser.add_argument("--only", type=lambda text: text.split(","), help=f"only these: {', '.join(RACES)}")
    return parser.parse_args()


def versions(bursar: Path) -> str:
    of_bursar = subprocess.run([bursar, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    packages = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("litellm", "openai"))
    return f"{of_bursar}, {packages}, Python {platform.python_version()}."


async def run(
    race: Callable[[Provider, int, argparse.Namespace], Awaitable[None]], budget: int, options: argparse.Namespace
) -> int:
    async with Provider(options.delay) as provider:
        await race(provider, budget, options)
        return provider.answered


async def at_once(call: Call, options: argparse.Namespace) -> None:
    """Makes the calls at the same time. A refused call is not repeated."""
    results = await asyncio.gather(*(call() for _ in range(options.calls)), return_exceptions=True)
    if all(isinstance(result, BaseException) for result in results):
        raise RuntimeError(f"every call failed: {results[0]!r}")


def client_of(url: str) -> openai.AsyncOpenAI:
    limits = httpx.Limits(max_connections=1000)
    http = httpx.AsyncClient(limits=limits, timeout=120.0, trust_env=False)
    return openai.AsyncOpenAI(api_key="sk-race", base_url=url, max_retries=0, http_client=http)


def call_of(client: openai.AsyncOpenAI) -> Call:
    return lambda: client.chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens=OUTPUT_TOKENS)  # type: ignore[arg-type]


async def bursar(provider: Provider, budget: int, options: argparse.Namespace) -> None:
    token = f"operator-token-of-the-race-{secrets.token_hex(16)}"
    with tempfile.TemporaryDirectory() as folder:
        command = [options.bursar, "serve", "--database", f"sqlite://{folder}/bursar.db", "--listen", "127.0.0.1:0"]
        env = {name: value for name, value in os.environ.items() if not name.startswith("BURSAR_")}
        server = subprocess.Popen(
            command, env={**env, "BURSAR_OPERATOR_TOKEN": token}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        try:
            assert server.stdout is not None
            url = server.stdout.readline().removeprefix("listening on ").strip()
            async with AsyncClient(url, token=token, timeout=120.0) as client:
                await client.budgets.define("agents", limits=[{"amount": budget, "window": "month"}])
                price = Price(input=0, output=OUTPUT_PRICE)
                llm = wrap_openai(
                    client_of(provider.url), bursar=client, scope="agents", fallback_price=price, bounds=Bounds()
                )
                await at_once(call_of(llm), options)
        finally:
            server.kill()
            server.wait()


async def naive(provider: Provider, budget: int, options: argparse.Namespace) -> None:
    """A counter that is checked before a call, and added to after it."""
    call, spent = call_of(client_of(provider.url)), 0

    async def counted() -> object:
        nonlocal spent
        if spent + COST > budget:
            raise RuntimeError("over budget")
        answer = await call()
        spent += COST
        return answer

    await at_once(counted, options)


async def litellm_provider(provider: Provider, budget: int, options: argparse.Namespace) -> None:
    """The budget of a provider in LiteLLM's router."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import litellm
    from litellm.types.utils import BudgetConfig

    litellm.suppress_debug_info = True
    # Otherwise the budgets of an earlier router of this process apply too.
    litellm.logging_callback_manager._reset_all_callbacks()
    limit = {"openai": BudgetConfig(budget_limit=budget / 1e6, time_period="1d")}
    router = litellm.Router(model_list=[deployment(provider)], provider_budget_config=limit, num_retries=0)

    async def call() -> object:
        return await router.acompletion(model=MODEL, messages=MESSAGES, max_tokens=OUTPUT_TOKENS)

    await at_once(call, options)


def deployment(provider: Provider) -> dict[str, object]:
    parameters = {"model": f"openai/{MODEL}", "api_base": provider.url, "api_key": "sk-race", "max_retries": 0}
    costs = {"input_cost_per_token": 0.0, "output_cost_per_token": OUTPUT_PRICE / 1e12}
    return {"model_name": MODEL, "litellm_params": {**parameters, **costs}, "model_info": {"id": "race", **costs}}


async def litellm_model(provider: Provider, budget: int, options: argparse.Namespace) -> None:
    await litellm_proxy("model", provider, budget, options)


async def litellm_key(provider: Provider, budget: int, options: argparse.Namespace) -> None:
    await litellm_proxy("key", provider, budget, options)


async def litellm_proxy(kind: str, provider: Provider, budget: int, options: argparse.Namespace) -> None:
    """The budget of a key, or of a key for one model, in LiteLLM's proxy."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "model_list": [deployment(provider)],
            "general_settings": {"custom_auth": "litellm_key.authenticate", "custom_auth_run_common_checks": True},
            "litellm_settings": {"num_retries": 0, "telemetry": False},
        }
        config = Path(folder, "config.yaml")
        # JSON is YAML.
        config.write_text(json.dumps(settings))
        Path(folder, "litellm_key.py").write_text((HERE / "litellm_key.py").read_text())
        port = free_port()
        race = {"RACE_BUDGET": str(budget / 1e6), "RACE_KIND": kind, "RACE_MODEL": MODEL}
        own = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MASTER_KEY": f"sk-{secrets.token_hex(32)}"}
        env = {**os.environ, **race, **own, "PYTHONPATH": folder}
        log = Path(folder, "log")
        with log.open("w") as output:
            command = [Path(sys.executable).with_name("litellm"), "--config", config, "--host", "127.0.0.1", "--port", str(port)]
            proxy = subprocess.Popen(command, env=env, cwd=folder, stdout=output, stderr=subprocess.STDOUT)
        try:
            await ready(f"http://127.0.0.1:{port}/health/liveliness", proxy, log)
            await at_once(call_of(client_of(f"http://127.0.0.1:{port}/v1")), options)
        finally:
            proxy.kill()
            proxy.wait()


async def ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    async with httpx.AsyncClient(trust_env=False) as http:
        for _ in range(int(START_SECONDS / 0.2)):
            if process.poll() is not None:
                break
            try:
                if (await http.get(url)).is_success:
                    return
            except httpx.HTTPError:
                pass
            await asyncio.sleep(0.2)
    raise RuntimeError(f"the proxy of LiteLLM did not start: {log.read_text()[-300:]!r}")


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


RACES = {
    "bursar": bursar,
    "naive": naive,
    "litellm-provider": litellm_provider,
    "litellm-model": litellm_model,
    "litellm-key": litellm_key,
}
TITLES = {
    "bursar": "Bursar",
    "naive": "a counter: check, call, add",
    "litellm-provider": "LiteLLM, budget of a provider (router)",
    "litellm-model": "LiteLLM, budget of a key for a model (proxy)",
    "litellm-key": "LiteLLM, budget of a key (proxy)",
}

if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
