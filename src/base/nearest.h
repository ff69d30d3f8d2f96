// The name that somebody probably meant.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tandem {

// The candidate with the smallest edit distance (insert, delete, replace), the
// first on ties; empty when there are no candidates.
std::string nearest_name(std::string_view name, std::span<const std::string> candidates);

}  // namespace tandem
