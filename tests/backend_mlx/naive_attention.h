// One attention layer in plain loops over doubles, with all options.
#pragma once

#include <map>

#include "backend_mlx/rig.h"

namespace tandem::test {

struct NaiveLayer {
  int heads = 4, kv_heads = 2, head_dim = 16, v_dim = 16;
  bool k_is_v = false, v_norm = false;
  const Rope* rope = nullptr;
  std::vector<float> q_norm, k_norm, sinks;
  float norm_eps = 1e-6f, scale = 0.3f, softcap = 0;
  int window = 0;
  Matrix weight{0, 0};  // q, k and v rows

  int weight_rows() const {
    return heads * head_dim + kv_heads * head_dim + (k_is_v ? 0 : kv_heads * v_dim);
  }

  // Projects the step's activations, remembers k and v under the row's name and
  // attends.
  Matrix forward(const Matrix& x, const StepOf& step, const std::vector<int>& names);

  // Row `to` becomes a copy of row `from`.
  void fork(int from, int to) { rows_[to] = rows_[from]; }
  void forget() { rows_.clear(); }

 private:
  using Vector = std::vector<double>;
  // Of one token: k and v, all heads.
  struct Entry {
    Vector k, v;
  };
  Vector attend(const Vector& q, int32_t token, const StepOf& step,
                const std::map<int32_t, Entry>& history) const;
  std::map<int, std::map<int32_t, Entry>> rows_;  // by name, by position
};

}  // namespace tandem::test
