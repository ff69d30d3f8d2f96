// Stop strings in text that arrives in pieces.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem {

// Finds the first stop string to become complete; of several that end at the
// same place the longest. Text before it is delivered, the stop string and
// what follows is not. The result does not depend on how the text is cut.
// Time is linear in the text. Method: Aho and Corasick, CACM 18(6), 1975.
// One thread at a time.
class StopMatcher {
 public:
  struct Result {
    std::string text;      // safe to deliver
    bool matched = false;  // from now on no text comes any more
    size_t which = 0;      // index of the stop string, if matched
  };

  // Throws kInvalid naming stop[i] if one is empty. None at all is fine.
  explicit StopMatcher(std::vector<std::string> stops);

  // Holds back the longest end of the text that may begin a stop string.
  Result push(std::string_view text);

  // The text held back, now that no more comes.
  Result flush();

 private:
  static constexpr int32_t kNone = -1;

  struct Node {
    std::vector<std::pair<char, int32_t>> next;
    int32_t fallback = 0;  // node of the longest proper end that begins a stop
    int32_t stop = kNone;  // longest stop string that ends here
    size_t depth = 0;
  };

  int32_t child(int32_t node, char byte) const;
  int32_t step(int32_t node, char byte) const;
  void insert(size_t which);
  void link();

  std::vector<std::string> stops_;
  std::vector<Node> nodes_;
  int32_t state_ = 0;
  std::string held_;  // its size is the depth of the state
  bool matched_ = false;
  size_t which_ = 0;
};

}  // namespace tandem
