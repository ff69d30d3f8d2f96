"""Clients that stream completions from an OpenAI server and note when each token came.

One thread reads all connections and looks at bytes only, since it shares the cores with the
server that it measures.
"""
import asyncio
import json
import random
import re
import time
from dataclasses import dataclass, field

from .problem import Problem

ANSWER_SECONDS_MAX = 120
TEXT = re.compile(rb'"text":"(?!")')  # an event that carries text
USAGE = re.compile(rb'"completion_tokens":(\d+)')


@dataclass
class Answer:
    """What one client saw of one request; times in seconds on one clock."""
    sent: float
    times: list = field(default_factory=list)  # of each event that carries text
    tokens: int = 0
    ended: float = 0

    @property
    def first_token(self):
        return self.times[0] - self.sent

    @property
    def gaps(self):
        return [b - a for a, b in zip(self.times, self.times[1:])]

    @property
    def decode_speed(self):
        """Tokens a second after the first, for the one who reads them."""
        return (self.tokens - 1) / (self.times[-1] - self.times[0])


def random_prompt(tokens, seed):
    """Token ids that no cache has seen: the seed names the request."""
    rng = random.Random(seed)
    return [rng.randrange(1000, 40000) for _ in range(tokens)]


def request_bytes(prompt, tokens):
    body = json.dumps({"prompt": prompt, "max_tokens": tokens, "ignore_eos": True, "stream": True,
                       "temperature": 0, "stream_options": {"include_usage": True}}).encode()
    return (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)) + body


class Reader(asyncio.Protocol):
    """Counts the events of one streamed answer as they come."""

    def __init__(self, request, done):
        self.request, self.done = request, done
        self.answer = Answer(sent=time.perf_counter())
        self.rest = b""  # of an event that has not come whole

    def connection_made(self, transport):
        self.transport = transport
        self.answer.sent = time.perf_counter()
        transport.write(self.request)

    def data_received(self, data):
        now = time.perf_counter()
        events, _, self.rest = (self.rest + data).rpartition(b"\n\n")
        self.answer.times += [now] * len(TEXT.findall(events))
        if usage := USAGE.search(events):
            self.answer.tokens = int(usage[1])
        if b"data: [DONE]" in events:
            self.finish(now)

    def finish(self, now):
        self.answer.ended = now
        self.transport.close()
        if not self.done.done():
            self.done.set_result(self.answer)

    def connection_lost(self, error):
        if not self.done.done():
            self.done.set_exception(Problem(
                f"a server ended its answer early: {error or self.rest[:300].decode()}"))


async def ask(port, prompt, tokens):
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    await loop.create_connection(lambda: Reader(request_bytes(prompt, tokens), done),
                                 "127.0.0.1", port)
    answer = await asyncio.wait_for(done, ANSWER_SECONDS_MAX)
    if answer.tokens != tokens or len(answer.times) < 2:
        raise Problem(f"a server gave {answer.tokens} tokens in {len(answer.times)} events, "
                      f"expected {tokens}")
    return answer


async def _ask_all(port, prompts, tokens, concurrency):
    waiting, answers = list(reversed(prompts)), []

    async def client():
        while waiting:
            answers.append(await ask(port, waiting.pop(), tokens))

    await asyncio.gather(*(client() for _ in range(concurrency)))
    return answers


def ask_all(port, prompts, tokens, concurrency):
    """Every prompt's Answer; each of `concurrency` clients asks when its last answer has come."""
    return asyncio.run(_ask_all(port, prompts, tokens, concurrency))
