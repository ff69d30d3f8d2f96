"""POST /v1/completions as evaluation harnesses use it."""
import json

import pytest

TEXT = "The capital of France is Paris, and the capital of Italy is Rome."


def complete(http, **body):
    answer = http.post("/v1/completions", json={"temperature": 0, **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


def ids_of(http, text):
    choice = complete(http, prompt=text, max_tokens=1, return_token_ids=True)["choices"][0]
    return choice["prompt_token_ids"]


def test_echo_scores_the_prompt_and_generates_nothing_with_max_tokens_0(http):
    answer = complete(http, prompt=TEXT, max_tokens=0, echo=True, logprobs=2)
    choice = answer["choices"][0]
    assert choice["text"] == TEXT
    scores = choice["logprobs"]
    assert scores["token_logprobs"][0] is None and scores["top_logprobs"][0] is None
    assert all(score <= 0 for score in scores["token_logprobs"][1:])
    assert "".join(scores["tokens"]) == TEXT
    count = answer["usage"]["prompt_tokens"]
    assert {len(scores[name]) for name in scores} == {count}
    assert answer["usage"]["completion_tokens"] == 0
    assert [TEXT[offset:offset + len(token)] for offset, token
            in zip(scores["text_offset"], scores["tokens"])] == scores["tokens"]


def test_a_prompt_scores_the_same_alone_and_with_an_answer_behind_it(http):
    def scores(**more):
        return complete(http, prompt=TEXT, echo=True, logprobs=1, **more)["choices"][0]["logprobs"]
    prompt = scores(max_tokens=0)["token_logprobs"]
    longer = scores(max_tokens=3)["token_logprobs"]
    assert longer[:len(prompt)] == pytest.approx(prompt)
    assert len(longer) == len(prompt) + 3


def test_generated_logprobs_equal_those_of_the_same_text_as_prompt(http):
    ids = ids_of(http, TEXT)
    answer = complete(http, prompt=ids, max_tokens=5, logprobs=1, return_token_ids=True,
                      ignore_eos=True)["choices"][0]
    again = complete(http, prompt=ids + answer["token_ids"], max_tokens=0, echo=True, logprobs=1)
    rescored = again["choices"][0]["logprobs"]["token_logprobs"][-5:]
    assert rescored == pytest.approx(answer["logprobs"]["token_logprobs"], abs=0.05)


def test_the_greedy_token_is_the_most_likely_one(http):
    scores = complete(http, prompt=TEXT, max_tokens=5, logprobs=1)["choices"][0]["logprobs"]
    for chosen, top in zip(scores["token_logprobs"], scores["top_logprobs"]):
        assert chosen == max(top.values())


def test_token_ids_are_taken_as_they_are(http):
    ids = ids_of(http, TEXT)
    by_ids = complete(http, prompt=ids, max_tokens=8, return_token_ids=True)
    by_text = complete(http, prompt=TEXT, max_tokens=8, return_token_ids=True)
    assert by_ids["choices"][0]["prompt_token_ids"] == ids
    assert by_ids["choices"][0]["token_ids"] == by_text["choices"][0]["token_ids"]
    assert complete(http, prompt=[5], max_tokens=1)["usage"]["prompt_tokens"] == 1


def test_lists_of_prompts_keep_their_order(http):
    prompts = ["One, two, three,", "A, B, C,", "Red, green,"]
    alone = [complete(http, prompt=prompt, max_tokens=6)["choices"][0]["text"]
             for prompt in prompts]
    together = complete(http, prompt=prompts, max_tokens=6)
    assert [choice["text"] for choice in together["choices"]] == alone
    as_ids = complete(http, prompt=[ids_of(http, prompt) for prompt in prompts], max_tokens=6)
    assert [choice["text"] for choice in as_ids["choices"]] == alone
    assert together["usage"]["completion_tokens"] == 18


def test_ignore_eos_and_min_tokens_carry_an_answer_on(http):
    ended = "<|im_start|>user\nSay hi.<|im_end|>\n<|im_start|>assistant\nHi!"
    short = complete(http, prompt=ended, max_tokens=30)
    longer = complete(http, prompt=ended, max_tokens=30, ignore_eos=True, return_token_ids=True)
    assert short["usage"]["completion_tokens"] < 30
    assert short["choices"][0]["finish_reason"] == "stop"
    assert longer["usage"]["completion_tokens"] == len(longer["choices"][0]["token_ids"]) == 30
    least = complete(http, prompt=ended, max_tokens=30, min_tokens=10)
    assert least["usage"]["completion_tokens"] >= 10


def test_a_stream_delivers_whole_characters_and_the_same_text(http):
    prompt = "Emoji: 😀 😃 😄 😁 😆 😅 😂"
    body = {"prompt": prompt, "max_tokens": 30, "temperature": 0, "ignore_eos": True}
    whole = complete(http, **body)["choices"][0]["text"]
    pieces = []
    with http.stream("POST", "/v1/completions", json={**body, "stream": True}) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: {"):
                pieces.append(json.loads(line[6:])["choices"][0]["text"])
    assert "".join(pieces) == whole
