"""tandem generate and tandem bench."""
import json
import signal
import subprocess
import time

from server_process import BINARY


def run(*arguments, **more):
    done = subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=120,
                          **more)
    assert done.returncode == 0, done
    return done.stdout


def test_generate_prints_the_answer_and_json_the_same_text():
    ask = ["generate", "--prompt", "Name a colour.", "--max-tokens", "8", "--temperature", "0"]
    text = run(*ask)
    answer = json.loads(run(*ask, "--json"))
    assert answer["text"] + "\n" == text
    assert answer["usage"]["completion_tokens"] <= 8
    assert answer["finish_reason"] in ("stop", "length")


def test_generate_reads_its_prompt_from_stdin_and_may_leave_out_the_template():
    raw = ["generate", "--prompt", "-", "--raw", "--temperature", "0", "--max-tokens", "4",
           "--json"]
    answer = json.loads(run(*raw, input="One, two, three,"))
    with_template = json.loads(run(*[flag for flag in raw if flag != "--raw"],
                                   input="One, two, three,"))
    assert answer["usage"]["prompt_tokens"] < with_template["usage"]["prompt_tokens"]


def test_a_seed_repeats_a_generation():
    ask = ["generate", "--prompt", "Tell me a story.", "--max-tokens", "12", "--temperature",
           "1.5"]
    assert run(*ask, "--seed", "3") == run(*ask, "--seed", "3") != run(*ask, "--seed", "4")


def test_ctrl_c_ends_an_answer():
    process = subprocess.Popen(
        [BINARY, "generate", "--raw", "--prompt", "a a a a a a a a a a", "--max-tokens", "8000"],
        stdout=subprocess.PIPE)
    assert process.stdout.read(1)
    process.send_signal(signal.SIGINT)
    begin = time.monotonic()
    process.stdout.read()
    assert process.wait(10) == 128 + signal.SIGINT
    assert time.monotonic() - begin < 10


def test_bench_reports_every_row_count():
    result = json.loads(run("bench", "--json", "--prompt-tokens", "16", "--gen-tokens", "4",
                            "--rows", "1,2", "--repeat", "1"))
    assert result["prefill"]["tokens"] == 16 and result["prefill"]["tps"] > 0
    assert [entry["rows"] for entry in result["decode"]] == [1, 2]
    assert all(entry["tps"] > 0 for entry in result["decode"])
    assert all(0 < entry["engine_share"] < 1 for entry in result["decode"])
    assert result["threads"] >= 1 and result["isa"] and result["precision"] == "high"
    assert "decode 2 rows" in run("bench", "--prompt-tokens", "0", "--gen-tokens", "2", "--rows",
                                  "2", "--repeat", "1")
