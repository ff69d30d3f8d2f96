"""Chat template rendering exactly as transformers does it, at a fixed time of day."""

import datetime

from transformers.utils import chat_template_utils

NOW = "2026-07-04T09:05:03"


class FixedClock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromisoformat(NOW)


chat_template_utils.datetime = FixedClock


def render(template, messages, tools=None, documents=None, add_generation_prompt=False, **extra):
    """What apply_chat_template(tokenize=False) does: keys that are None are dropped first."""
    messages = chat_template_utils._normalize_chat_messages(messages)
    rendered, _ = chat_template_utils.render_jinja_template(
        conversations=[messages], tools=tools, documents=documents, chat_template=template,
        add_generation_prompt=add_generation_prompt, **extra)
    return rendered[0]
