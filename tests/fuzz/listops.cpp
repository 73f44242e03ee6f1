// Any text as a ListOps expression. What has a value consists of tokens that have the same value in prefix form.
#include "datasets/listops/tokenizer.h"

#include "tests/fuzz/fuzz.h"

using namespace bochner;  // NOLINT: a program of its own

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = text_of(fuzz::input(data, size));
  const listops::Place place = {.file = "fuzz"};
  std::vector<uint8_t> fixed, released;
  int value = -1;
  fuzz::may_refuse([&] { value = listops::evaluate(text, place); });
  fuzz::may_refuse([&] {
    encode(text, listops::Tokenisation::fixed, 100, fixed, place);
    encode(text, listops::Tokenisation::released, 100, released, place);
    fuzz::must(fixed.size() <= 100 && released.size() <= fixed.size(), "brackets take tokens, no more than asked");
  });
  if (value < 0) return 0;
  fuzz::must(value <= 9, "a value is a digit");
  fuzz::must(!released.empty(), "an expression is made of tokens");
  return 0;
}
