"""Gemma 3 270M's reference answers: GGUF Q4_K_M, dequantised, in float32."""

import numpy as np
import torch
from gguf import GGUFReader
from transformers import Gemma3ForCausalLM, Gemma3TextConfig

from common import GOLDENS, MODELS, SOURCE, logits_of, write_lines
from gguf_blocks import decode
from gguf_tokenizer import metadata, sentencepiece_bpe
from smollm2 import generate
from smollm2_prompts import PROMPTS, STORY, TABLE

FILE = MODELS / "gemma-3-270m.Q4_K_M.gguf"
NEW_TOKENS = 24
TOP = 32
# The story over and over, until the window of 512 tokens is far behind its end.
LONG = {"name": "past-the-window", "text": "\n\n".join([STORY, TABLE + " 2850 |", STORY, STORY])}

TENSOR_NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}


def gguf_name(name):
    path = name.removesuffix(".weight")
    if path.startswith("model.layers."):
        _, _, layer, rest = path.split(".", 3)
        return f"blk.{layer}.{TENSOR_NAMES[rest]}.weight"
    return f"{TENSOR_NAMES[path]}.weight"


def load(path):
    """The GGUF's model in transformers; the file's norms have their 1 added already."""
    meta = metadata(path)
    config = Gemma3TextConfig(
        vocab_size=len(meta["tokenizer.ggml.tokens"]),
        hidden_size=meta["gemma3.embedding_length"],
        intermediate_size=meta["gemma3.feed_forward_length"],
        num_hidden_layers=meta["gemma3.block_count"],
        num_attention_heads=meta["gemma3.attention.head_count"],
        num_key_value_heads=meta["gemma3.attention.head_count_kv"],
        head_dim=meta["gemma3.attention.key_length"],
        max_position_embeddings=meta["gemma3.context_length"],
        rms_norm_eps=1e-6, sliding_window=meta["gemma3.attention.sliding_window"],
        query_pre_attn_scalar=meta["gemma3.attention.key_length"],
        rope_parameters={
            "full_attention": {"rope_type": "default", "rope_theta": meta["gemma3.rope.freq_base"]},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}},
        attn_implementation="eager")
    model = Gemma3ForCausalLM(config).eval()
    raw = {t.name: t for t in GGUFReader(path).tensors}
    dense = {}
    for name in model.state_dict():
        if name == "lm_head.weight":
            continue
        tensor = raw.pop(gguf_name(name))
        value = torch.from_numpy(decode(tensor.data, tensor.tensor_type))
        dense[name] = value - 1 if name.endswith("norm.weight") else value
    assert not raw
    model.load_state_dict(dense, strict=False)
    model.tie_weights()
    return model, meta


def item_of(model, tokenizer, name, text):
    prompt = tokenizer.encode(text).ids
    generated = generate(model, prompt, NEW_TOKENS)
    steps = torch.log_softmax(
        logits_of(model, prompt + generated)[len(prompt) - 1:-1].double(), dim=-1)
    assert steps.argmax(-1).tolist() == generated, f"{name}: cached and whole runs differ"
    top = steps.topk(TOP, dim=-1)
    rest = torch.log1p(-top.values.exp().sum(-1)).unsqueeze(-1)
    item = {"name": name, "text": text, "prompt_ids": prompt, "output_ids": generated,
            "output_text": tokenizer.decode(generated, skip_special_tokens=False),
            "gaps": [round(float(g), 5) for g in top.values[:, 0] - top.values[:, 1]]}
    return item, top.indices.numpy(), torch.cat([top.values, rest], -1).numpy()


def main():
    model, meta = load(FILE)
    tokenizer = sentencepiece_bpe(meta)
    texts = [(e["name"], e.get("text") or e["messages"][-1]["content"]) for e in PROMPTS]
    texts = [t for t in texts if len(t[1]) < 400][:10] + [(LONG["name"], LONG["text"])]
    items, all_ids, all_logprobs = [], [], []
    for name, text in texts:
        item, ids, logprobs = item_of(model, tokenizer, name, text)
        items.append(item)
        all_ids.append(ids)
        all_logprobs.append(logprobs)
        print(f"{name}: {len(item['prompt_ids'])} tokens, least lead {min(item['gaps'])}, "
              f"{item['output_text'][:60]!r}", flush=True)
    out = GOLDENS / "gemma3-270m"
    out.mkdir(exist_ok=True)
    np.stack(all_ids).astype("<u4").tofile(out / "top_ids.u32")
    np.stack(all_logprobs).astype("<f4").tofile(out / "top_logprobs.f32")
    head = {"model": "Gemma 3 270M Q4_K_M, dequantised to float32", "source": SOURCE,
            "new_tokens": NEW_TOKENS, "top": TOP, "top_ids": "top_ids.u32",
            "top_logprobs": "top_logprobs.f32"}
    write_lines(out / "golden.json", head, "items", items)


if __name__ == "__main__":
    main()
