"""The clients against a real server."""

from __future__ import annotations

import asyncio
import threading

import pytest
from conftest import WAIT, Server, until

from bursar import Client, Happened, Progressed, Ready, errors, etag_of, was_replayed
from bursar.models import BudgetAnswer, MeteredOperationBody


def spent(client: Client, scope: str) -> tuple[int, int]:
    """Returns the posted and the held units of a scope."""
    balance = client.budgets.get(scope)["balances"][0]
    return balance["posted"], balance["held"]


def budget(client: Client, scope: str, amount: int = 100) -> BudgetAnswer:
    return client.budgets.define(scope, limits=[{"amount": amount, "window": "lifetime"}])


def test_a_hold_is_committed_with_the_actual_cost(client: Client, name: str) -> None:
    budget(client, name)
    with client.hold(name, 40) as hold:
        assert spent(client, name) == (0, 40)
        answer = hold.commit(25)
    assert answer["state"] == "committed"
    assert spent(client, name) == (25, 0)


def test_a_hold_is_released_when_its_block_fails(client: Client, name: str) -> None:
    budget(client, name)
    with pytest.raises(KeyError), client.hold(name, 40):
        raise KeyError("the work failed")
    assert spent(client, name) == (0, 0)
    with client.hold(name, 40):
        pass
    assert spent(client, name) == (0, 0)


def test_a_budget_as_it_was(client: Client, name: str) -> None:
    budget(client, name)
    with client.hold(name, 40) as hold:
        hold.commit(25)
    placed = next(event for event in client.budgets.history(name)["items"] if event["kind"] == "hold.placed")
    balance = client.budgets.get(name, at=str(placed["position"]))["balances"][0]
    assert (balance["posted"], balance["held"]) == (0, 40)
    with pytest.raises(errors.Invalid, match="future"):
        client.budgets.get(name, at="2999-01-01T00:00:00Z")


def test_a_hold_is_settled_once(client: Client, name: str) -> None:
    budget(client, name)
    with client.hold(name, 40) as hold:
        hold.commit(1)
        with pytest.raises(RuntimeError, match="already committed"):
            hold.commit(2)
        with pytest.raises(RuntimeError, match="already committed"):
            hold.release()
    assert spent(client, name) == (1, 0)


def test_a_hold_on_several_scopes(client: Client, name: str) -> None:
    scopes = [f"{name}/a", f"{name}/b"]
    for scope in scopes:
        budget(client, scope)
    with client.hold({scopes[0]: 10, scopes[1]: 20}, reason="a pair") as hold:
        assert hold.extend(60_000)["id"] == hold.id
        hold.commit({scopes[0]: 3, scopes[1]: 4})
    assert [spent(client, scope) for scope in scopes] == [(3, 0), (4, 0)]


def test_a_refusal_has_its_violations(client: Client, name: str) -> None:
    budget(client, name, 10)
    with pytest.raises(errors.Refused) as caught, client.hold(name, 11):
        pass
    (violation,) = caught.value.violations
    assert violation["kind"] == "limit"
    assert (violation["scope"], violation["limit"], violation["requested"]) == (name, 10, 11)
    with pytest.raises(errors.UnknownScope), client.hold(f"{name}-unknown", 1):
        pass


def test_a_check_charges_a_callers_quota_once_or_is_refused(client: Client, name: str) -> None:
    client.meter.set_limit(agent_id=name, limits=[{"amount": 20, "window": "lifetime"}])
    keyed = client.with_options(key=f"request-{name}")
    first = keyed.meter.check(agent_id=name, cost=7)
    assert (first["admitted"], first["cost"], first.get("remaining"), first.get("limit")) == (True, 7, 13, 20)
    assert was_replayed(keyed.meter.check(agent_id=name, cost=7))
    operation: MeteredOperationBody = {"method": "POST", "path": "/claims", "payload_bytes": 10}
    assert client.meter.check(agent_id=name, operation=operation)["cost"] == 1
    with pytest.raises(errors.QuotaExceeded) as caught:
        client.meter.check(agent_id=name, cost=13)
    assert (caught.value.transient, caught.value.retry_after_ms) == (False, None)
    assert caught.value.violations[0]["kind"] == "limit"
    # By default a caller has 10,000 units an hour.
    client.meter.check(agent_id=f"{name}-new", cost=10_000)
    with pytest.raises(errors.QuotaExceeded) as caught:
        client.meter.check(agent_id=f"{name}-new", cost=1)
    assert (caught.value.retry_after_ms or 0) > 0
    quota = client.meter.quota(agent_id=name)
    assert (quota["agent_id"], quota.get("used"), quota.get("remaining")) == (name, 8, 12)


