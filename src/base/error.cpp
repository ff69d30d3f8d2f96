#include "base/error.h"

#include <cstdio>
#include <cstdlib>

namespace tandem {

void invariant_failed(const char* what, const char* file, int line) {
  std::fprintf(stderr, "tandem: broken invariant `%s` at %s:%d\n", what, file, line);
  std::abort();
}

}  // namespace tandem
