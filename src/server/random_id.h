// Random names and seeds; nothing depends on them being unguessable.
#pragma once

#include <cstdint>
#include <string>

namespace tandem::server {

uint64_t random_u64();

// 16 hex digits.
std::string random_hex();

}  // namespace tandem::server
