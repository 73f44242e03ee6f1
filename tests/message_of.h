// The message of an Error.
#pragma once

#include <string>

#include "engine/error.h"

namespace bochner::test {

/// The message of the Error that f throws, or `no error`. Other exceptions are passed on.
template <class F>
std::string message_of(const F& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace bochner::test
