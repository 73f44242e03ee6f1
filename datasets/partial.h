// Whether fewer examples than the published ones may be taken.
//
//   struct Config {
//     Partial partial;
//     void fields(Fields& f) { partial.field(f, "take fewer images than the published ones"); }
//   };
#pragma once

#include <string>
#include <utility>

namespace bochner {

struct Partial {
  Partial(bool is_taken = false) : taken(is_taken) {}  // NOLINT(google-explicit-constructor): {.partial = true}

  bool taken;
  /// How it is asked for, for messages: as a program's user has to type it, once field() was called.
  std::string option = "the option partial";

  /// Adds it to the options of a program.
  template <class Fields>
  void field(Fields& f, std::string help) {
    option = "--" + f("partial", taken, std::move(help)).name();
  }
};

}  // namespace bochner
