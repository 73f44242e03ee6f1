// Whether a program may take fewer examples than were published.
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
  /// The option's name for messages; after field() was called, as the user of a program has to type it.
  std::string option = "the option partial";

  /// Adds it to the options of a program.
  template <class Fields>
  void field(Fields& f, std::string help) {
    option = "--" + f("partial", taken, std::move(help)).name();
  }
};

}  // namespace bochner
