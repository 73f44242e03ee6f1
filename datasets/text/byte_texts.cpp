#include "datasets/text/byte_texts.h"

#include <algorithm>

namespace bochner::text {

ByteTexts::ByteTexts(std::string name, std::shared_ptr<const Texts> texts, std::vector<int64_t> which,
                     std::vector<int32_t> labels, int sequences)
    : name_(std::move(name)),
      texts_(std::move(texts)),
      which_(std::move(which)),
      labels_(std::move(labels)),
      sequences_(sequences) {
  BOCHNER_ASSERT(sequences_ > 0);
  BOCHNER_ASSERT(which_.size() == labels_.size() * static_cast<size_t>(sequences_));
  for (const int64_t i : which_) BOCHNER_ASSERT(i >= 0 && i < texts_->count());
}

void ByteTexts::check(int64_t example) const {
  if (example < 0 || example >= size()) fail("{}: example {} lies outside 0 ... {}", name_, example, size() - 1);
}

int64_t ByteTexts::number(int64_t example, int sequence) const {
  check(example);
  BOCHNER_ASSERT(sequence >= 0 && sequence < sequences_);
  return which_[static_cast<size_t>(example * sequences_ + sequence)];
}

std::string_view ByteTexts::text(int64_t example, int sequence) const { return (*texts_)[number(example, sequence)]; }

void ByteTexts::copy_tokens(int64_t example, int sequence, std::span<int64_t> ids) const {
  const std::string_view from = text(example, sequence);
  BOCHNER_ASSERT(ids.size() <= from.size());
  std::transform(from.begin(), from.begin() + std::ssize(ids), ids.begin(),
                 [](char byte) { return static_cast<int64_t>(static_cast<unsigned char>(byte)) + 1; });
}

int64_t ByteTexts::label(int64_t example) const {
  check(example);
  return labels_[static_cast<size_t>(example)];
}

}  // namespace bochner::text
