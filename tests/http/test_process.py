"""The server as a process: its flags, its clients that go away, its end."""
import json
import signal
import socket
import subprocess
import threading
import time

import httpx
import pytest

from server_process import BINARY, ServerProcess

ENDLESS = {"prompt": "Once upon a time", "max_tokens": 100_000, "ignore_eos": True,
           "temperature": 0}
SHORT = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}
WAIT_SECONDS_MAX = 20


def active_rows(url):
    engine = httpx.get(url + "/stats").json()["engine"]
    return engine["active_rows"] + engine["waiting_rows"]


def eventually(condition):
    end = time.monotonic() + WAIT_SECONDS_MAX
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


def refused(*arguments):
    """The one line on stderr of a program that ends with status 1."""
    done = subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done
    assert done.stdout == "" and done.stderr.startswith("tandem: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_stats_name_what_computes_and_how(tandem_server):
    engine = httpx.get(tandem_server.url + "/stats").json()["engine"]
    assert engine["precision"] == "high" and engine["backend"] == "cpu" and engine["device"]
    assert engine["load_ms"] > 0 and engine["weight_bytes"] > 9e7


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_goes_away_frees_its_row(tandem_server, stream):
    body = json.dumps({**ENDLESS, "stream": stream}).encode()
    with socket.create_connection((tandem_server.host, tandem_server.port)) as client:
        client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
                       % len(body) + body)
        assert eventually(lambda: active_rows(tandem_server.url) == 1)
    assert eventually(lambda: active_rows(tandem_server.url) == 0)


def start_stream(url, events, errors):
    """Reads an endless stream on a thread; events gets its lines."""
    def read():
        try:
            with httpx.stream("POST", url + "/v1/completions", json={**ENDLESS, "stream": True},
                              timeout=WAIT_SECONDS_MAX) as answer:
                events.extend(filter(None, answer.iter_lines()))
        except httpx.HTTPError as error:
            errors.append(error)
    thread = threading.Thread(target=read)
    thread.start()
    return thread


def test_sigterm_refuses_new_work_ends_streams_and_exits_0():
    events, errors = [], []
    with ServerProcess("--shutdown-timeout", "1", "--context-length", "8192") as server:
        with httpx.Client(base_url=server.url) as client:
            reader = start_stream(server.url, events, errors)
            assert eventually(lambda: active_rows(server.url) == 1)
            server.process.send_signal(signal.SIGTERM)
            assert eventually(lambda: client.get("/ready").status_code == 503)
            assert client.post("/v1/chat/completions", json=SHORT).status_code == 503
        assert server.process.wait(WAIT_SECONDS_MAX) == 0
        reader.join()
    assert not errors and "error" in events[-1]


def test_at_the_deadline_all_kinds_of_clients_get_an_end():
    events, errors, answers = [], [], []
    with ServerProcess("--shutdown-timeout", "1") as server:
        readers = [start_stream(server.url, events, errors) for _ in range(3)]
        body = json.dumps({**ENDLESS, "stream": True}).encode()
        silent = socket.create_connection((server.host, server.port))  # and never reads
        silent.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
                       % len(body) + body)
        whole = threading.Thread(target=lambda: answers.append(
            httpx.post(server.url + "/v1/completions", json=ENDLESS, timeout=60)))
        whole.start()
        long = threading.Thread(target=lambda: answers.append(
            httpx.post(server.url + "/v1/completions", timeout=60,
                       json={**ENDLESS, "prompt": "and then " * 3000})))
        long.start()
        assert eventually(lambda: active_rows(server.url) == 6)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(WAIT_SECONDS_MAX) == 0
        for thread in [*readers, whole, long]:
            thread.join()
        silent.close()
    assert not errors and sum("error" in event for event in events) == 3
    assert [answer.status_code for answer in answers] == [503, 503]


def test_running_requests_finish_while_the_server_drains():
    answers = []
    with ServerProcess() as server:
        def ask():
            answers.append(httpx.post(server.url + "/v1/completions",
                                      json={**ENDLESS, "max_tokens": 60}, timeout=60))
        asking = threading.Thread(target=ask)
        asking.start()
        assert eventually(lambda: active_rows(server.url) == 1)
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(WAIT_SECONDS_MAX) == 0
        asking.join()
    assert answers[0].status_code == 200
    assert answers[0].json()["usage"]["completion_tokens"] == 60


