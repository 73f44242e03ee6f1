#include "datasets/listops/tokenizer.h"

#include <array>

#include "engine/io/bytes.h"

namespace bochner::listops {
namespace {

constexpr uint8_t kFirstDigit = 1;
constexpr uint8_t kEnd = 15;
constexpr std::array<std::string_view, 16> kTokens = {"<pad>", "0", "1", "2",    "3",    "4",    "5",   "6",
                                                      "7",     "8", "9", "[MAX", "[MED", "[MIN", "[SM", "]"};

/// The id of the operator that `text` begins with, 0 if none.
uint8_t operator_id(std::string_view text) {
  for (uint8_t id = 11; id < kEnd; ++id) {
    if (text.starts_with(kTokens[id])) return id;
  }
  return 0;
}

}  // namespace

int64_t vocabulary_size(Tokenisation tokenisation) { return tokenisation == Tokenisation::fixed ? 16 : 15; }

std::string_view token(int64_t id, Tokenisation tokenisation) {
  if (id < 0 || id >= vocabulary_size(tokenisation)) {
    fail("listops: id {} lies outside 0 ... {} of the tokenisation {}", id, vocabulary_size(tokenisation) - 1,
         text_of(kTokenisations, tokenisation));
  }
  std::string_view text = kTokens[static_cast<size_t>(id)];
  if (tokenisation == Tokenisation::released && text.starts_with('[')) text.remove_prefix(1);
  return text;
}

void encode(std::string_view text, Tokenisation tokenisation, int64_t max_length, std::vector<uint8_t>& ids,
            const Place& place) {
  const auto refuse = [&](size_t at, std::string_view why) {
    place.fail_at(at, "{} {}", shown(text.substr(at, 8)), why);
  };
  if (text.empty()) place.fail_at(0, "there is no expression here");
  int64_t count = 0;
  for (size_t at = 0;;) {
    uint8_t id = 0;
    size_t size = 1;
    const char c = text[at];
    if (c >= '0' && c <= '9') {
      id = static_cast<uint8_t>(kFirstDigit + (c - '0'));
    } else if (c == ']') {
      id = tokenisation == Tokenisation::fixed ? kEnd : 0;
    } else if (c == '[') {
      id = operator_id(text.substr(at));
      if (id == 0) refuse(at, "begins no operator of ListOps");
      size = kTokens[id].size();
    } else if (c != '(' && c != ')') {
      refuse(at, "begins no token of ListOps");
    }
    if (id != 0 && count < max_length) {
      ids.push_back(id);
      ++count;
    }
    at += size;
    if (at == text.size()) break;
    if (text[at] != ' ') refuse(at, "should be a blank or the end of the text");
    if (++at == text.size()) place.fail_at(at - 1, "a blank at the end of the text");
  }
  if (count == 0 && max_length > 0) place.fail_at(0, "{} has no token that a model reads", shown(text.substr(0, 8)));
}

}  // namespace bochner::listops
