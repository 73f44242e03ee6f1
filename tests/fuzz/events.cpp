// Any bytes as an event file: first as they are, then as the contents of a whole record, which checksums would protect.
#include "tests/experiments/events.h"

#include "tests/fuzz/fuzz.h"

using namespace bochner;  // NOLINT: a program of its own

namespace {

void read(Bytes bytes) {
  const test::Events events = test::parse_events(bytes);
  fuzz::must(events.events.size() == events.ends.size(), "an end to each event");
  int64_t end = 0;
  for (const int64_t next : events.ends) {
    fuzz::must(next > end, "records follow one another");
    end = next;
  }
  fuzz::must(end <= static_cast<int64_t>(bytes.size()), "records lie in the file");
}

template <class U>
std::string little(U value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  read(fuzz::input(data, size));
  const std::string_view contents = text_of(fuzz::input(data, size));
  const std::string length = little(static_cast<uint64_t>(size));
  const std::string record =
      length + little(masked_crc32c(length)) + std::string(contents) + little(masked_crc32c(contents));
  read(bytes_of(record));
  read(bytes_of(record + record));
  return 0;
}
