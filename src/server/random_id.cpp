#include "server/random_id.h"

#include <cstdio>
#include <random>

namespace tandem::server {

uint64_t random_u64() {
  thread_local std::mt19937_64 generator = [] {
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device()};
    return std::mt19937_64(seed);
  }();
  return generator();
}

std::string random_hex() {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(random_u64()));
  return text;
}

}  // namespace tandem::server
