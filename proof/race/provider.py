"""A local server that answers like the chat completions of OpenAI. Every answer has all the output that its request allows, so that the
cost of a call is known before it is sent."""

from __future__ import annotations

import asyncio
import json


class Provider:
    """Counts the calls that it answers."""

    def __init__(self, delay: float) -> None:
        self._delay = delay
        self.answered = 0
        self.url = ""

    async def __aenter__(self) -> Provider:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=1024)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode().lower().split("\r\n")
                length = next((int(line.split(":")[1]) for line in lines if line.startswith("content-length:")), 0)
                request = json.loads(await reader.readexactly(length) or b"{}")
                await asyncio.sleep(self._delay)
                # LiteLLM also asks which models there are.
                self.answered += lines[0].startswith("post ")
                body = json.dumps(answer(request)).encode()
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
                )
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            # The client is done, or the race is over.
            pass
        finally:
            writer.close()


def answer(request: dict[str, object]) -> dict[str, object]:
    output = int(str(request.get("max_completion_tokens") or request.get("max_tokens") or 0))
    message = {"role": "assistant", "content": "word " * output}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": request.get("model"),
        "choices": [{"index": 0, "finish_reason": "length", "message": message}],
        "usage": {"prompt_tokens": 10, "completion_tokens": output, "total_tokens": 10 + output},
    }
