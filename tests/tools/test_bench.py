"""The benchmark computes, reads and writes what it should; a small run goes through all of it."""
import json
import random
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from bench import cases, clients, gguf, machine, mlx_form, models, peer, report, runs  # noqa: E402
from bench import results as results_file  # noqa: E402
from bench import servers, stats  # noqa: E402
from bench.problem import Problem  # noqa: E402

CPUINFO = ("processor\t: 0\nmodel name\t: A Processor\nflags\t\t: fpu avx2 fma f16c avx512f "
           "avx512_vnni\n\nprocessor\t: 1\nmodel name\t: A Processor\nflags\t\t: fpu avx2\n")
SYSTEM_INFO = ("0.00 I cmn  common_param: build 0 (sdist) with Clang 19.1.7 for Linux x86_64\n"
               "0.00 I cmn  common_param: system_info: n_threads = 2 (n_threads_batch = 2) / 2 | "
               "CPU : SSE3 = 1 | AVX2 = 1 | F16C = 1 | FMA = 1 | AVX512 = 1 | REPACK = 1 | \n")
LIMITS = {"threads": 2, "read": [{"bytes": 100, "gbps": 50.0}, {"bytes": 10**9, "gbps": 30.0}],
          "dot": {"avx2_int8": 0.3, "avx512_vnni_int8": 1.2, "avx2_f32": 9.0}}


def row(ours=(200.0, 210.0, 190.0), peer_=(100.0, 105.0, 100.0), **more):
    """A row of results; by default decoding, twice as fast as the peer."""
    what = {"model": "default", "case": "decode-depth-0", "precision": "high", "metric": "speed",
            "unit": "tok/s", **more}
    return results_file.make_row(ours=ours, peer=peer_, **what)


# --- Statistics ------------------------------------------------------------------------------


@pytest.mark.parametrize("percent, value", [(0, 1), (50, 2.5), (95, 3.85), (100, 4)])
def test_a_percentile_lies_between_its_neighbours(percent, value):
    assert stats.percentile([4, 1, 3, 2], percent) == pytest.approx(value)


def test_a_ratio_is_that_of_each_pair_and_not_of_the_medians():
    found = stats.paired_ratio([10, 20, 90], [10, 10, 30])
    assert (found["median"], found["min"], found["max"]) == (2, 1, 3)
    assert stats.paired_ratio([10, 20], []) is None


# --- What the programs print -----------------------------------------------------------------


def test_the_peers_benchmarks_are_read():
    assert runs.bench_speed('[{"n_prompt": 64, "avg_ts": 298.98, "samples_ts": [298.98]}]') == (
        298.98)
    lines = ('\n{"pp": 16, "tg": 8, "pl": 1, "speed_tg": 109.6}\n'
             '{"pp": 16, "tg": 8, "pl": 4, "speed_tg": 192.1}\n')
    assert runs.batched_bench_speed(lines, 4) == 192.1
    with pytest.raises(Problem, match="8 rows"):
        runs.batched_bench_speed(lines, 8)


def test_a_program_that_fails_is_named_with_its_last_words():
    with pytest.raises(Problem, match="(?s)status 3.*no such model"):
        runs.output_of([sys.executable, "-c",
                        "import sys; print('no such model', file=sys.stderr); sys.exit(3)"])


def test_the_peer_counts_only_with_the_instructions_that_the_machine_has():
    info = peer.parse_system_info(SYSTEM_INFO)
    assert info["compiler"] == "Clang 19.1.7 for Linux x86_64"
    assert "AVX512" in info["features"] and "AVX512_VNNI" not in info["features"]
    model, flags = machine.parse_cpuinfo(CPUINFO)
    assert model == "A Processor"
    assert peer.missing_features(info["features"], flags, "") == ["AVX512_VNNI"]
    assert peer.missing_features(info["features"], flags, "avx2") == []


