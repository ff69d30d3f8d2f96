"""Chat templates rendered by transformers: whole templates over conversations, and snippets."""

from importlib.metadata import version

from jinja2 import TemplateError

from chat_template_inputs import SMOLLM2_CHATS, SNIPPETS, STYLED
from common import GOLDENS, MODELS, write_lines
from gguf_tokenizer import metadata
from templates import NOW, render

OUT = GOLDENS / "templates"
SOURCE = f"transformers {version('transformers')}, jinja2 {version('jinja2')}"


def outcome(template, given):
    try:
        return {"output": render(template, **given)}
    except TemplateError as error:
        return {"error": str(error)}


def whole_templates():
    sources = {p.stem: p.read_text(encoding="utf-8") for p in OUT.glob("*.jinja")}
    for index, messages in enumerate(SMOLLM2_CHATS):
        for prompt in (False, True):
            yield sources, f"smollm2-{index}-{prompt}", "smollm2", {
                "messages": messages, "add_generation_prompt": prompt}
    for name, template, given in STYLED:
        yield sources, name, template, given


def main():
    smollm2 = metadata(MODELS / "SmolLM2-135M-Instruct.Q4_1.gguf")["tokenizer.chat_template"]
    (OUT / "smollm2.jinja").write_text(smollm2, encoding="utf-8")
    cases = [{"name": name, "template": f"{template}.jinja", "input": given}
             | outcome(sources[template], given)
             for sources, name, template, given in whole_templates()]
    snippets = [{"name": name, "source": source, "input": {"messages": []} | given}
                | outcome(source, {"messages": []} | given) for name, source, given in SNIPPETS]
    head = {"renderer": SOURCE, "now": NOW}
    write_lines(OUT / "cases.json", head, "cases", cases)
    write_lines(OUT / "snippets.json", head, "snippets", snippets)
    for kind in (cases, snippets):
        print(len(kind), "rendered,", [(c["name"], c["error"]) for c in kind if "error" in c])


if __name__ == "__main__":
    main()
