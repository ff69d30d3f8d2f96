"""Starts `tandem serve` and llama-server, and measures what their clients see."""
import http.client
import json
import os
import re
import socket
import subprocess
import time
from pathlib import Path
from statistics import median

from .clients import ask_all, random_prompt
from .problem import Problem
from .stats import percentile

START_SECONDS_MAX = 120
STOP_SECONDS_MAX = 30
RUN = time.time_ns()  # of this process: makes its prompts differ from those of all other runs


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def our_server(binary, model, precision, threads, slots, isa):
    """(command, environment) without the port."""
    command = [binary, "serve", model, "--precision", precision, "--threads", threads,
               "--batch", slots, "--log-level", "error"]
    return command, {"TANDEM_ISA": isa} if isa else {}


def peer_server(folder, model, threads, slots, context):
    """Its caches of prompts are off: no prompt comes twice, so they could only cost it time."""
    return [folder / "llama-server", "-m", model, "-t", threads, "-tb", threads, "-np", slots,
            "-c", slots * context, "-cb", "--no-cache-prompt", "--cache-ram", 0, "--no-ui",
            "-lv", 1], {}


class Server:
    """A process that serves on a free port; use it in a with statement.

    start_s is the time from the start of the process to the end of its first answer."""

    def __init__(self, command, env):
        self.port = free_port()
        self.command = [*map(str, command), "--port", str(self.port)]
        self.env = {**os.environ, **env}

    def __enter__(self):
        began = time.perf_counter()
        self.process = subprocess.Popen(self.command, env=self.env, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        while not self._answers():
            if self.process.poll() is not None or time.perf_counter() - began > START_SECONDS_MAX:
                self.__exit__()
                raise Problem(f"`{' '.join(self.command)}` did not answer; run it to see why")
            time.sleep(0.005)
        self.start_s = time.perf_counter() - began
        return self

    def _answers(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=START_SECONDS_MAX)
        try:
            body = {"prompt": [1000, 1001, 1002, 1003], "max_tokens": 1, "temperature": 0}
            connection.request("POST", "/v1/completions", json.dumps(body),
                               {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            return answer.status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def resident_mib(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) / 1024

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()


# What clients see of one run: metric -> unit, in the order of the table.
METRICS = {"speed": "tok/s", "ttft_median": "ms", "ttft_p95": "ms", "gap_p50": "ms",
           "gap_p99": "ms", "resident": "MiB"}


def figures(answers):
    """The metrics of one run, but for memory. speed: tokens of all answers over the time from the
    first request to the last token."""
    first = [answer.first_token * 1e3 for answer in answers]
    gaps = [gap * 1e3 for answer in answers for gap in answer.gaps]
    took = max(answer.ended for answer in answers) - min(answer.sent for answer in answers)
    return {"speed": sum(answer.tokens for answer in answers) / took,
            "ttft_median": median(first), "ttft_p95": percentile(first, 95),
            "gap_p50": median(gaps), "gap_p99": percentile(gaps, 99)}


def prompts_of(case, pair):
    """The prompts of one run: the same for both servers, and never again."""
    return [random_prompt(case.prompt, f"{RUN} {case.key} {pair} {number}")
            for number in range(case.requests)]


def measure(server, case, pair):
    answers = ask_all(server.port, prompts_of(case, pair), case.gen, case.concurrency)
    return {**figures(answers), "resident": server.resident_mib()}


def warm_up(server, case):
    ask_all(server.port, [random_prompt(case.prompt, f"{RUN} warm-up {number}")
                          for number in range(case.concurrency)], 4, case.concurrency)