def test_a_peer_of_its_own_is_built_for_each_instruction_set():
    recipes = {peer.recipe(variant) for variant in peer.VARIANTS}
    assert len(recipes) == len(peer.VARIANTS)
    assert "GGML_NATIVE=ON" in peer.recipe("native")
    assert "GGML_NATIVE=OFF" in peer.recipe("avx2") and "AVX512" not in peer.recipe("avx2")


# --- Clients ---------------------------------------------------------------------------------


def event(text, rest=""):
    return b'data: {"choices":[{"index":0,"text":"%s"%s}]}\n\n' % (text.encode(), rest.encode())


def test_an_answer_has_the_time_of_each_event_that_carries_text():
    answer = clients.read_answer(1, [
        (2, b"HTTP/1.1 200 OK\r\n\r\n" + event("a")[:20]), (3, event("a")[20:]),
        (4, event("b") + event("c")),
        (5, event("") + b'data: {"usage":{"completion_tokens":4}}\n\ndata: [DONE]\n\n')])
    assert (answer.times, answer.tokens, answer.ended) == ([3, 4, 4], 4, 5)
    assert (answer.first_token, answer.gaps, answer.decode_speed) == (2, [1, 0], 3)


def test_clients_ask_until_no_prompt_is_left_and_refuse_half_an_answer():
    answer = (b"HTTP/1.1 200 OK\r\n\r\n" + event("a") + event("b")
              + b'data: {"usage":{"completion_tokens":2}}\n\ndata: [DONE]\n\n')
    with socket.create_server(("127.0.0.1", 0)) as server:
        def serve(answers):
            for data in answers:
                connection, _ = server.accept()
                connection.recv(1 << 16)
                connection.sendall(data)
                connection.close()

        def ask(*answers):
            thread = threading.Thread(target=serve, args=(answers,))
            thread.start()
            try:
                return clients.ask_all(server.getsockname()[1], [[1]] * len(answers), 2, 2)
            finally:
                thread.join()

        assert [each.tokens for each in ask(answer, answer, answer)] == [2, 2, 2]
        with pytest.raises(Problem, match="0 tokens in 0 events, expected 2"):
            ask(answer[:60])


def test_figures_of_a_run_are_over_all_answers():
    answers = [clients.Answer(sent=0, times=[1, 2, 3], tokens=3, ended=3),
               clients.Answer(sent=1, times=[4, 4.5], tokens=3, ended=5)]
    found = servers.figures(answers)
    assert found["speed"] == pytest.approx(6 / 5)
    assert found["ttft_median"] == 2000 and found["ttft_p95"] == pytest.approx(2900)
    assert found["gap_p50"] == 1000


def test_no_prompt_comes_twice_and_both_servers_get_the_same():
    case = cases.ServerCase("default", 4)
    first, again, later = (servers.prompts_of(case, pair) for pair in (0, 0, 1))
    assert first == again
    assert len({tuple(prompt) for prompt in first + later}) == 2 * case.requests
    assert all(len(prompt) == case.prompt for prompt in first)


# --- Files -----------------------------------------------------------------------------------


def test_a_gguf_file_is_read_back_as_it_was_written(tmp_path):
    metadata = {"a": gguf.Value(gguf.UINT32, 7), "b": gguf.Value(gguf.STRING, "Ġé"),
                "c": gguf.Value(gguf.ARRAY, ["x", ""], gguf.STRING),
                "d": gguf.Value(gguf.ARRAY, [1, -2], gguf.INT32)}
    tensors = [gguf.Tensor("one", (3,), "F32"), gguf.Tensor("two", (64, 2), "Q4_0")]
    path = tmp_path / "a.gguf"
    gguf.write(path, metadata, tensors, lambda tensor: bytes(tensor.bytes))
    assert gguf.read_header(path) == (metadata, tensors)
    assert path.stat().st_size % gguf.ALIGNMENT == 0
    with pytest.raises(ValueError, match="two has 1 bytes, expected 72"):
        gguf.write(path, metadata, tensors, lambda t: bytes(12 if t.name == "one" else 1))