def test_a_second_signal_ends_at_once():
    events, errors = [], []
    with ServerProcess("--shutdown-timeout", "60") as server:
        reader = start_stream(server.url, events, errors)
        assert eventually(lambda: active_rows(server.url) == 1)
        server.process.send_signal(signal.SIGTERM)
        assert eventually(lambda: httpx.get(server.url + "/ready").status_code == 503)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(5) == 128 + signal.SIGTERM
        reader.join()


def test_strict_key_and_name():
    key = {"Authorization": "Bearer secret"}
    with ServerProcess("--strict-model", "--api-key", "secret",
                       "--served-model-name", "mine") as server:
        assert server.model == "mine"

        def status(headers=None, **more):
            return httpx.post(server.url + "/v1/chat/completions", json={**SHORT, **more},
                              headers=headers, timeout=60).status_code
        assert status() == 401
        assert status({"Authorization": "Bearer wrong"}) == 401
        assert status(key) == status({"x-api-key": "secret"}) == 200
        assert status(key, model="mine") == 200
        assert status(key, model="other") == 404
        assert httpx.get(server.url + "/health").status_code == 200
        assert httpx.get(server.url + "/v1/models").status_code == 401


def test_a_unix_socket_serves_and_is_removed(tmp_path):
    path = tmp_path / "tandem.sock"
    process = subprocess.Popen([BINARY, "serve", "default", "--unix", path],
                               stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline().startswith(f"ready unix:{path} model=")
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)),
                          base_url="http://tandem") as client:
            assert client.post("/v1/chat/completions", json=SHORT, timeout=60).status_code == 200
    finally:
        process.terminate()
    assert process.wait(WAIT_SECONDS_MAX) == 0
    assert not path.exists()


def test_the_ready_line_is_all_of_stdout():
    process = subprocess.Popen([BINARY, "serve", "--port", "0"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    url = line.split()[1]
    prompt = "a most unusual secret"
    httpx.post(url + "/v1/chat/completions", timeout=60, headers={"Authorization": "Bearer k3y"},
               json={**SHORT, "messages": [{"role": "user", "content": prompt}]})
    process.terminate()
    out, err = process.communicate(timeout=WAIT_SECONDS_MAX)
    assert out == ""
    assert "/v1/chat/completions 200" in err and "prompt=" in err
    assert prompt not in err and "k3y" not in err


def test_an_endless_chat_template_is_a_clear_error_and_hurts_nobody(tmp_path):
    template = tmp_path / "endless.jinja"
    template.write_text("{% for a in range(2000) %}{% for b in range(2000) %}"
                        "{% for c in range(2000) %}x{% endfor %}{% endfor %}{% endfor %}")
    with ServerProcess("--chat-template", str(template)) as server:
        answer = httpx.post(server.url + "/v1/chat/completions", json=SHORT, timeout=60)
        assert answer.status_code == 400 and "template" in answer.json()["error"]["message"]
        answer = httpx.post(server.url + "/v1/completions", json={"prompt": "a", "max_tokens": 1})
        assert answer.status_code == 200


def test_errors_at_the_start_are_one_line(tandem_server, tmp_path):
    assert "in use" in refused("serve", "--port", str(tandem_server.port))
    assert "--api-key" in refused("serve", "--host", "0.0.0.0")
    assert "--port" in refused("serve", "--prot", "1")
    (tmp_path / "note.gguf").write_text("not a model")
    assert "note.gguf" in refused("serve", str(tmp_path / "note.gguf"))
    assert "no-such-file" in refused("serve", "no-such-file.gguf")
    assert "memory" in refused("serve", "--memory-budget", "1000")


def test_sigterm_while_loading_ends_quietly():
    process = subprocess.Popen([BINARY, "serve", "--port", "0"], stdout=subprocess.PIPE)
    process.terminate()
    assert process.wait(WAIT_SECONDS_MAX) in (0, -signal.SIGTERM)
