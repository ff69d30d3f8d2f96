"""Clients that stream completions from an OpenAI server and note when each token came.

One thread receives from all connections and does little else meanwhile, since it shares the cores
with the server that it measures.
"""
import json
import random
import re
import selectors
import socket
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


def read_answer(sent, chunks):
    """The Answer in what came on a connection: (time, bytes) of each piece. An event counts when
    its end has come."""
    answer, rest = Answer(sent), b""
    for came, data in chunks:
        events, _, rest = (rest + data).rpartition(b"\n\n")
        answer.times += [came] * len(TEXT.findall(events))
        if usage := USAGE.search(events):
            answer.tokens = int(usage[1])
        answer.ended = came
    return answer


class Client:
    """Asks for one prompt after the other. Times are taken as bytes come, and the bytes are read
    when all is over."""

    def __init__(self, port, waiting, tokens):
        self.port, self.waiting, self.tokens = port, waiting, tokens
        self.asked = []  # (time, chunks) of each request

    def ask_next(self):
        """The connection of the next request; None when no prompt is left."""
        if not self.waiting:
            return None
        request = request_bytes(self.waiting.pop(), self.tokens)
        self.connection = socket.create_connection(("127.0.0.1", self.port))
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.asked.append((time.perf_counter(), []))
        self.connection.sendall(request)
        return self.connection

    def receive(self):
        """Takes what has come. False when that ends the answer."""
        data = self.connection.recv(1 << 16)
        self.asked[-1][1].append((time.perf_counter(), data))
        if data and b"data: [DONE]" not in data:
            return True
        self.connection.close()
        return False


def ask_all(port, prompts, tokens, concurrency):
    """Every prompt's Answer; each of `concurrency` clients asks when its last answer has come."""
    waiting = list(reversed(prompts))
    clients = [Client(port, waiting, tokens) for _ in range(concurrency)]
    with selectors.DefaultSelector() as ready:
        for client in clients:
            if connection := client.ask_next():
                ready.register(connection, selectors.EVENT_READ, client)
        while ready.get_map():
            events = ready.select(ANSWER_SECONDS_MAX)
            if not events:
                raise Problem(f"a server sent nothing for {ANSWER_SECONDS_MAX} seconds")
            for key, _ in events:
                if key.data.receive():
                    continue
                ready.unregister(key.fileobj)
                if connection := key.data.ask_next():
                    ready.register(connection, selectors.EVENT_READ, key.data)
    return [checked(sent, chunks, tokens) for client in clients for sent, chunks in client.asked]


def checked(sent, chunks, tokens):
    answer = read_answer(sent, chunks)
    if answer.tokens != tokens or len(answer.times) < 2:
        said = b"".join(data for _, data in chunks)[:300].decode(errors="replace")
        raise Problem(f"a server gave {answer.tokens} tokens in {len(answer.times)} events, "
                      f"expected {tokens}; it began: {said}")
    return answer
