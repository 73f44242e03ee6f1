// The input as an archive: all its files are read, then only their names, which must be the same.
#include "engine/io/archive.h"

#include "tests/fuzz/fuzz.h"

using namespace bochner;  // NOLINT: a program of its own

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Bytes bytes = fuzz::input(data, size);
  fuzz::may_refuse([&] {
    std::vector<std::string> names;
    ArchiveReader archive(std::make_unique<MemorySource>(bytes, "fuzz"));
    while (archive.next()) {
      names.push_back(archive.name());
      const std::vector<std::byte> content = archive.read(1 << 20);
      fuzz::must(!archive.size() || *archive.size() == static_cast<int64_t>(content.size()), "sizes are told right");
    }
    ArchiveReader again(std::make_unique<MemorySource>(bytes, "fuzz"));
    for (const std::string& name : names) fuzz::must(again.next() && again.name() == name, "names stay the same");
    fuzz::must(!again.next(), "no file is added");
  });
  return 0;
}
