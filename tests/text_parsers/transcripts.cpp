#include "text_parsers/transcripts.h"

namespace tandem::test {
namespace {

using F = ToolFormat;

const OutputEvents kNone;

std::vector<Transcript> reasoning_only() {
  return {
      {"plain text", F::kHermes, "Hello, world!\n", kNone + content("Hello, world!\n")},
      {"white space before an answer", F::kHermes, "\n hi", kNone + content("\n hi")},
      {"nothing", F::kHermes, "", kNone},
      {"thinking, then an answer", F::kHermes, "<think>\nHm 🤔.\n</think>\n\nYes.",
       kNone + reasoning("Hm 🤔.") + content("Yes.")},
      {"thinking that the prompt began", F::kHermes, "Hm.\n</think>\n\nYes.",
       kNone + reasoning("Hm.") + content("Yes."), true},
      {"thinking cut off", F::kHermes, "<think>\nHm, </thi", kNone + reasoning("Hm, </thi")},
      {"empty thinking", F::kHermes, "<think>\n\n</think>\n\nYes.", kNone + content("Yes.")},
      {"a tag in the middle of an answer", F::kHermes, "The <think> tag",  // not at the start
       kNone + content("The <think> tag")},
      {"a beginning that is no tag", F::kHermes, " <thin", kNone + content(" <thin")},
      {"thinking between Gemma's channel tokens", F::kGemma4,
       "<|channel>thought\nHm.\n<channel|>Yes.", kNone + reasoning("Hm.") + content("Yes.")},
  };
}

std::vector<Transcript> hermes() {
  const std::string good =
      R"(<tool_call>
{"name": "get_weather", "arguments": {"city": "Zürich 🏔", "days": 2}}
</tool_call>)";
  const auto weather = call(0, "get_weather", R"({"city": "Zürich 🏔", "days": 2})");
  return {
      {"a call", F::kHermes, good, weather},
      {"text before a call", F::kHermes, "I'll look.\n\n" + good,
       kNone + content("I'll look.") + weather},
      {"thinking and two calls", F::kHermes,
       "<think>\nTwo.\n</think>\n\n" + good +
           "\n<tool_call>\n{\"name\":\"add\",\"arguments\":{\"a\":1,\"b\":-2.5e3}}\n</tool_call>",
       kNone + reasoning("Two.") + weather + call(1, "add", R"({"a":1,"b":-2.5e3})")},
      {"text behind a call", F::kHermes, good + "\nDone.", weather + content("Done.")},
      {"thinking between calls", F::kHermes, good + "\n<think>\nMore.\n</think>\n" + good,
       weather + reasoning("More.") + call(1, "get_weather", R"({"city": "Zürich 🏔", "days": 2})")},
      {"arguments before the name", F::kHermes,
       R"(<tool_call>{"arguments": {"a": 1}, "name": "add"}</tool_call>)",
       call(0, "add", R"({"a": 1})")},
      {"no arguments", F::kHermes, R"(<tool_call>{"name": "now"}</tool_call>)",
       call(0, "now", "{}")},
      {"arguments as a text", F::kHermes,
       R"(<tool_call>{"name": "add", "arguments": "{\"a\": 1}"}</tool_call>)",
       call(0, "add", R"({"a": 1})")},
      {"the shape of the wire", F::kHermes,
       R"(<tool_call>{"type": "x", "function":{"name":"add","arguments":{"a":1}}}</tool_call>)",
       call(0, "add", R"({"a":1})")},
      {"a line feed inside a string", F::kHermes,
       "<tool_call>{\"name\":\"save\",\"arguments\":{\"text\":\"a\nb\"}}</tool_call>",
       call(0, "save", R"({"text":"a\nb"})")},
      {"no closing tag", F::kHermes, R"(<tool_call>{"name": "add", "arguments": {"a": 1}})",
       call(0, "add", R"({"a": 1})")},
      {"an unknown tool", F::kHermes,
       R"(<tool_call>{"name": "rm", "arguments": {"a": 1}}</tool_call> ok)",
       kNone + content(R"(<tool_call>{"name": "rm", "arguments": {"a": 1}}</tool_call> ok)")},
      {"no JSON", F::kHermes, "a <tool_call> is a tag", kNone + content("a <tool_call> is a tag")},
      {"a call inside of what is none", F::kHermes, "<tool_call>{\"x" + good,
       kNone + content("<tool_call>{\"x") + weather},
      {"a call behind what is none", F::kHermes, "<tool_call>{x" + good,
       kNone + content("<tool_call>{x") + weather},
      {"cut off before the name", F::kHermes, "Hm <tool_call>\n{\"na",
       kNone + content("Hm <tool_call>\n{\"na")},
      {"cut off in the arguments",
       F::kHermes,
       R"(<tool_call>{"name": "save", "arguments": {"text": "ab)",
       {{.kind = Kind::kCallBegin, .call = 0, .text = "save", .id = {}},
        {.kind = Kind::kArguments, .call = 0, .text = R"({"text": "ab)", .id = {}}}},
      {"arguments that break",
       F::kHermes,
       R"(<tool_call>{"name": "add", "arguments": {"a": }}</tool_call>)",
       {{.kind = Kind::kCallBegin, .call = 0, .text = "add", .id = {}},
        {.kind = Kind::kArguments, .call = 0, .text = R"({"a": )", .id = {}},
        content("}}</tool_call>")}},
  };
}

std::vector<Transcript> tagged() {
  return {
      {"Qwen's coder", F::kQwenCoder,
       "<tool_call>\n<function=save>\n<parameter=path>\na.py\n</parameter>\n<parameter=text>\n"
       "if a < b:\n  print(\"ü\")\n\n</parameter>\n<parameter=public>\nTrue\n</parameter>\n"
       "</function>\n</tool_call>",
       call(0, "save",
            R"({"path": "a.py", "text": "if a < b:\n  print(\"ü\")\n", "public": true})")},
      {"two calls of Qwen's coder without the outer tag", F::kQwenCoder,
       "<function=add>\n<parameter=a>\n1\n</parameter>\n</function>\n<function=now>\n</function>",
       call(0, "add", R"({"a": 1})") + call(1, "now", "{}")},
      {"a number where the schema says string", F::kQwenCoder,
       "<function=get_weather><parameter=city>8001</parameter><parameter=days>null</parameter>"
       "</function>",
       call(0, "get_weather", R"({"city": "8001", "days": null})")},
      {"a value that its type refuses", F::kQwenCoder,
       "<function=add><parameter=a>one</parameter></function>", call(0, "add", R"({"a": "one"})")},
      {"an unknown tool of Qwen's coder", F::kQwenCoder,
       "<tool_call>\n<function=rm>\n</function>\n</tool_call>",
       kNone + content("<tool_call>\n<function=rm>\n</function>\n</tool_call>")},
      {"no closing tags", F::kQwenCoder, "<function=add>\n<parameter=a>\n1\n</parameter>\n",
       call(0, "add", R"({"a": 1})")},
      {"a list and an object, of JSON and of Python", F::kQwenCoder,
       "<function=save><parameter=tags>['a', None]</parameter><parameter=meta>{\"k\": [1]}"
       "</parameter></function>",
       call(0, "save", R"({"tags": ["a", null], "meta": {"k": [1]}})")},
      {"MiniCPM with raw characters", F::kMiniCpm,
       "Look: <function name=\"save\"><param name=\"path\">a</param><param name=\"text\">"
       "<![CDATA[<b> & </param> ]] ]]></param></function>",
       kNone + content("Look:") +
           call(0, "save", R"({"path": "a", "text": "<b> & </param> ]] "})")},
      {"MiniCPM's unknown tool", F::kMiniCpm, "<function name=\"f\"></function>",
       kNone + content("<function name=\"f\"></function>")},
      {"GLM", F::kGlm,
       "<think>Hm</think>\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Köln"
       "</arg_value>\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>",
       kNone + reasoning("Hm") + call(0, "get_weather", R"({"city": "Köln", "days": 3})")},
      {"two calls of GLM", F::kGlm,
       "<tool_call>now\n</tool_call>\n<tool_call>add<arg_key>a</arg_key><arg_value>1</arg_value>"
       "</tool_call>",
       call(0, "now", "{}") + call(1, "add", R"({"a": 1})")},
      {"MiniMax", F::kMiniMax,
       "<minimax:tool_call>\n<invoke name=\"add\">\n<parameter name=\"a\">1</parameter>\n</invoke>"
       "\n<invoke name=\"now\">\n</invoke>\n</minimax:tool_call>",
       call(0, "add", R"({"a": 1})") + call(1, "now", "{}")},
      {"a value cut off",
       F::kQwenCoder,
       "<function=save><parameter=text>\nab",
       {{.kind = Kind::kCallBegin, .call = 0, .text = "save", .id = {}},
        {.kind = Kind::kArguments, .call = 0, .text = R"({"text": "ab)", .id = {}}}},
  };
}

std::vector<Transcript> named() {
  const std::string v31 =
      "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>add<｜tool▁sep｜>{\"a\": 1}<｜tool▁call▁end｜>"
      "<｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>";
  return {
      {"DeepSeek V3.1", F::kDeepSeek, "Hm.</think>Let me." + v31,
       kNone + reasoning("Hm.") + content("Let me.") + call(0, "add", R"({"a": 1})") +
           call(1, "now", "{}"),
       true},
      {"DeepSeek V3", F::kDeepSeek,
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>add\n```json\n{\"a\": 1}\n"
       "```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n```"
       "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       call(0, "add", R"({"a": 1})") + call(1, "now", "{}")},
      {"DeepSeek's unknown tool", F::kDeepSeek,
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>rm<｜tool▁sep｜>{}<｜tool▁call▁end｜>",
       kNone +
           content(
               "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>rm<｜tool▁sep｜>{}<｜tool▁call▁end｜>")},
      {"Kimi", F::kKimi,
       "<|tool_calls_section_begin|><|tool_call_begin|>functions.add:0"
       "<|tool_call_argument_begin|>{\"a\": 1}<|tool_call_end|><|tool_calls_section_end|>",
       call(0, "add", R"({"a": 1})")},
      {"Mistral's list", F::kMistral,
       "[TOOL_CALLS] [{\"name\": \"add\", \"arguments\": {\"a\": 1}}, {\"name\": \"now\", "
       "\"arguments\": {}}]",
       call(0, "add", R"({"a": 1})") + call(1, "now", "{}")},
      {"Mistral's names", F::kMistral,
       "Sure.[TOOL_CALLS]add[ARGS]{\"a\": 1}[TOOL_CALLS]now[CALL_ID]abc123def[ARGS]{}",
       kNone + content("Sure.") + call(0, "add", R"({"a": 1})") +
           call(1, "now", "{}", "abc123def")},
      {"Mistral's name beside its arguments", F::kMistral, "[TOOL_CALLS]add{\"a\": 1}",
       call(0, "add", R"({"a": 1})")},
      {"Mistral's list broken", F::kMistral, "[TOOL_CALLS] [\"add\"]",
       kNone + content("[TOOL_CALLS] [\"add\"]")},
  };
}

std::vector<Transcript> bare() {
  return {
      {"Llama's JSON", F::kLlamaJson, R"({"name": "add", "parameters": {"a": 1}})",
       call(0, "add", R"({"a": 1})")},
      {"two of Llama's", F::kLlamaJson,
       R"({"name": "add", "parameters": {"a": 1}}; {"name": "now", "parameters": {}})",
       call(0, "add", R"({"a": 1})") + call(1, "now", "{}")},
      {"text behind Llama's", F::kLlamaJson, "{\"name\": \"now\"}\n\nDone; ok.",
       call(0, "now", "{}") + content("Done; ok.")},
      {"Llama's behind its token", F::kLlamaJson,
       R"(<|python_tag|>{"type": "function", "name": "add", "parameters": {"a": 1}})",
       call(0, "add", R"({"a": 1})")},
      {"an answer in JSON", F::kLlamaJson, R"({"answer": [1, 2]})",
       kNone + content(R"({"answer": [1, 2]})")},
      {"JSON behind text", F::kLlamaJson, R"(So: {"name": "add", "parameters": {"a": 1}})",
       kNone + content(R"(So: {"name": "add", "parameters": {"a": 1}})")},
      {"Python calls", F::kPythonic,
       "[get_weather(city='Zürich, \"CH\"', days=2), add(a=-1.5, b=1e3), now()]",
       call(0, "get_weather", R"({"city": "Zürich, \"CH\"", "days": 2})") +
           call(1, "add", R"({"a": -1.5, "b": 1e3})") + call(2, "now", "{}")},
      {"Python values", F::kPythonic,
       "<|python_start|>[save(tags=['a', \"b\\n\", (1, 2)], meta={'k': None, 'l': {}}, "
       "public=True, text='')]<|python_end|>",
       call(0, "save",
            R"({"tags": ["a", "b\n", [1, 2]], "meta": {"k": null, "l": {}}, "public": true, )"
            R"("text": ""})")},
      {"a list that is an answer", F::kPythonic, "[1] Smith (2020), [2] add(a)",
       kNone + content("[1] Smith (2020), [2] add(a)")},
      {"a Python call that breaks",
       F::kPythonic,
       "[add(a=1, b=x)]",
       {{.kind = Kind::kCallBegin, .call = 0, .text = "add", .id = {}},
        {.kind = Kind::kArguments, .call = 0, .text = R"({"a": 1)", .id = {}},
        content(" b=x)]")}},
      {"Gemma 3 in Python", F::kGemma3, "```tool_code\nprint(default_api.add(a=1, b=2))\n```",
       call(0, "add", R"({"a": 1, "b": 2})")},
      {"Gemma 3 in JSON", F::kGemma3,
       "Look.\n```json\n{\"name\": \"add\", \"parameters\": {\"a\": 1}}\n```",
       kNone + content("Look.") + call(0, "add", R"({"a": 1})")},
      {"a fenced answer", F::kGemma3, "```json\n{\"a\": 1}\n```\n```python\nx = 1\n```",
       kNone + content("```json\n{\"a\": 1}\n```\n```python\nx = 1\n```")},
      {"Olmo's lines", F::kOlmo, "<function_calls>\nadd(a=1)\nnow()\n</function_calls>",
       call(0, "add", R"({"a": 1})") + call(1, "now", "{}")},
      {"MiniCPM 3", F::kMiniCpm3,
       "<|tool_call_start|>\n```python\nadd(a=1)\nnow()\n```\n<|tool_call_end|>",
       call(0, "add", R"({"a": 1})") + call(1, "now", "{}")},
  };
}

std::vector<Transcript> gemma() {
  return {
      {"Gemma 4", F::kGemma4,
       "<|channel>thought\nHm.\n<channel|><|tool_call>call:get_weather{city:<|\"|>Zürich, {CH}"
       "<|\"|>,days:2}<tool_call|><|tool_call>call:now{}<tool_call|>",
       kNone + reasoning("Hm.") + call(0, "get_weather", R"({"city": "Zürich, {CH}", "days": 2})") +
           call(1, "now", "{}")},
      {"Gemma 4 with nested values", F::kGemma4,
       "<|tool_call>call:save{tags:[<|\"|>a]<|\"|>,1,null],meta:{k:{l:true},m:<|\"|>\"q\"<|\"|>},"
       "public:false}<tool_call|>",
       call(0, "save",
            R"({"tags": ["a]", 1, null], "meta": {"k": {"l": true}, "m": "\"q\""}, )"
            R"("public": false})")},
      {"Gemma 4 cut off in a string",
       F::kGemma4,
       "<|tool_call>call:save{text:<|\"|>ab<|",
       {{.kind = Kind::kCallBegin, .call = 0, .text = "save", .id = {}},
        {.kind = Kind::kArguments, .call = 0, .text = R"({"text": "ab)", .id = {}},
        content("<|")}},
      {"Gemma 4's unknown tool", F::kGemma4, "<|tool_call>call:rm{a:1}<tool_call|>",
       kNone + content("<|tool_call>call:rm{a:1}<tool_call|>")},
      {"FunctionGemma", F::kFunctionGemma,
       "<start_function_call>call:get_weather{city:<escape>Bern<escape>,days:null}"
       "<end_function_call>",
       call(0, "get_weather", R"({"city": "Bern", "days": null})")},
  };
}

