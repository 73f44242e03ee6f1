// Errors. `Error` is the caller's mistake and ends in one readable line; `InternalError` is a bug in Bochner.
//
//   fail("matmul: {} x {}: inner sizes {} and {} differ", a.shape(), b.shape(), k, l);
//   -> matmul: (2, 8, 128, 64) x (2, 8, 32, 128): inner sizes 64 and 32 differ [encoder.2.attention]
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <string_view>

namespace bochner {

/// The caller's mistake: what was wrong, where, and what to do. The message ends with the module path, if any.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message);
};

/// A broken invariant of Bochner; the message names file and line. Please report it.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// Names the part of the program that is running, for error messages, NaN reports and traces.
/// Scopes nest on the stack of each thread: `Scope a("encoder"); Scope b("2");` makes the path `encoder.2`.
class Scope {
 public:
  explicit Scope(std::string_view name);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  /// The dotted path of all open scopes of this thread, empty at the top.
  static std::string path();

 private:
  std::string_view name_;
  const Scope* outer_;
};

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

[[noreturn]] void internal_failure(const char* condition, const char* file, int line);

/// Checks an invariant of Bochner; for a caller's mistake, use `fail` instead.
#define BOCHNER_ASSERT(condition) \
  ((condition) ? static_cast<void>(0) : ::bochner::internal_failure(#condition, __FILE__, __LINE__))

}  // namespace bochner
