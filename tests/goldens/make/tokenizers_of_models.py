"""Token ids and decoded texts of the real models' tokenizers."""

import tokenizers
from tokenizers import Tokenizer

from common import GOLDENS, MODELS, write_lines
from gguf_tokenizer import (byte_level_bpe, metadata, sentencepiece_bpe, sentencepiece_processor)
from tokenizer_strings import all_texts

OUT = GOLDENS / "tokenizer"
SOURCE = f"tokenizers {tokenizers.__version__}"


def encode(tokenizer, text, specials_as_text):
    tokenizer.encode_special_tokens = specials_as_text
    return tokenizer.encode(text, add_special_tokens=False).ids


def entry(tokenizer, text):
    """[ids], or [ids, decoded] or [ids, decoded, plain ids] where they tell more; see README."""
    ids = encode(tokenizer, text, False)
    plain = encode(tokenizer, text, True)
    decoded = tokenizer.decode(ids, skip_special_tokens=False)
    if plain != ids:
        return [ids, None if decoded == text else decoded, plain]
    return [ids] if decoded == text else [ids, decoded]


def write(name, tokenizer, texts, source):
    tokenizer.encode_special_tokens = False
    around = tokenizer.encode("x", add_special_tokens=True).ids
    inner = tokenizer.encode("x", add_special_tokens=False).ids
    at = next(i for i in range(len(around)) if around[i:i + len(inner)] == inner)
    head = {"tokenizer": name, "source": source, "added_before": around[:at],
            "added_after": around[at + len(inner):]}
    entries = [entry(tokenizer, t) for t in texts]
    write_lines(OUT / f"{name}.json", head, "entries", entries)
    changed = sum(len(e) > 1 and e[1] is not None for e in entries)
    print(f"{name}: {sum(len(e[0]) for e in entries)} tokens, {changed} decode otherwise, "
          f"{sum(len(e) > 2 for e in entries)} differ as plain text, {head}")


def main():
    OUT.mkdir(exist_ok=True)
    texts = all_texts()
    write_lines(OUT / "texts.json", {}, "texts", texts)

    meta = metadata(MODELS / "SmolLM2-135M-Instruct.Q4_1.gguf")
    write("smollm2", byte_level_bpe(meta), texts, f"{SOURCE}, from GGUF metadata")

    meta = metadata(MODELS / "gemma-3-270m.Q4_K_M.gguf")
    gemma, truth = sentencepiece_bpe(meta), sentencepiece_processor(meta)
    for text in texts:
        assert encode(gemma, text, True) == truth.encode(text), text
    write("gemma3", gemma, texts, f"{SOURCE}, from GGUF metadata; plain ids equal SentencePiece's")

    minilm = Tokenizer.from_file(str(MODELS / "minilm" / "tokenizer.json"))
    minilm.no_truncation()
    minilm.no_padding()
    write("minilm", minilm, texts, f"{SOURCE}, tokenizer.json without truncation and padding")


if __name__ == "__main__":
    main()
