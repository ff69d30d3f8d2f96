#include "backend/mlx/kv_pool.h"

#include <algorithm>
#include <cstring>

namespace tandem::mlx_backend {
namespace {

// rows [n, heads, *] into pages and slots of a part.
mx::array put(const mx::array& part, const mx::array& page, const mx::array& slot,
              const mx::array& rows) {
  const mx::Shape shape = {rows.shape(0), 1, 1, rows.shape(1), rows.shape(2)};
  return mx::scatter(part, {page, slot}, mx::reshape(rows, shape), {0, 1});
}

mx::array put_page(const mx::array& part, int32_t page, const mx::array& contents) {
  mx::Shape shape = contents.shape();
  shape.insert(shape.begin(), 1);
  return mx::scatter(part, mx::array({page}), mx::reshape(contents, shape), 0);
}

}  // namespace

MlxKvStore::MlxKvStore(const KvSpec& spec, std::shared_ptr<LiveStores> live)
    : spec_(spec), live_(std::move(live)) {
  check_kv_spec(spec);
  for (const KvSection section : kKvSections) {
    if (section == KvSection::kBase && !spec.has_base_section()) continue;
    for (int layer = 0; layer < spec.layers; ++layer) {
      const KvFormat format =
          section == KvSection::kBase ? KvFormat{spec.base} : spec.format(layer);
      const PlaneFormat k = k_plane_format(format), v = v_plane_format(format);
      of(section).planes.push_back({k, spec.k_dim, empty_parts(k, spec.kv_heads, spec.k_dim)});
      of(section).planes.push_back({v, spec.v_dim, empty_parts(v, spec.kv_heads, spec.v_dim)});
    }
  }
  live_->stores.push_back(this);
}

MlxKvStore::~MlxKvStore() { std::erase(live_->stores, this); }

void MlxKvStore::grow(KvSection section, int64_t pages) {
  Section& grown = of(section);
  INVARIANT(!grown.planes.empty());
  if (pages <= grown.pages) return;
  try {
    for (Plane& plane : grown.planes) {
      for (mx::array& part : plane.parts) {  // one at a time: only one exists twice
        mx::Shape extra = part.shape();
        extra[0] = dim(pages) - part.shape(0);
        const mx::array fresh = mx::zeros(extra, part.dtype());
        mx::array larger = part.shape(0) == 0 ? fresh : mx::concatenate({part, fresh}, 0);
        mx::eval(larger);
        part = std::move(larger);
      }
    }
    mx::clear_cache();
  } catch (const std::exception& error) {
    throw Error(ErrorCode::kPoolExhausted, "[grow] no memory for " + std::to_string(pages) +
                                               " pages of keys and values: " + error.what());
  }
  grown.pages = pages;
}

void MlxKvStore::copy_page(KvSection section, int32_t from, int32_t to) {
  Section& own = of(section);
  INVARIANT(from >= 0 && from < own.pages && to >= 0 && to < own.pages);
  guarded("copy_page", [&] {
    std::vector<mx::array> copies;
    const mx::array source({from});
    for (const Plane& plane : own.planes) {
      for (const mx::array& part : plane.parts) copies.push_back(mx::take(part, source, 0));
    }
    mx::eval(copies);  // before the writes, which would copy the plane while it is read
    size_t next = 0;
    for (Plane& plane : own.planes) {
      for (mx::array& part : plane.parts) part = put_page(part, to, copies[next++]);
    }
  });
}

void MlxKvStore::read_page(KvSection section, int32_t page, std::span<std::byte> out) const {
  const Section& own = of(section);
  INVARIANT(page >= 0 && page < own.pages && std::ssize(out) == page_bytes(section));
  guarded("read_page", [&] {
    for (const Plane& plane : own.planes) {
      for (const mx::array& part : plane.parts) {
        // As bytes on the CPU: floats would be converted on the way.
        mx::array bytes = mx::view(mx::take(part, mx::array({page}), 0), mx::uint8);
        bytes = mx::contiguous(bytes);
        mx::eval(bytes);
        std::memcpy(out.data(), bytes.data<uint8_t>(), bytes.nbytes());
        out = out.subspan(bytes.nbytes());
      }
    }
  });
}

void MlxKvStore::write_page(KvSection section, int32_t page, std::span<const std::byte> in) {
  Section& own = of(section);
  INVARIANT(page >= 0 && page < own.pages && std::ssize(in) == page_bytes(section));
  guarded("write_page", [&] {
    for (Plane& plane : own.planes) {
      for (mx::array& part : plane.parts) {
        mx::Shape shape = part.shape();
        shape[0] = 1;
        const size_t elements = part.size() / static_cast<size_t>(part.shape(0));
        const size_t bytes = elements * part.itemsize();
        const int width = shape.back() * static_cast<int>(part.itemsize());
        const mx::array raw(reinterpret_cast<const uint8_t*>(in.data()),
                            {shape[0], shape[1], shape[2], width}, mx::uint8);
        part = put_page(part, page, mx::view(raw, part.dtype()));
        in = in.subspan(bytes);
      }
    }
  });
}

void MlxKvStore::write(KvSection section, int layer, const mx::array& page, const mx::array& slot,
                       const mx::array& k, const mx::array& v) {
  for (int which = 0; which < 2; ++which) {
    Plane& plane = of(section).planes[2 * layer + which];
    const std::vector<mx::array> rows = encode(which == 0 ? k : v, plane.format);
    for (size_t i = 0; i < rows.size(); ++i) {
      plane.parts[i] = put(plane.parts[i], page, slot, rows[i]);
    }
  }
}

void MlxKvStore::append_pending(std::vector<mx::array>& arrays) const {
  for (const Section& section : sections_) {
    for (const Plane& plane : section.planes) {
      for (const mx::array& part : plane.parts) {
        if (part.status() == mx::array::Status::unscheduled) arrays.push_back(part);
      }
    }
  }
}

}  // namespace tandem::mlx_backend