def test_random_blocks_hold_one_scale_and_the_asked_deviation():
    data = models.random_blocks(gguf.Tensor("w", (32, 200), "Q4_0"), random.Random(1))
    blocks = [data[at:at + 18] for at in range(0, len(data), 18)]
    assert len({bytes(block[:2]) for block in blocks}) == 1
    scale = struct.unpack("<e", blocks[0][:2])[0]
    values = [scale * (code - 8) for block in blocks for byte in block[2:]
              for code in (byte & 15, byte >> 4)]
    deviation = (sum(value**2 for value in values) / len(values)) ** 0.5
    assert deviation == pytest.approx(models.WEIGHT_DEVIATION, rel=0.05)


def test_a_made_file_appears_whole_and_is_made_once(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = []

    def make(path):
        made.append(path)
        path.write_text("data")

    path = models._made("bench/file", make)
    assert models._made("bench/file", make) == path and len(made) == 1
    path.write_text("cut")
    models._made("bench/file", make)
    assert path.read_text() == "data" and len(made) == 2
    with pytest.raises(ZeroDivisionError):
        models._made("bench/other", lambda path: 1 / 0)
    assert not (tmp_path / "tandem/bench/other").exists()


def test_names_and_tokens_go_to_where_an_mlx_folder_has_them():
    assert mlx_form.mlx_name("blk.3.attn_q") == "model.layers.3.self_attn.q_proj"
    assert mlx_form.mlx_name("token_embd") == "model.embed_tokens"
    made = mlx_form.tokenizer_of({"tokenizer.ggml.tokens": ["<s>", "a", "b", "ab"],
                                  "tokenizer.ggml.token_type": [3, 1, 1, 1],
                                  "tokenizer.ggml.merges": ["a b"]})
    assert [token["content"] for token in made["added_tokens"]] == ["<s>"]
    assert made["model"]["vocab"]["ab"] == 3 and made["model"]["merges"] == ["a b"]


# --- Results ---------------------------------------------------------------------------------


def test_a_new_run_replaces_its_rows_and_leaves_the_others(tmp_path):
    for append, count in ((False, 3), (True, 6), (False, 3)):
        found = results_file.Results(tmp_path / "r.json", append)
        found.put(row(threads=2))
        found.save()
        assert found.rows()[0]["ours"]["count"] == count
    found.put(row(case="prefill-512", threads=2))
    found.save()
    again = results_file.Results(tmp_path / "r.json")
    assert len(again.rows()) == 2
    assert not again.set_machine({})
    assert again.set_machine({"cpu": "another"}) and again.rows() == []


def test_the_nearer_limit_is_named_with_the_share_of_it():
    reading = row(threads=2, work={"bytes": 10**8, "operations": 2 * 10**8, "buffer": 120})
    limit = machine.limit_of(reading, LIMITS)
    assert (limit["name"], limit["ours"], limit["peer"]) == ("read bandwidth", 0.4, 0.2)
    computing = row(threads=2, work={"operations": 3 * 10**9})
    limit = machine.limit_of(computing, LIMITS)
    assert limit["name"] == "int8 peak" and limit["ours"] == pytest.approx(0.5)
    assert machine.limit_of({**computing, "isa": "avx2"}, LIMITS)["ours"] == pytest.approx(2)
    assert machine.limit_of({**computing, "threads": 4}, LIMITS) is None


@pytest.mark.parametrize("more, amx, wanted", [
    ({}, False, 1.0), ({"precision": "fast"}, False, 1.1),
    ({"case": "prefill-512", "precision": "fast"}, False, 1.5),
    ({"case": "prefill-512", "precision": "fast"}, True, 4),
    ({"model": "mlx"}, False, 1.3), ({"case": "rows-4"}, False, None),
    ({"case": "server-16", "concurrency": 16}, False, 2.5),
    ({"case": "server-16", "concurrency": 16, "metric": "ttft_p95", "unit": "ms"}, True, 0.5),
    ({"case": "rows-4", "isa": "avx2"}, False, 1.0)])
def test_targets_follow_the_machine_and_the_precision(more, amx, wanted):
    assert cases.target(row(**more), amx) == wanted


def test_a_verdict_needs_a_peer_that_counts_and_knows_what_is_better():
    data = {"machine": {"flags": []}, "peers": {}}
    assert report.target_text(data, row()) == "1 met"
    assert report.target_text(data, row(ours=(50.0,), peer_=(100.0,))) == "1 missed"
    late = row(case="server-4", metric="ttft_p95", unit="ms", concurrency=4)
    assert report.target_text(data, late) == "0.5 missed"
    data["peers"] = {"native": {"missing": ["AVX512_VNNI"]}}
    assert report.target_text(data, row()) == "peer lacks instructions"


def test_figures_are_chosen_by_name():
    assert [case.key for case in cases.chosen(cases.ALL_CASES, ["mlx/*", "limits"])] == [
        "machine/limits", "mlx/decode-depth-0", "mlx/decode-depth-2048"]
    keys = [case.key for case in cases.ALL_CASES]
    assert len(set(keys)) == len(keys)


def test_the_tables_of_a_page_are_written_between_its_marks(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    made = results_file.Results(tmp_path / "r.json")
    with pytest.raises(Problem, match="no figures"):
        report.rewrite(page, made.data)
    made.put(row(threads=2, engine_share=0.01))
    made.data.update(machine={"cpu": "C", "cores": 2, "caches": {}, "memory_bytes": 0,
                              "flags": []}, tandem={"version": "t", "threads": 2})
    for _ in range(2):
        report.rewrite(page, made.data)
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith(f"{report.END}\nafter\n")
    assert "| decode-depth-0 | high | tok/s | 200 | 100 | 2.00 | 3: 1.90 to 2.00 | 1 met |" in text
    assert "old" not in text and text.count("### SmolLM2-135M Q4_1") == 1
    page.write_text("no marks")
    with pytest.raises(Problem, match="lacks the lines"):
        report.rewrite(page, made.data)


def test_the_page_has_its_marks():
    text = (ROOT / "docs/performance.md").read_text()
    assert text.index(report.BEGIN) < text.index(report.END)


# --- The whole path --------------------------------------------------------------------------


def test_a_small_run_measures_everything_of_ours(tmp_path):
    out = tmp_path / "quick.json"
    done = subprocess.run([sys.executable, "-m", "bench", "--quick", "--no-peer", "--precision",
                           "high", "--out", out], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text())
    assert found["schema"] == 1 and found["machine"]["cpu"] and found["tandem"]["threads"] >= 1
    assert all(read["gbps"] > 0 for read in found["limits"]["read"])
    measured = {(row["case"], row["metric"]) for row in found["rows"].values()}
    assert {case for case, _ in measured} == {
        case.name for case in cases.QUICK_CASES if case.name != "limits"}
    assert {("server-2", metric) for metric in servers.METRICS} <= measured
    for row_ in found["rows"].values():
        assert row_["ours"]["count"] == 1 and row_["peer"] is None and row_["ratio"] is None
        assert row_["unit"] == "share" or row_["ours"]["median"] > 0
        assert row_["id"] in done.stdout
    decoding = found["rows"]["default/decode-depth-16/high/speed"]
    assert 0 < decoding["engine_share"] < 1 and decoding["limit"]["ours"] > 0


def test_a_name_of_no_figure_is_refused():
    done = subprocess.run([sys.executable, "-m", "bench", "--only", "no-such"], cwd=ROOT,
                          capture_output=True, text=True)
    assert done.returncode == 1 and "--list shows them" in done.stderr
