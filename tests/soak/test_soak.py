"""A server that is asked for a long time stays healthy, idle at the end, and of one size.

SOAK_MINUTES says how long (default 10). Four clients send a seeded mix: whole and streamed chats,
streams that the client drops, long prompts, and requests that must be refused.
"""
import os
import random
import threading
import time

import httpx

from server_process import ServerProcess

MINUTES = float(os.environ.get("SOAK_MINUTES", "10"))
CLIENTS = 4
WARM_UP_SHARE = 0.25
GROWTH_BYTES_MAX = 64 << 20


def chat(rng, **more):
    words = " ".join(rng.choices(["sea", "stone", "light", "count", "why", "seven"], k=20))
    return {"messages": [{"role": "user", "content": words}], "max_tokens": rng.randint(1, 48),
            "temperature": rng.choice([0, 0.8]), "seed": rng.randint(0, 1 << 30), **more}


def whole(client, rng):
    answer = client.post("/v1/chat/completions", json=chat(rng))
    assert answer.status_code == 200, answer.text
    assert answer.json()["choices"][0]["finish_reason"] in ("stop", "length")


def streamed(client, rng, lines_max=None):
    with client.stream("POST", "/v1/chat/completions", json=chat(rng, stream=True)) as answer:
        assert answer.status_code == 200
        last = None
        for count, line in enumerate(filter(None, answer.iter_lines())):
            last = line
            if lines_max is not None and count >= lines_max:
                return
    assert last == "data: [DONE]", last


def dropped(client, rng):
    streamed(client, rng, lines_max=rng.randint(0, 5))


def long_prompt(client, rng):
    body = chat(rng, max_tokens=4)
    body["messages"][0]["content"] += " and then" * rng.randint(200, 600)
    assert client.post("/v1/chat/completions", json=body).status_code == 200


def refused(client, rng):
    wrong = rng.choice([b"{", b'{"messages": 1}', b'{"messages": [], "temperature": "hot"}'])
    answer = client.post("/v1/chat/completions", content=wrong,
                         headers={"content-type": "application/json"})
    assert answer.status_code == 400 and "error" in answer.json()


def ask_until(end, url, seed, failures):
    rng = random.Random(seed)
    with httpx.Client(base_url=url, timeout=120) as client:
        while time.monotonic() < end and not failures:
            ask = rng.choice([whole, streamed, streamed, dropped, long_prompt, refused])
            try:
                ask(client, rng)
            except Exception as error:  # a thread's failure is the test's
                failures.append(f"seed {seed}, {ask.__name__}: {error!r}")


def test_a_long_mixed_load_leaves_the_server_as_it_was():
    failures, start = [], time.monotonic()
    with ServerProcess() as server:
        clients = [threading.Thread(target=ask_until, args=(
            start + MINUTES * 60, server.url, seed, failures)) for seed in range(CLIENTS)]
        for client in clients:
            client.start()
        time.sleep(MINUTES * 60 * WARM_UP_SHARE)
        warm_bytes = server.resident_bytes()
        for client in clients:
            client.join()
        assert failures == []
        assert server.process.poll() is None
        assert httpx.get(f"{server.url}/health").json() == {"status": "ok"}
        batch = httpx.get(f"{server.url}/stats").json()["batch"]
        assert (batch["active_rows"], batch["pending_rows"]) == (0, 0)
        grown = server.resident_bytes() - warm_bytes
        print(f"soak: {batch['submitted_rows']} rows, {grown / 2**20:+.1f} MiB since warm-up")
        assert grown < GROWTH_BYTES_MAX
