// Common to the fuzz targets. A parser must accept or refuse any bytes: it returns a value or throws Error. Anything
// else, be it another exception, a crash, a hang, a leak or memory out of proportion, is a defect and stops the fuzzer.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>

#include "engine/error.h"
#include "engine/io/bytes.h"
#include "engine/io/elements.h"

namespace bochner::fuzz {

inline Bytes input(const uint8_t* data, size_t size) { return std::as_bytes(std::span(data, size)); }

/// Runs f; an Error is a refusal, and is correct if its message begins with the file.
template <class F>
void may_refuse(F&& f, std::string_view file = "fuzz:") {
  try {
    f();
  } catch (const Error& error) {
    if (std::string_view(error.what()).starts_with(file)) return;
    std::fprintf(stderr, "an Error that does not name the file: %s\n", error.what());
    std::abort();
  }
}

/// What must hold for everything that was accepted.
inline void must(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

inline bool same(const Tensor& a, const Tensor& b) {
  const Bytes left = bytes_of(a);
  const Bytes right = bytes_of(b);
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::equal(left.begin(), left.end(), right.begin(), right.end());
}

}  // namespace bochner::fuzz
