// The speed of turning text into ids on one thread: `tokenize_speed VOCABULARY TEXT` prints MB/s, with one text per
// line of TEXT. tests/golden/wordpiece.py --speed runs it and Hugging Face's tokenizers in turn.
#include <fmt/format.h>

#include <cstdio>

#include "datasets/tokenizers/wordpiece.h"
#include "engine/error.h"
#include "engine/io/file.h"
#include "engine/stopwatch.h"

int main(int argc, char** argv) {
  using namespace bochner;  // NOLINT: a program, not a header
  try {
    if (argc != 3) fail("Usage: tokenize_speed VOCABULARY TEXT");
    const std::vector<std::byte> bytes = read_file(argv[2]);
    const std::string_view text = text_of(bytes);
    const Wordpiece tokenizer(read_vocabulary(argv[1]));
    const Stopwatch watch;
    Wordpiece::Encoder encoder(tokenizer);
    int64_t count = 0;
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      count += static_cast<int64_t>(
          encoder.encode(text.substr(begin, end - begin), {.special = false, .longest = 0}).ids.size());
      begin = end + 1;
    }
    fmt::print("{:.2f} MB/s, {} ids\n", static_cast<double>(text.size()) / 1e6 / watch.seconds(), count);
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 2;
  }
  return 0;
}
