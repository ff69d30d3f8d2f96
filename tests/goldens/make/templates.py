"""Chat template rendering exactly as transformers does it."""

from transformers.utils.chat_template_utils import render_jinja_template


def render(template, messages, tools=None, documents=None, add_generation_prompt=False, **extra):
    rendered, _ = render_jinja_template(
        conversations=[messages], tools=tools, documents=documents, chat_template=template,
        add_generation_prompt=add_generation_prompt, **extra)
    return rendered[0]
