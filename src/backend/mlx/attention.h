// Attention over pages in stock ops.
//
// Rows with several tokens are attended one by one over their exact length;
// rows with one token are batched with others of nearly as many pages. All
// indices and masks are made on the host once for a step, group and window, and
// serve every layer.
#pragma once

#include <optional>
#include <vector>

#include "backend/backend.h"
#include "backend/mlx/kv_pool.h"
#include "backend/mlx/numerics.h"

namespace tandem::mlx_backend {

// Which of the step's tokens go to one section, and where: int32 each.
struct WritePlan {
  KvSection section = KvSection::kMain;
  std::optional<mx::array> tokens;  // none = all of the step, in order
  mx::array page;
  mx::array slot;
};

// Some rows of the step that are attended together.
struct AttentionBatch {
  int rows = 0;
  int tokens = 0;                    // of each row
  std::vector<int32_t> tokens_of{};  // index in the step of each, [rows * tokens]
  mx::array token_index;             // the same, int32
  mx::array pages;                   // int32 [rows * pages of each]
  // bool of each page, whether its id is one of the base section; none = none is.
  std::optional<mx::array> in_base;
  int key_begin = 0, key_end = 0;    // of the gathered keys, those that are read
  bool causal = false;               // lower-right causal, no mask array needed
  std::optional<mx::array> mask;     // bool [rows, tokens, keys]; none = all seen
  std::optional<mx::array> written;  // bool [rows, keys]; none = all have been written
};

struct AttentionPlan {
  std::vector<AttentionBatch> batches;
  // Row of the batches' joined outputs for each token, int32 [n]; none = one
  // batch in the step's order.
  std::optional<mx::array> order;
};

std::vector<WritePlan> plan_writes(const Step& step, int group);
AttentionPlan plan_attention(const Step& step, int group, int window);

// q f32 [n, H * head_dim] -> f32 [n, H * v_dim].
mx::array attend(const mx::array& q, const MlxKvStore& store, int layer,
                 const AttentionOptions& options, const std::optional<mx::array>& sinks,
                 const AttentionPlan& plan, const Numerics& numerics);

}  // namespace tandem::mlx_backend