def test_async_clients_check_quotas_too(server: Server, name: str) -> None:
    async def run() -> None:
        async with server.async_client() as client:
            checked = await asyncio.gather(*(client.meter.check(agent_id=name, cost=2_000) for _ in range(5)))
            assert sorted(answer.get("remaining", -1) for answer in checked) == [0, 2_000, 4_000, 6_000, 8_000]
            with pytest.raises(errors.QuotaExceeded):
                await client.meter.check(agent_id=name, cost=1)

    asyncio.run(run())


def test_a_key_repeats_a_write(client: Client, name: str) -> None:
    budget(client, name)
    keyed = client.with_options(key=f"order-{name}")
    first = keyed.commands.submit(charges=[{"scope": name, "amount": 5}], settle="now")
    second = keyed.commands.submit(charges=[{"scope": name, "amount": 5}], settle="now")
    assert first.get("id") == second.get("id")
    assert (was_replayed(first), was_replayed(second)) == (False, True)
    assert spent(client, name) == (5, 0)
    with pytest.raises(errors.Conflict):
        keyed.commands.submit(charges=[{"scope": name, "amount": 6}], settle="now")


def test_an_etag_protects_a_definition(client: Client, name: str) -> None:
    etag = etag_of(budget(client, name))
    assert etag is not None
    budget(client.with_options(if_match=etag), name, 200)
    with pytest.raises(errors.Changed):
        budget(client.with_options(if_match=etag), name, 300)
    assert client.budgets.get(name)["limits"][0]["amount"] == 200


def test_lists_are_read_page_by_page(client: Client, name: str) -> None:
    for number in range(5):
        client.jobs.enqueue(queue=name, kind="none", payload=number)
    assert len(client.jobs.list(queue=name, limit=2)["items"]) == 2
    assert [job["payload"] for job in client.jobs.iterate(queue=name, limit=2)] == [0, 1, 2, 3, 4]
    enqueued = [event["stream"]["id"] for event in client.journal.iterate(kind="job.enqueued", limit=3)]
    assert {job["id"] for job in client.jobs.iterate(queue=name)} <= set(enqueued)


def test_resources(client: Client, name: str) -> None:
    """One call of each resource that no other test uses."""
    grant = client.grants.create(purpose="upload", subject=name, ttl_ms=60_000, payload={"a": 1})
    token = grant.get("token") or ""
    redeemed = client.commands.submit(redeem=[{"token": token, "purpose": "upload", "subject": name}])
    assert [found["payload"] for found in redeemed["grants"]] == [{"a": 1}]
    assert client.queues.pause(name, reason="maintenance")["paused"] is True
    assert client.queues.resume(name)["paused"] is False
    schedule = client.schedules.define(name, cron="0 4 * * *", queue=name, kind="nightly")
    assert schedule["kind"] == "nightly"
    job = client.schedules.run(name)["id"]
    assert client.jobs.cancel(job)["state"] == "cancelled"
    client.schedules.remove(name)
    with pytest.raises(errors.NotFound):
        client.schedules.get(name)
    assert client.server.whoami()["role"] == "operator"
    key = client.keys.create(name=name, role="agent")
    agent = client.with_options(token=key["token"])
    with pytest.raises(errors.Forbidden):
        budget(agent, name)
    assert agent.server.whoami()["role"] == "agent"
    client.keys.revoke(key["id"])
    with pytest.raises(errors.Unauthorized):
        agent.server.whoami()


