#include "backend/mlx/kv_pool.h"

#include <algorithm>

namespace tandem::mlx_backend {
namespace {

mx::Dtype plane_type(KvCodec codec) {
  switch (codec) {
    case KvCodec::kF32: return mx::float32;
    case KvCodec::kF16: return mx::float16;
    case KvCodec::kBF16: return mx::bfloat16;
    case KvCodec::kQ8:
    case KvCodec::kQ4: break;
  }
  throw Error(ErrorCode::kUnsupported, std::string("[make_kv_store] the mlx backend keeps keys and "
                                                   "values as f32, f16 or bf16, not as ") +
                                           kv_codec_name(codec));
}

mx::array put(mx::array plane, const mx::array& page, const mx::array& slot,
              const mx::array& rows) {
  const mx::Shape shape = {rows.shape(0), 1, 1, rows.shape(1), rows.shape(2)};
  const mx::array updates = mx::reshape(mx::astype(rows, plane.dtype()), shape);
  return mx::scatter(plane, {page, slot}, updates, {0, 1});
}

}  // namespace

MlxKvStore::MlxKvStore(const KvSpec& spec, std::shared_ptr<LiveStores> live)
    : spec_(spec), live_(std::move(live)) {
  const mx::Dtype type = plane_type(spec.codec);
  for (int layer = 0; layer < spec.layers; ++layer) {
    planes_.push_back(mx::zeros({0, kPageTokens, spec.kv_heads, spec.k_dim}, type));
    planes_.push_back(mx::zeros({0, kPageTokens, spec.kv_heads, spec.v_dim}, type));
  }
  live_->stores.push_back(this);
}

MlxKvStore::~MlxKvStore() { std::erase(live_->stores, this); }

void MlxKvStore::grow(int64_t pages) {
  if (pages <= pages_) return;
  try {
    for (mx::array& plane : planes_) {  // one at a time: only one exists twice
      mx::Shape extra = plane.shape();
      extra[0] = dim(pages) - plane.shape(0);
      const mx::array fresh = mx::zeros(extra, plane.dtype());
      mx::array grown = plane.shape(0) == 0 ? fresh : mx::concatenate({plane, fresh}, 0);
      mx::eval(grown);
      plane = std::move(grown);
    }
    mx::clear_cache();
  } catch (const std::exception& error) {
    throw Error(ErrorCode::kPoolExhausted, "[grow] no memory for " + std::to_string(pages) +
                                               " pages of keys and values: " + error.what());
  }
  pages_ = pages;
}

void MlxKvStore::copy_page(int32_t from, int32_t to) {
  INVARIANT(from >= 0 && from < pages_ && to >= 0 && to < pages_);
  guarded("copy_page", [&] {
    std::vector<mx::array> copies;
    const mx::array source({from});
    for (const mx::array& plane : planes_) copies.push_back(mx::take(plane, source, 0));
    mx::eval(copies);  // before the writes, which would copy the plane while it is read
    for (size_t i = 0; i < planes_.size(); ++i) {
      mx::Shape shape = copies[i].shape();
      shape.insert(shape.begin(), 1);
      planes_[i] = mx::scatter(planes_[i], mx::array({to}), mx::reshape(copies[i], shape), 0);
    }
  });
}

void MlxKvStore::write(int layer, const mx::array& page, const mx::array& slot, const mx::array& k,
                       const mx::array& v) {
  for (int plane = 0; plane < 2; ++plane) {
    mx::array& target = planes_[2 * layer + plane];
    target = put(target, page, slot, plane == 0 ? k : v);
  }
}

void MlxKvStore::append_pending(std::vector<mx::array>& arrays) const {
  for (const mx::array& plane : planes_) {
    if (plane.status() == mx::array::Status::unscheduled) arrays.push_back(plane);
  }
}

}  // namespace tandem::mlx_backend
