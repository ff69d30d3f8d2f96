#include "server/api_key.h"

#include <cctype>

namespace tandem::server {
namespace {

std::string_view given_key(const HttpRequest& request) {
  constexpr std::string_view kScheme = "bearer ";
  const auto authorization = request.header("authorization");
  if (authorization.size() <= kScheme.size()) return request.header("x-api-key");
  for (size_t i = 0; i < kScheme.size(); ++i)
    if (std::tolower(static_cast<unsigned char>(authorization[i])) != kScheme[i])
      return request.header("x-api-key");
  return authorization.substr(kScheme.size());
}

bool same(std::string_view given, std::string_view key) {
  unsigned difference = given.size() == key.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i)
    difference |= static_cast<unsigned char>(given[i] ^ key[i % key.size()]);
  return difference == 0;
}

}  // namespace

void check_api_key(const HttpRequest& request, const std::string& api_key) {
  if (api_key.empty()) return;
  const auto given = given_key(request);
  if (given.empty())
    throw Error(ErrorCode::kUnauthorized,
                "an API key is required: send \"Authorization: Bearer KEY\"");
  if (!same(given, api_key)) throw Error(ErrorCode::kUnauthorized, "the API key is not valid");
}

}  // namespace tandem::server