std::vector<Transcript> harmony() {
  return {
      {"channels", F::kHarmony,
       "<|channel|>analysis<|message|>Hm 🤔.<|end|><|start|>assistant<|channel|>final<|message|>"
       "Yes.<|return|>",
       kNone + reasoning("Hm 🤔.") + content("Yes.")},
      {"calls", F::kHarmony,
       "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary "
       "to=functions.add <|constrain|>json<|message|>{\"a\": 1}<|call|><|start|>assistant "
       "to=functions.now<|channel|>commentary json<|message|>{}",
       kNone + reasoning("Hm.") + call(0, "add", R"({"a": 1})") + call(1, "now", "{}")},
      {"a preamble", F::kHarmony,
       "<|channel|>commentary<|message|>Let me < look.<|end|><|start|>assistant<|channel|>final"
       "<|message|>A <|b|> c",
       kNone + content("Let me < look.\nA <|b|> c")},
      {"an unknown tool in a channel", F::kHarmony,
       "<|channel|>commentary to=functions.rm<|message|>{}<|call|>",
       kNone + content("<|channel|>commentary to=functions.rm<|message|>{}")},
      {"broken arguments in a channel",
       F::kHarmony,
       "<|channel|>commentary to=functions.add<|message|>{\"a\": é}<|call|>",
       {{.kind = Kind::kCallBegin, .call = 0, .text = "add", .id = {}},
        {.kind = Kind::kArguments, .call = 0, .text = R"({"a": )", .id = {}},
        content("é}")}},
      {"text without channels", F::kHarmony, "Just text.", kNone + content("Just text.")},
  };
}

}  // namespace

std::vector<Transcript> transcripts() {
  std::vector<Transcript> all;
  for (auto part : {reasoning_only(), hermes(), tagged(), named(), bare(), gemma(), harmony()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace tandem::test