def test_waiting_for_the_end_of_a_job(server: Server, client: Client, name: str) -> None:
    job = client.jobs.enqueue(queue=name, kind="none")["id"]
    with pytest.raises(TimeoutError, match="it is queued"):
        client.jobs.wait(job, timeout=0.05)

    async def scenario() -> None:
        async with server.async_client() as client:
            with pytest.raises(TimeoutError):
                await client.jobs.wait(job, timeout=0.05)
            waiting = asyncio.create_task(client.jobs.wait(job))
            await client.jobs.cancel(job)
            assert (await asyncio.wait_for(waiting, WAIT))["state"] == "cancelled"
            with pytest.raises(errors.NotFound):
                await client.jobs.wait("job_00000000000000000000000000")

    asyncio.run(scenario())
    assert client.jobs.wait(job)["state"] == "cancelled"


def test_an_invalid_request_names_its_field(client: Client) -> None:
    with pytest.raises(errors.Invalid) as caught:
        client.jobs.enqueue(queue="", kind="x")
    assert caught.value.field == "queue"


def test_async_client(server: Server, name: str) -> None:
    async def scenario() -> None:
        async with server.async_client() as client:
            await client.budgets.define(name, limits=[{"amount": 100, "window": "lifetime"}])
            async with client.hold(name, 40) as hold:
                await hold.commit(30)
            with pytest.raises(errors.Refused):
                async with client.hold(name, 71):
                    pass
            with pytest.raises(KeyError):
                async with client.hold(name, 70):
                    raise KeyError
            # Cancellation releases the hold too.
            entered = asyncio.Event()

            async def wait_inside() -> None:
                async with client.hold(name, 70):
                    entered.set()
                    await asyncio.Event().wait()

            task = asyncio.create_task(wait_inside())
            await entered.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            balance = (await client.budgets.get(name))["balances"][0]
            assert (balance["posted"], balance["held"]) == (30, 0)
            for number in range(3):
                await client.jobs.enqueue(queue=name, kind="none", payload=number)
            assert [job["payload"] async for job in client.jobs.iterate(queue=name, limit=2)] == [0, 1, 2]

    asyncio.run(scenario())


def test_events_continue_after_the_last_one(client: Client, name: str) -> None:
    job = client.jobs.enqueue(queue=name, kind="none")["id"]
    with client.events([f"job:{job}"], after=0) as events:
        first = next(message for message in events if isinstance(message, Happened))
        assert first.kind == "job.enqueued"
        position = events.position
    assert position is not None
    client.jobs.cancel(job)
    with client.events([f"job:{job}"], after=position) as events:
        following = next(message for message in events if isinstance(message, Happened))
        assert following.event["position"] > position
        assert following.kind == "job.cancelled"


def test_events_survive_a_server_that_is_killed(own_server: Server, name: str) -> None:
    client = own_server.client()
    seen: list[object] = []

    def listen() -> None:
        with client.events([f"queue:{name}"]) as events:
            for message in events:
                seen.append(message.event["data"] if isinstance(message, Happened) else message)
                if sum(isinstance(entry, dict) for entry in seen) == 2:
                    return

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    until(lambda: any(isinstance(entry, Ready) for entry in seen), "the subscription")
    client.jobs.enqueue(queue=name, kind="before")
    until(lambda: any(isinstance(entry, dict) for entry in seen), "the first event")
    own_server.kill()
    own_server.start()
    client.jobs.enqueue(queue=name, kind="behind")
    listener.join(60)
    assert not listener.is_alive()


def test_async_events_and_progress(server: Server, name: str) -> None:
    async def scenario() -> None:
        async with server.async_client() as client:
            job = (await client.jobs.enqueue(queue=name, kind="none"))["id"]
            (leased,) = (await client.work.lease(queues=[name], worker="test"))["jobs"]
            lease = leased.get("lease")
            assert lease is not None
            async with client.events([f"job:{job}"]) as events:
                assert isinstance(await events.__anext__(), Ready)
                fence = lease["fence"]
                await client.work.progress(job, fence=fence, percent=50, message="half", data={"step": 1})
                progress = await events.__anext__()
                assert progress == Progressed(job, fence, 50, "half", {"step": 1})
                await client.work.complete(job, fence=fence, result="done")
                done = await events.__anext__()
                assert isinstance(done, Happened)
                assert done.kind == "job.succeeded"

    asyncio.run(scenario())
