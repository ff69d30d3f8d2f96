"""What the golden makers share: the reference forward pass and how a golden is written."""

import json
import os
import pathlib

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import numpy as np
import torch
import transformers

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

GOLDENS = pathlib.Path(__file__).resolve().parent.parent
TINY = GOLDENS / "tiny"
MODELS = pathlib.Path("~/.cache/tandem/models").expanduser()
TORCH = torch.__version__.split("+")[0]
SOURCE = f"transformers {transformers.__version__}, torch {TORCH}, float32, CPU"

PROMPT_LENGTHS = (1, 5, 17, 40)
GREEDY_TOKENS = 16
# A case is redrawn until every greedy choice leads by this much, so that rounding cannot flip it.
GAP_MIN = 0.02


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write_lines(path, head, key, items, ascii_only=False):
    """Writes {**head, key: items} with one item on each line."""
    def dump(value):
        return json.dumps(value, ensure_ascii=ascii_only)
    fields = "".join(f" {dump(k)}: {dump(v)},\n" for k, v in head.items())
    lines = ",\n".join(f"  {dump(i)}" for i in items)
    path.write_text(f"{{\n{fields} {dump(key)}: [\n{lines}\n ]\n}}\n", encoding="utf-8")


@torch.no_grad()
def logits_of(model, ids):
    """Logits [len(ids), V] of one sequence, each position attending to all before it."""
    return model(torch.tensor([ids]), use_cache=False).logits[0].float()


def greedy(model, prompt, count):
    """The `count` ids of greedy decoding (EOS does not stop it), and each one's lead in logits."""
    ids, gaps = list(prompt), []
    for _ in range(count):
        top = logits_of(model, ids)[-1].topk(2)
        ids.append(int(top.indices[0]))
        gaps.append(round(float(top.values[0] - top.values[1]), 4))
    return ids[len(prompt):], gaps


def random_case(model, rng, vocab_size, length):
    for _ in range(200):
        prompt = rng.integers(3, vocab_size, length).tolist()
        ids, gaps = greedy(model, prompt, GREEDY_TOKENS)
        if min(gaps) >= GAP_MIN and len(set(ids)) > 3:
            return prompt, ids, gaps
    raise SystemExit(f"no prompt of length {length} with leads of {GAP_MIN} was found")


def write_tiny_golden(directory, model, seed, weights, lengths=PROMPT_LENGTHS):
    """Writes golden.json and golden.bin beside a tiny model's files.

    golden.bin: float32 little endian, the logits [rows, V] of each case one after another.
    """
    model.eval()
    rng = np.random.default_rng(seed)
    vocab_size = model.config.vocab_size
    cases, blocks, offset = [], [], 0
    for length in lengths:
        prompt, ids, gaps = random_case(model, rng, vocab_size, length)
        logits = logits_of(model, prompt).numpy().astype("<f4")
        cases.append({"prompt_ids": prompt, "logits_offset": offset, "logits_rows": length,
                      "greedy_ids": ids, "greedy_gaps": gaps})
        blocks.append(logits)
        offset += logits.size
    flat = np.concatenate(blocks)
    flat.tofile(directory / "golden.bin")
    head = {"source": SOURCE, "weights": weights, "vocab_size": vocab_size,
            "logits_file": "golden.bin"}
    write_lines(directory / "golden.json", head, "cases", cases)
    size = sum(f.stat().st_size for f in directory.iterdir())
    print(f"{directory.name}: {size / 1e3:.0f} kB, logits std {flat.std():.2f}, "
          f"least lead {min(min(c['greedy_gaps']) for c in cases):.3f}")


def fill_random(model, seed, tied=2.5):
    """Random weights large enough that attention, MLP and position all move the logits.

    tied: size of a tied embedding, small enough that the model does more than repeat its input.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator)
            if "norm" in name:  # around what it is made with: 1, or 0 where 1 is added
                p.copy_(p.mean().round() + 0.2 * noise)
            elif name.endswith("bias"):
                p.copy_(0.5 * noise)
            elif "embed_tokens" in name and model.config.tie_word_embeddings:
                p.copy_(noise * tied / p.shape[-1] ** 0.5)
            elif "embed_tokens" in name:
                p.copy_(noise)
            elif "q_proj" in name or "k_proj" in name:
                p.copy_(noise * 1.7 / p.shape[-1] ** 0.5)
            else:
                p.copy_(noise * 2.0 / p.shape[-1] ** 0.5)
