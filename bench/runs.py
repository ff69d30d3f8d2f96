"""Single measurements: one process of ours or of the peer, and the figure that it prints."""
import json
import os
import subprocess

from .problem import Problem

SECONDS_MAX = 600
LONG_PROMPT = 1024  # takes seconds: the peer needs no run before it to warm up


def output_of(command, env=None):
    """What a program prints on stdout; its stderr is shown only if it fails."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=SECONDS_MAX, env={**os.environ, **(env or {})})
    if done.returncode:
        raise Problem(f"`{' '.join(map(str, command))}` ended with status {done.returncode}:\n"
                      + "\n".join((done.stderr or done.stdout).splitlines()[-8:]))
    return done.stdout


def ours(binary, model, case, precision, threads, isa):
    """The object that `tandem bench --json` prints for one case."""
    command = [binary, "bench", model, "--precision", precision, "--threads", threads,
               "--repeat", 1, "--json", "--prompt-tokens", case.prompt]
    if case.rows:
        command += ["--rows", case.rows, "--gen-tokens", case.gen, "--depth", case.depth]
    else:
        command += ["--rows", 1, "--gen-tokens", 1]
    return json.loads(output_of(command, {"TANDEM_ISA": isa} if isa else None))


def our_speed(found, case):
    """Tokens a second of one case in what `tandem bench --json` printed."""
    return found["decode"][0]["tps"] if case.rows else found["prefill"]["tps"]


def peer_speed(folder, model, case, threads):
    """Tokens a second of one case as the peer's own programs measure it."""
    if case.batched:
        context = case.rows * (case.depth + case.gen)
        text = output_of([
            folder / "llama-batched-bench", "-m", model, "-c", context, "-npp", case.depth,
            "-ntg", case.gen, "-npl", case.rows, "-t", threads, "-tb", threads,
            "--output-format", "jsonl"])
        return batched_bench_speed(text, case.rows)
    text = output_of([
        folder / "llama-bench", "-m", model, "-p", case.prompt, "-n", case.gen if case.rows else 0,
        "-d", case.depth, "-t", threads, "-r", 1, "-o", "json",
        *(["--no-warmup"] if case.prompt >= LONG_PROMPT else [])])
    return bench_speed(text)


def bench_speed(text):
    """The one result of llama-bench -o json."""
    found = json.loads(text)
    if len(found) != 1:
        raise Problem(f"llama-bench printed {len(found)} results, expected 1")
    return found[0]["avg_ts"]


def batched_bench_speed(text, rows):
    """Generated tokens a second with `rows` rows, from llama-batched-bench's JSON lines."""
    for line in text.splitlines():
        if line.startswith("{") and (found := json.loads(line))["pl"] == rows:
            return found["speed_tg"]
    raise Problem(f"llama-batched-bench printed no line for {rows} rows")
