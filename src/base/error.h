// The one error type of the project, and the check for broken invariants.
#pragma once

#include <stdexcept>
#include <string>

namespace tandem {

// What kind of failure it is. The wire status of each is in api/errors.def.
enum class ErrorCode {
  kInvalid,        // an argument or a request field is wrong
  kUnsupported,    // understood, and refused because it cannot be honoured
  kNotFound,       // no such model, route or object
  kContextLength,  // the prompt does not fit into the context
  kTooLarge,       // a body or a file is over its limit
  kUnauthorized,   // no key, or a wrong one
  kQueueFull,      // too many requests wait already
  kUnavailable,    // not ready: loading, draining or failed
  kPoolExhausted,  // no page or state slot is free
  kMemory,         // does not fit into the memory budget
  kLoad,           // a model file is missing, truncated, corrupt or unknown
  kCancelled,      // the client or the caller gave up
  kInternal,       // our fault
};

// Thrown for everything that a caller can meet. The message says what was
// wrong, where, and what would be right. `param` names the request field, if
// there is one ("messages[0].content"). Broken invariants abort instead.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message, std::string param = {})
      : std::runtime_error(message), code_(code), param_(std::move(param)) {}

  ErrorCode code() const { return code_; }
  const std::string& param() const { return param_; }

 private:
  ErrorCode code_;
  std::string param_;
};

// Prints the broken invariant with its place and aborts.
[[noreturn]] void invariant_failed(const char* what, const char* file, int line);

}  // namespace tandem

// A condition that only a bug of ours can break; on in every build.
#define INVARIANT(condition) \
  ((condition) ? (void)0 : ::tandem::invariant_failed(#condition, __FILE__, __LINE__))
