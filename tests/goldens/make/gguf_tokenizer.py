"""The tokenizers that GGUF metadata stands for, built with the `tokenizers` package."""

from gguf import GGUFReader
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

CONTROL, USER_DEFINED, BYTE = 3, 4, 6


def metadata(path):
    """All GGUF metadata values by key."""
    return {k: f.contents() for k, f in GGUFReader(path).fields.items()}


def add_tokens(tokenizer, tokens, types):
    """Control tokens are special; user-defined ones are only matched before everything else."""
    added = [AddedToken(t, special=kind == CONTROL, normalized=False)
             for t, kind in zip(tokens, types) if kind in (CONTROL, USER_DEFINED)]
    tokenizer.add_tokens(added)


def byte_level_bpe(meta):
    """tokenizer.ggml.model = gpt2 with pre = smollm: digits one by one, then GPT-2's words."""
    assert meta["tokenizer.ggml.model"] == "gpt2" and meta["tokenizer.ggml.pre"] == "smollm"
    tokens = meta["tokenizer.ggml.tokens"]
    merges = [tuple(m.split(" ")) for m in meta["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    tokenizer.decoder = decoders.ByteLevel()
    add_tokens(tokenizer, tokens, meta["tokenizer.ggml.token_type"])
    return tokenizer
