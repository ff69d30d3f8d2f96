#include "base/error.h"

#include <doctest/doctest.h>

using namespace tandem;

TEST_CASE("an error carries its code, its message and the field it is about") {
  Error error(ErrorCode::kInvalid, "temperature must be at least 0, got -1", "temperature");
  CHECK(error.code() == ErrorCode::kInvalid);
  CHECK(std::string(error.what()) == "temperature must be at least 0, got -1");
  CHECK(error.param() == "temperature");
}
