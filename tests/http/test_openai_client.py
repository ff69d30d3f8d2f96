"""What OpenAI's own Python client sees."""
import threading

import openai
import pytest

QUESTION = [{"role": "user", "content": "Count from one to ten in words, separated by commas."}]


def whole(client, **more):
    options = {"model": "any", "messages": QUESTION, "max_tokens": 24, "temperature": 0, **more}
    return client.chat.completions.create(**options)


def streamed(client, **more):
    """Text, finish reason and usage of a streamed answer."""
    text, finish, usage = "", None, None
    for chunk in whole(client, stream=True, stream_options={"include_usage": True}, **more):
        if chunk.usage:
            usage = chunk.usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            finish = choice.finish_reason or finish
    return text, finish, usage


def test_a_stream_adds_up_to_the_whole_answer(client):
    answer = whole(client)
    text, finish, usage = streamed(client)
    assert text == answer.choices[0].message.content != ""
    assert finish == answer.choices[0].finish_reason
    assert usage.completion_tokens == answer.usage.completion_tokens
    assert usage.prompt_tokens == answer.usage.prompt_tokens
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens


def test_max_tokens_ends_an_answer_with_length_and_is_counted(client):
    for limit in (1, 5):
        answer = whole(client, max_tokens=limit)
        assert answer.usage.completion_tokens == limit
        assert answer.choices[0].finish_reason == "length"
    assert whole(client, max_tokens=50, max_completion_tokens=2).usage.completion_tokens == 2


def test_a_stop_string_cuts_the_text_before_it_whole_and_streamed(client):
    full = whole(client, max_tokens=40).choices[0].message.content
    stop = full[len(full) // 2:len(full) // 2 + 3]
    expected = full[:full.index(stop)]
    answer = whole(client, max_tokens=40, stop=[stop])
    assert answer.choices[0].message.content == expected
    assert answer.choices[0].finish_reason == "stop"
    text, finish, _ = streamed(client, max_tokens=40, stop=stop)
    assert (text, finish) == (expected, "stop")


def test_a_stop_string_that_never_comes_loses_nothing(client):
    full = whole(client).choices[0].message.content
    assert streamed(client, stop=[full[-4:] + "\0", "\n\n\n\n"])[0] == full


def test_a_seed_repeats_an_answer_and_another_changes_it(client):
    def text(seed):
        return whole(client, temperature=1.5, seed=seed).choices[0].message.content
    assert text(1) == text(1)
    assert len({text(seed) for seed in range(1, 5)}) > 1


def test_n_choices_come_side_by_side(client):
    answer = whole(client, n=3, temperature=1.5, seed=4)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert len({choice.message.content for choice in answer.choices}) > 1
    assert answer.usage.prompt_tokens == whole(client).usage.prompt_tokens


def test_two_users_at_once_get_what_each_gets_alone(client):
    asks = [dict(max_tokens=30), dict(messages=[{"role": "user", "content": "Name a colour."}])]
    alone = [whole(client, **ask).choices[0].message.content for ask in asks]
    together = [None] * 2

    def ask(i):
        together[i] = streamed(client, **asks[i])[0]
    threads = [threading.Thread(target=ask, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone


def test_logprobs_name_the_chosen_token_with_its_bytes(client):
    answer = whole(client, logprobs=True, top_logprobs=3, max_tokens=6)
    content = answer.choices[0].logprobs.content
    assert len(content) == 6
    assert b"".join(bytes(token.bytes) for token in content).decode() == \
        answer.choices[0].message.content
    for token in content:
        assert len(token.top_logprobs) == 3
        assert token.top_logprobs[0].logprob == token.logprob <= 0  # greedy: the most likely
        assert token.top_logprobs[0].token == token.token


def test_a_strong_bias_decides_the_token(client):
    token = client.completions.create(
        model="any", prompt="yes", max_tokens=1, temperature=0, echo=True,
        extra_body={"return_token_ids": True}).choices[0].prompt_token_ids[0]
    answer = whole(client, logit_bias={str(token): 100}, max_tokens=4,
                   extra_body={"return_token_ids": True})
    assert answer.choices[0].token_ids == [token] * 4


def test_errors_raise_the_clients_own_exceptions(client):
    with pytest.raises(openai.BadRequestError, match="temperature"):
        whole(client, temperature=-1)
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(
            model="any", messages=[{"role": "user", "content": "so long " * 20000}])
    assert caught.value.code == "context_length_exceeded"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("no-such-model")


def test_the_served_model_is_listed_and_named_in_answers(client, tandem_server):
    assert [model.id for model in client.models.list()] == [tandem_server.model]
    assert client.models.retrieve(tandem_server.model).id == tandem_server.model
    assert whole(client, model="gpt-9", max_tokens=1).model == tandem_server.model
