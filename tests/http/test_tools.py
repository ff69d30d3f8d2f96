"""Tools, structured answers and their refusals, as OpenAI's client sees them."""
import json

import openai
import pytest

ASK = [{"role": "user", "content": "What is the weather in Paris?"}]
WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a city.",
    "parameters": {"type": "object", "properties": {
        "city": {"type": "string", "maxLength": 20}, "days": {"enum": [1, 2, 3]}},
        "required": ["city", "days"]}}}
CLOCK = {"type": "function", "function": {"name": "now"}}


def ask(client, **more):
    options = {"model": "any", "messages": ASK, "max_tokens": 120, "temperature": 0, **more}
    return client.chat.completions.create(**options)


def joined(stream):
    """The calls of a stream, by index as the client joins them, and the finish reason."""
    calls, finish = {}, None
    for chunk in stream:
        for choice in chunk.choices:
            finish = choice.finish_reason or finish
            for part in choice.delta.tool_calls or []:
                call = calls.setdefault(part.index, {"id": None, "name": "", "arguments": ""})
                call["id"] = part.id or call["id"]
                call["name"] += part.function.name or ""
                call["arguments"] += part.function.arguments or ""
    return calls, finish


def test_a_required_call_follows_its_schema_whole_and_streamed(client):
    options = dict(tools=[WEATHER], tool_choice="required", parallel_tool_calls=False)
    choice = ask(client, **options).choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None
    call, = choice.message.tool_calls
    arguments = json.loads(call.function.arguments)
    assert call.function.name == "get_weather"
    assert set(arguments) == {"city", "days"} and arguments["days"] in (1, 2, 3)
    calls, finish = joined(ask(client, stream=True, **options))
    assert finish == "tool_calls"
    assert [(c["name"], c["arguments"]) for c in calls.values()] == \
        [(call.function.name, call.function.arguments)]
    assert calls[0]["id"]


def test_a_named_tool_is_the_one_that_is_called(client):
    choice = {"type": "function", "function": {"name": "now"}}
    call, = ask(client, tools=[WEATHER, CLOCK], tool_choice=choice).choices[0].message.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == ("now", {})


def test_a_call_and_its_result_go_back_into_the_conversation(client):
    message = ask(client, tools=[CLOCK], tool_choice="required",
                  parallel_tool_calls=False).choices[0].message
    history = [*ASK, message.model_dump(exclude_none=True),
               {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "12:00"}]
    assert ask(client, messages=history, tools=[CLOCK], tool_choice="none",
               max_tokens=5).choices[0].message.content


def test_unusual_but_valid_tool_schemas_are_enforced(client):
    for properties in ({}, {"s": {"type": "string", "maxLength": 2000}},
                       {"u": {"type": "string", "pattern": r"^(https:\/\/)?x\.com\/\S+$",
                              "maxLength": 12}},
                       {"a": {"type": "array", "maxItems": 0}}):
        tool = {"type": "function", "function": {"name": "f", "parameters": {
            "type": "object", "properties": properties}}}
        choice = ask(client, tools=[tool], tool_choice="required", max_tokens=60,
                     parallel_tool_calls=False).choices[0]
        call, = choice.message.tool_calls
        assert call.function.name == "f"
        if choice.finish_reason == "tool_calls":
            assert set(json.loads(call.function.arguments)) <= set(properties)


def test_an_answer_follows_its_schema_in_every_choice(client):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}, "ok": {"type": "boolean"}},
              "required": ["n", "ok"], "additionalProperties": False}
    answer = ask(client, n=3, seed=5, temperature=1.0, response_format={
        "type": "json_schema", "json_schema": {"name": "a", "schema": schema}})
    for choice in answer.choices:
        if choice.finish_reason == "stop":
            value = json.loads(choice.message.content)
            assert list(value) == ["n", "ok"] and isinstance(value["ok"], bool)
    assert any(choice.finish_reason == "stop" for choice in answer.choices)


def test_choices_regexes_and_grammars_are_followed(client):
    def text(**form):
        return ask(client, max_tokens=12, extra_body=form).choices[0].message.content
    assert text(guided_choice=["red", "blue"]) in ("red", "blue")
    assert text(guided_regex="[0-9]{3}").isdigit()
    assert text(guided_grammar='root ::= "a" ("b" | c)\nc ::= "c"') in ("ab", "ac")
    assert text(structured_outputs={"choice": ["x"]}) == "x"
    raw = client.completions.create(model="any", prompt="n =", max_tokens=8,
                                    extra_body={"guided_regex": "[0-9]{2}"})
    assert len(raw.choices[0].text) == 2


@pytest.mark.parametrize("schema, says", [
    ({"type": "strnig"}, "/type"),
    ({"enum": []}, "/enum"),
    ({"type": "object", "properties": {"a": {"not": {}}}}, '/properties/a: the keyword "not"'),
    ({"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}, "finite"),
    ({"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}}, "finite"),
    ({"$ref": "#/nowhere"}, "/$ref"),
])
def test_a_schema_that_cannot_be_enforced_is_refused_with_place_and_keyword(client, schema, says):
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, response_format={"type": "json_schema",
                                     "json_schema": {"name": "a", "schema": schema}})
    assert says in caught.value.body["message"]
    assert caught.value.body["param"] == "response_format.json_schema.schema"
    with pytest.raises(openai.BadRequestError) as caught:
        tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
        ask(client, tools=[tool], tool_choice="required")
    assert "tools[0].function.parameters" in caught.value.body["message"]
