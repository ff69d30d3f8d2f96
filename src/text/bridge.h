// RAII and errors for the C functions of bridge/tandem_bridge.h. Only the
// sources of this room include it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "tandem_bridge.h"

namespace tandem::bridge {

inline tb_str str(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// An array the bridge allocated, freed by `Free`.
template <class Raw, void (*Free)(Raw*)>
class Owned {
 public:
  Owned() = default;
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() { Free(&raw_); }

  Raw* out() { return &raw_; }
  const Raw& get() const { return raw_; }

 private:
  Raw raw_{};
};

using Buffer = Owned<tb_buffer, tb_buffer_free>;
using Ids = Owned<tb_ids, tb_ids_free>;

inline std::string text(const Buffer& buffer) {
  return {reinterpret_cast<const char*>(buffer.get().data), buffer.get().size};
}

inline std::vector<int32_t> ids(const Ids& owned) {
  return {owned.get().data, owned.get().data + owned.get().size};
}

// Throws Error unless `status` is TB_OK. `invalid` is what TB_INVALID means to
// the caller: kLoad for a file, kInvalid for a request.
inline void check(tb_status status, const Buffer& error, ErrorCode invalid) {
  switch (status) {
    case TB_OK: return;
    case TB_UNSUPPORTED:
      throw Error(invalid == ErrorCode::kLoad ? ErrorCode::kLoad : ErrorCode::kUnsupported,
                  text(error));
    case TB_INVALID:
    case TB_BUDGET: throw Error(invalid, text(error));
    case TB_INTERNAL: break;
  }
  throw Error(ErrorCode::kInternal, text(error));
}

template <class Handle, void (*Free)(Handle*)>
struct Deleter {
  void operator()(Handle* handle) const { Free(handle); }
};

}  // namespace tandem::bridge
