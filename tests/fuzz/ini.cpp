// Any text as an INI file. What is read can be written, and is read back the same.
#include "experiments/common/config/ini.h"

#include "tests/fuzz/fuzz.h"

using namespace bochner;  // NOLINT: a program of its own

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::may_refuse([&] {
    const std::vector<IniEntry> entries = parse_ini(text_of(fuzz::input(data, size)), "fuzz");
    std::string text;
    for (const IniEntry& entry : entries) text += entry.name + " = " + ini_value(entry.value) + "\n";
    const std::vector<IniEntry> again = parse_ini(text, "fuzz");
    fuzz::must(again.size() == entries.size(), "as many entries");
    for (size_t i = 0; i < again.size(); ++i) {
      fuzz::must(again[i].name == entries[i].name && again[i].value == entries[i].value, "the same entries");
    }
  });
  return 0;
}
