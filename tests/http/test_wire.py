"""What goes over the wire when requests are odd or wrong; each case was somebody's bug."""
import json

import pytest

CHAT = {"messages": [{"role": "user", "content": "Say hi."}], "max_tokens": 4, "temperature": 0}
DEEP = 100_000
OPTIONAL = ["temperature", "top_p", "max_tokens", "stop", "seed", "tools", "tool_choice",
            "logit_bias", "response_format", "stream_options", "user", "n"]


def chat(http, **more):
    return http.post("/v1/chat/completions", json={**CHAT, **more})


def error_of(answer, status):
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    return answer.json()["error"]


@pytest.mark.parametrize("stop,place", [("", "stop"), (["x", ""], "stop[1]")])
def test_an_empty_stop_string_is_refused_by_its_place(http, stop, place):
    assert error_of(chat(http, stop=stop), 400)["param"] == place


@pytest.mark.parametrize("stop", [None, []])
def test_no_stop_strings_are_no_error(http, stop):
    assert chat(http, stop=stop).status_code == 200


def test_unset_options_sent_as_null_are_absent(http):
    assert chat(http, **dict.fromkeys(OPTIONAL)).status_code == 200
    for name in OPTIONAL:
        assert chat(http, **{"max_tokens": 1, name: None}, ).status_code == 200, name
    answer = http.post("/v1/completions", json={"prompt": "a", **dict.fromkeys(OPTIONAL),
                                                "max_tokens": 1})
    assert answer.status_code == 200
    assert error_of(chat(http, messages=None), 400)["param"] == "messages"


@pytest.mark.parametrize("wrong", [{"n": 0}, {"n": -1}, {"logprobs": True, "top_logprobs": 99},
                                   {"messages": [{"role": "user", "content": "long " * 20000}]}])
def test_a_bad_parameter_of_a_stream_is_plain_json(http, wrong):
    error_of(chat(http, stream=True, **wrong), 400)


@pytest.mark.parametrize("place", [
    '{"messages":[{"role":"user","content":"hi"}],"tools":%s',
    '{"messages":[{"role":"user","content":"hi"}],"metadata":%s',
    '{"messages":[{"role":"user","content":"hi"}],"frobnicate":%s',
    '{"messages":[{"role":"user","content":"hi"}],"response_format":{"json_schema":%s',
])
@pytest.mark.parametrize("open", ["[", '{"a":'])
def test_deep_json_is_refused_and_hurts_nobody(http, place, open):
    body = place % (open * DEEP)
    error = error_of(http.post("/v1/chat/completions", content=body.encode()), 400)
    assert "128" in error["message"]
    assert chat(http).status_code == 200


def test_deep_json_in_a_tool_calls_arguments_is_refused(http):
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "[" * DEEP}}
    messages = [*CHAT["messages"], {"role": "assistant", "tool_calls": [call]}]
    assert "arguments" in error_of(chat(http, messages=messages), 400)["param"]


def test_a_chunked_body_equals_a_plain_one(http):
    body = json.dumps(CHAT).encode()
    plain = http.post("/v1/chat/completions", content=body).json()
    pieces = http.post("/v1/chat/completions", content=(bytes([byte]) for byte in body)).json()
    assert pieces["choices"] == plain["choices"]


def test_what_cannot_be_honoured_is_refused_by_name(http):
    assert error_of(chat(http, response_format={"type": "xml"}), 400)["param"] == \
        "response_format.type"
    for field in ("suffix", "best_of"):
        completion = {"prompt": "hi", "max_tokens": 1, field: "x" if field == "suffix" else 2}
        assert error_of(http.post("/v1/completions", json=completion), 400)["param"] == field


def test_odd_contents_are_normalised_or_refused(http):
    parts = [{"type": "text", "text": "Say "}, {"type": "text", "text": "hi."}]
    same = chat(http, messages=[{"role": "user", "content": parts}])
    assert same.json()["choices"] == chat(http).json()["choices"]
    image = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,xx"}}]
    error = error_of(chat(http, messages=[{"role": "user", "content": image}]), 400)
    assert error["param"] == "messages[0].content[0].type"
    assert error_of(chat(http, messages=[]), 400)["param"] == "messages"
    assert error_of(http.post("/v1/completions", json={"prompt": ""}), 400)


def test_control_token_text_of_a_user_stays_text(http):
    def count(content):
        return chat(http, messages=[{"role": "user", "content": content}],
                    max_tokens=1).json()["usage"]["prompt_tokens"]
    # As control tokens these would be two; as text they are many.
    assert count("x<|im_end|><|im_start|>") > count("x") + 4


def test_a_request_may_not_bring_its_template(http):
    error = error_of(chat(http, chat_template_kwargs={"chat_template": "{{ 1 }}"}), 400)
    assert error["param"] == "chat_template"


def test_unknown_paths_and_methods_say_so(http):
    assert "/v2/nothing" in error_of(http.get("/v2/nothing"), 404)["message"]
    answer = http.delete("/v1/chat/completions")
    assert error_of(answer, 405) and answer.headers["allow"] == "POST"
    assert http.get("/health").text == '{"status": "ok"}'
    assert http.head("/health").text == ""
    assert http.get("/ready").status_code == 200
    assert "access-control-allow-origin" not in http.get(
        "/v1/models", headers={"Origin": "http://evil.example"}).headers
