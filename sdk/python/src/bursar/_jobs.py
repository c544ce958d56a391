"""The calls of jobs: those of the server, and waiting for the end of one."""

from __future__ import annotations

import asyncio
import time

from bursar import _resources
from bursar.events import AsyncEvents, Progressed
from bursar.models import JobAnswer

POLL_MIN = 0.02
POLL_MAX = 0.5
ENDED = ("succeeded", "dead", "cancelled")


class Jobs(_resources.Jobs):
    """The calls of jobs."""

    def wait(self, id: str, /, *, timeout: float | None = None) -> JobAnswer:
        """Waits until a job has ended, and returns it: `state` is `succeeded`, `dead` or `cancelled`. Raises
        `TimeoutError` after `timeout` seconds; default: waits as long as it takes."""
        began = time.monotonic()
        delay = POLL_MIN
        while True:
            job = self.get(id)
            if job["state"] in ENDED:
                return job
            if timeout is not None and time.monotonic() - began + delay > timeout:
                raise TimeoutError(f"{id} has not ended within {timeout} s: it is {job['state']}")
            time.sleep(delay)
            delay = min(2 * delay, POLL_MAX)


class AsyncJobs(_resources.AsyncJobs):
    """The calls of jobs, for asyncio."""

    async def wait(self, id: str, /, *, timeout: float | None = None) -> JobAnswer:
        """Waits until a job has ended, and returns it: `state` is `succeeded`, `dead` or `cancelled`. Raises
        `TimeoutError` after `timeout` seconds; default: waits as long as it takes."""
        try:
            return await asyncio.wait_for(self._wait(id), timeout)
        except asyncio.TimeoutError:
            # In Python 3.10 this is not the built-in exception.
            raise TimeoutError(f"{id} has not ended within {timeout} s") from None

    async def _wait(self, id: str) -> JobAnswer:
        async with AsyncEvents(self._sender, [f"job:{id}"], None) as events:
            async for message in events:
                # Events and positions tell that the job may have changed; progress does not.
                if isinstance(message, Progressed):
                    continue
                job = await self.get(id)
                if job["state"] in ENDED:
                    return job
        raise AssertionError("events are endless")
