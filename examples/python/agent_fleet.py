"""A fleet of agents under one monthly cap.

Each agent is a job. The model calls of all agents share one budget: when it is used up, calls are refused before a
token is spent, and the agents try again when units come back. Settings: BURSAR_SERVER, BURSAR_TOKEN, OPENAI_API_KEY,
and OPENAI_BASE_URL for another provider.
"""

from __future__ import annotations

import os

from openai import AsyncOpenAI
from pydantic import BaseModel

from bursar import AsyncClient, AsyncJobContext, Client, Refused, RetryAfter, Worker
from bursar.llm import Bounds, wrap_openai

URL, TOKEN = os.environ["BURSAR_SERVER"], os.environ["BURSAR_TOKEN"]
CAP = 25_000_000  # $25.00 in micro-dollars

worker = Worker(url=URL, token=TOKEN, queues=["agents"], concurrency=20)
bursar = AsyncClient(URL, token=TOKEN)
# The client's own retries are off: a job that fails is retried as its queue says.
llm = wrap_openai(AsyncOpenAI(max_retries=0), bursar=bursar, scope="fleet", bounds=Bounds(max_tokens=500))


class Task(BaseModel):
    question: str


@worker.job("agent.ask")
async def ask(task: Task, ctx: AsyncJobContext) -> str:
    """Answers a question. A job runs at least once: a second run asks again, and is charged again."""
    ctx.progress(10, "asking the model")
    try:
        answer = await llm.chat.completions.create(
            model="gpt-5-mini", messages=[{"role": "user", "content": task.question}]
        )
    except Refused as refusal:
        # The cap is reached. Nothing was spent; units come back when the month ends or the cap is raised.
        seconds = (refusal.retry_after_ms or 60_000) / 1000
        raise RetryAfter(seconds, str(refusal), kind="budget") from refusal
    return answer.choices[0].message.content or ""


def main() -> None:
    with Client(URL, token=TOKEN) as client:
        client.budgets.define("fleet", limits=[{"amount": CAP, "window": "month"}], unit="usd")
        for number in range(int(os.environ.get("AGENTS", "20"))):
            client.jobs.enqueue(queue="agents", kind="agent.ask", payload={"question": f"What is {number} squared?"})
    report = worker.run()  # until SIGTERM or Ctrl-C
    print(f"{report.completed} completed, {report.failed} failed")


if __name__ == "__main__":
    main()
