"""The tokenizers that GGUF metadata stands for, built with the `tokenizers` package."""

from gguf import GGUFReader
from sentencepiece import SentencePieceProcessor
from sentencepiece import sentencepiece_model_pb2 as spm
from tokenizers import (AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers,
                        processors)

NORMAL, CONTROL, USER_DEFINED, BYTE = 1, 3, 4, 6
SPACE = "\u2581"


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
    assert not meta["tokenizer.ggml.add_bos_token"]
    tokens = meta["tokenizer.ggml.tokens"]
    merges = [tuple(m.split(" ")) for m in meta["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    tokenizer.decoder = decoders.ByteLevel()
    add_tokens(tokenizer, tokens, meta["tokenizer.ggml.token_type"])
    return tokenizer


def merges_of(tokens, scores, types):
    """Every way to make a normal piece of two others, best score first.

    Only normal pieces take part, so that no text can be merged into a control token.
    """
    ids = {t: i for i, (t, kind) in enumerate(zip(tokens, types)) if kind == NORMAL}
    found = []
    for piece, piece_id in ids.items():
        halves = [(piece[:cut], piece[cut:]) for cut in range(1, len(piece))]
        halves = [(a, b) for a, b in halves if a in ids and b in ids]
        found += [(-scores[piece_id], ids[a], ids[b], a, b) for a, b in halves]
    found.sort()
    return [(a, b) for *_, a, b in found]


def sentencepiece_bpe(meta):
    """tokenizer.ggml.model = llama: SentencePiece BPE with byte fallback, no space in front."""
    assert meta["tokenizer.ggml.model"] == "llama" and not meta["tokenizer.ggml.add_space_prefix"]
    tokens, types = meta["tokenizer.ggml.tokens"], meta["tokenizer.ggml.token_type"]
    merges = merges_of(tokens, meta["tokenizer.ggml.scores"], types)
    tokenizer = Tokenizer(models.BPE(
        {t: i for i, t in enumerate(tokens)}, merges, byte_fallback=True, fuse_unk=True,
        unk_token=tokens[meta["tokenizer.ggml.unknown_token_id"]]))
    tokenizer.normalizer = normalizers.Replace(" ", SPACE)
    tokenizer.decoder = decoders.Sequence([
        decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()])
    add_tokens(tokenizer, tokens, types)
    if meta["tokenizer.ggml.add_bos_token"]:
        bos_id = meta["tokenizer.ggml.bos_token_id"]
        bos = tokens[bos_id]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", special_tokens=[(bos, bos_id)])
    return tokenizer


def sentencepiece_processor(meta):
    """The same vocabulary in SentencePiece itself, to check the tokenizer above against."""
    kinds = spm.ModelProto.SentencePiece
    of_type = {NORMAL: kinds.NORMAL, CONTROL: kinds.CONTROL, USER_DEFINED: kinds.USER_DEFINED,
               BYTE: kinds.BYTE}
    proto = spm.ModelProto()
    unknown = meta["tokenizer.ggml.unknown_token_id"]
    for i, (token, score, kind) in enumerate(zip(
            meta["tokenizer.ggml.tokens"], meta["tokenizer.ggml.scores"],
            meta["tokenizer.ggml.token_type"])):
        kind = kinds.UNKNOWN if i == unknown else of_type[kind]
        piece = token.replace(" ", SPACE) if kind == kinds.USER_DEFINED else token
        proto.pieces.add(piece=piece, score=score, type=kind)
    proto.trainer_spec.model_type = spm.TrainerSpec.BPE
    proto.trainer_spec.byte_fallback = True
    proto.trainer_spec.vocab_size = len(proto.pieces)
    proto.trainer_spec.unk_id = unknown
    proto.normalizer_spec.name = "identity"
    proto.normalizer_spec.add_dummy_prefix = False
    proto.normalizer_spec.remove_extra_whitespaces = False
    return SentencePieceProcessor(model_proto=proto.SerializeToString())
