"""The default model's reference answers: SmolLM2-135M-Instruct Q4_1, dequantised, in float32."""

import numpy as np
import torch
from gguf import GGUFReader
from transformers import LlamaConfig, LlamaForCausalLM

from common import GOLDENS, MODELS, SOURCE, logits_of, write_lines
from gguf_blocks import decode
from gguf_tokenizer import byte_level_bpe, metadata
from smollm2_prompts import PROMPTS
from templates import render
from tiny_gguf import gguf_name, heads_permuted, unpermute

FILE = MODELS / "SmolLM2-135M-Instruct.Q4_1.gguf"
NEW_TOKENS = 48
TOP = 64


def load(path):
    """The GGUF's model in transformers, every weight dequantised to float32."""
    meta = metadata(path)
    config = LlamaConfig(
        vocab_size=meta["llama.vocab_size"], hidden_size=meta["llama.embedding_length"],
        intermediate_size=meta["llama.feed_forward_length"],
        num_hidden_layers=meta["llama.block_count"],
        num_attention_heads=meta["llama.attention.head_count"],
        num_key_value_heads=meta["llama.attention.head_count_kv"],
        max_position_embeddings=meta["llama.context_length"],
        rms_norm_eps=meta["llama.attention.layer_norm_rms_epsilon"],
        rope_parameters={"rope_type": "default", "rope_theta": meta["llama.rope.freq_base"]},
        tie_word_embeddings=True, attn_implementation="eager")
    model = LlamaForCausalLM(config).eval()
    raw = {t.name: t for t in GGUFReader(path).tensors}
    assert "output.weight" not in raw
    dense = {}
    for name in model.state_dict():
        if name == "lm_head.weight":
            continue
        tensor = raw[gguf_name(name)]
        value = decode(tensor.data, tensor.tensor_type)
        heads = heads_permuted("llama", config, name)
        dense[name] = torch.from_numpy(unpermute(value, heads) if heads else value)
    model.load_state_dict(dense, strict=False)
    model.tie_weights()
    return model, meta


@torch.no_grad()
def generate(model, prompt, count=NEW_TOKENS):
    output = model(torch.tensor([prompt]), use_cache=True)
    ids = []
    while True:
        ids.append(int(output.logits[0, -1].argmax()))
        if len(ids) == count:
            return ids
        output = model(torch.tensor([[ids[-1]]]), past_key_values=output.past_key_values,
                       use_cache=True)


def item_of(model, tokenizer, template, entry):
    """One golden item, and its [48, 64] top ids and [48, 65] log-probabilities."""
    if "messages" in entry:
        text = render(template, entry["messages"], add_generation_prompt=True)
    else:
        text = entry["text"]
    prompt = tokenizer.encode(text, add_special_tokens=False).ids
    generated = generate(model, prompt)
    logprobs = torch.log_softmax(logits_of(model, prompt + generated).double(), dim=-1)
    steps = logprobs[len(prompt) - 1:-1]
    assert steps.argmax(-1).tolist() == generated, f"{entry['name']}: cached and whole runs differ"
    top = steps.topk(TOP, dim=-1)
    rest = torch.log1p(-top.values.exp().sum(-1)).unsqueeze(-1)
    told = torch.tensor(prompt[1:], dtype=torch.long).unsqueeze(-1)
    prompt_logprobs = logprobs[:len(prompt) - 1].gather(-1, told)[:, 0].tolist()
    item = {
        "name": entry["name"], "chat": "messages" in entry, "text": text, "prompt_ids": prompt,
        "output_ids": generated, "output_text": tokenizer.decode(generated,
                                                                 skip_special_tokens=False),
        "gaps": [round(float(g), 5) for g in top.values[:, 0] - top.values[:, 1]],
        "prompt_logprobs": [None] + [round(p, 5) for p in prompt_logprobs],
    }
    return item, top.indices.numpy(), torch.cat([top.values, rest], -1).numpy()


def main():
    model, meta = load(FILE)
    tokenizer = byte_level_bpe(meta)
    items, all_ids, all_logprobs = [], [], []
    for entry in PROMPTS:
        item, ids, logprobs = item_of(model, tokenizer, meta["tokenizer.chat_template"], entry)
        items.append(item)
        all_ids.append(ids)
        all_logprobs.append(logprobs)
        print(f"{item['name']}: {len(item['prompt_ids'])} tokens, least lead {min(item['gaps'])}, "
              f"{item['output_text'][:60]!r}", flush=True)
    out = GOLDENS / "smollm2-135m"
    out.mkdir(exist_ok=True)
    np.stack(all_ids).astype("<u2").tofile(out / "top_ids.u16")
    np.stack(all_logprobs).astype("<f4").tofile(out / "top_logprobs.f32")
    head = {"model": "SmolLM2-135M-Instruct Q4_1, dequantised to float32", "source": SOURCE,
            "new_tokens": NEW_TOKENS, "top": TOP, "top_ids": "top_ids.u16",
            "top_logprobs": "top_logprobs.f32"}
    write_lines(out / "golden.json", head, "items", items)


if __name__ == "__main__":
    main()
