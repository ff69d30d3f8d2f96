#include "base/nearest.h"

#include <doctest/doctest.h>

#include <vector>

using namespace tandem;

TEST_CASE("the nearest name is the one with the fewest edits") {
  const std::vector<std::string> names = {"--host", "--port", "--prompt"};
  CHECK(nearest_name("--prot", names) == "--port");
  CHECK(nearest_name("--promt", names) == "--prompt");
  CHECK(nearest_name("", names) == "--host");
  CHECK(nearest_name("x", {}).empty());
}
