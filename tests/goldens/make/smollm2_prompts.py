"""The prompts of the default model's goldens: chats (rendered by its template) and plain text."""


def chat(name, *turns, system=None):
    roles = ("user", "assistant")
    messages = [{"role": "system", "content": system}] if system is not None else []
    messages += [{"role": roles[i % 2], "content": t} for i, t in enumerate(turns)]
    return {"name": name, "messages": messages}


def raw(name, text):
    return {"name": name, "text": text}


STORY = """The lighthouse keeper had counted ships for thirty-one years. He wrote each one into a \
ledger bound in green cloth: the hour, the heading, the colour of the hull, and whether she had \
answered his light. On the first page, in a younger hand, stood the rule his predecessor had left \
him: count what you see, not what you expect. He had broken it only once, in the winter of the \
great fog, when for nine days no ship passed and he had written down nine that did not exist, \
because an empty page frightened him more than a false one. Now the company had sent a young \
woman with a laptop and a box of sensors. She was polite. She asked to see the ledgers, all of \
them, and she read for two days without a word. On the third morning she came up the stairs, put \
the winter volume on his table, opened it at the fog, and said:"""

TABLE = """| City | Country | Population | Founded |
|------|---------|-----------:|--------:|
| Lisbon | Portugal | 545796 | -1200 |
| Oslo | Norway | 709037 | 1040 |
| Nairobi | Kenya | 4397073 | 1899 |
| Quito | Ecuador |"""

PROMPTS = [
    chat("capital", "The capital of France is"),
    chat("haiku", "Write a haiku about the sea."),
    chat("sum", "What is 17 + 25? Explain step by step."),
    chat("fibonacci", 'def fibonacci(n):\n    """Return the n-th Fibonacci number."""\n'),
    chat("json-array", "List three primary colours as a JSON array."),
    chat("to-french", "Translate to French: Good morning, how are you today?"),
    chat("pirate", "Who are you, and what do you do?", system="You are a pirate. Answer briefly."),
    chat("empty-system", "Give me five names for a cat.", system=""),
    chat("turns", "My name is Ines and I live in Porto.", "Nice to meet you, Ines!",
         "What is my name, and where do I live?"),
    chat("five-turns", "Name a fruit.", "Apple.", "Another one.", "Banana.",
         "And one that is not sweet?", system="Answer with one word."),
    chat("summary", "Summarise in one sentence:\n\n" + STORY),
    chat("spanish", "¿Cuál es la capital de Perú y por qué es famosa?"),
    chat("chinese", "请用一句话介绍一下长城。"),
    chat("emoji", "Explain these emoji: 👩‍🚀🚀🌍 and 🏳️‍🌈"),
    chat("sql", "Write an SQL query which counts orders per customer in 2023."),
    chat("bash", "How do I find all files larger than 10 MB with bash?"),
    chat("physics", "Why is the sky blue? Use at most three sentences."),
    raw("one-token", "The"),
    raw("once", "Once upon a time, in a village by the river,"),
    raw("story", STORY),
    raw("science", "Photosynthesis is the process by which plants convert light energy into"),
    raw("german", "Die wichtigsten Städte in Deutschland sind"),
    raw("french", "Il était une fois une petite fille qui"),
    raw("russian", "Москва является столицей"),
    raw("japanese", "日本の首都は"),
    raw("arabic", "اللغة العربية هي"),
    raw("hindi", "भारत की राजधानी"),
    raw("python", "import math\n\n\ndef is_prime(n: int) -> bool:\n    if n < 2:\n        return"),
    raw("c", "#include <stdio.h>\n\nint main(void) {\n\tfor (int i = 0; i < 10; i++) {\n\t\t"),
    raw("javascript", "async function fetchUsers(url) {\n  const response = await fetch(url);\n"),
    raw("html", "<!DOCTYPE html>\n<html>\n<head>\n  <title>My page</title>\n"),
    raw("json", '{"users": [{"id": 1, "name": "Ada", "tags": ["admin", "dev"]}, {"id": 2,'),
    raw("table", TABLE),
    raw("list", "Shopping list:\n1. Milk\n2. Eggs\n3. Bread\n4."),
    raw("numbers", "1, 1, 2, 3, 5, 8, 13, 21, 34, 55,"),
    raw("arithmetic", "12 * 12 = 144\n13 * 13 = 169\n14 * 14 ="),
    raw("latex", "The quadratic formula is\n\\[ x = \\frac{-b \\pm"),
    raw("repeat", "one two three one two three one two three one two"),
    raw("spaces", "Name:      Alice\nAge:       30\nCity:      "),
    raw("dialogue", '"Where are you going?" she asked.\n\n"To the station," he said. "'),
]
