// From the names of GGUF files to those of Hugging Face.
#pragma once

#include <string>
#include <string_view>

namespace tandem {

// "blk.3.attn_q.weight" -> "model.layers.3.self_attn.q_proj.weight". A name that
// is not known stays as it is.
//   architecture: general.architecture; Gemma has norms of its own around the MLP
std::string gguf_to_hf_name(std::string_view name, std::string_view architecture);

// Files of these architectures hold the rows of each q and k head with rotary
// pairs side by side (2i, 2i+1) where Hugging Face has halves (i, i + dims/2).
bool gguf_permutes_qk(std::string_view architecture);

// Files of these architectures hold norm weights as 1 + w where Hugging Face has w.
bool gguf_adds_one_to_norms(std::string_view architecture);

}  // namespace tandem
