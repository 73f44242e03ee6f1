// Any text as a manifest. What is read can be written, and is read back the same.
#include "datasets/manifest.h"

#include "tests/fuzz/fuzz.h"

using namespace bochner;  // NOLINT: a program of its own

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::may_refuse([&] {
    const Manifest manifest = parse_manifest(text_of(fuzz::input(data, size)), "fuzz");
    fuzz::must(parse_manifest(format_manifest(manifest), "fuzz") == manifest, "a manifest survives a round trip");
  });
  return 0;
}
