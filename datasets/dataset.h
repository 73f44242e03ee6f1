// A data set: a fixed list of examples. Each has one sequence of token ids (or two, if the task compares texts) and a
// class.
//
//   class Dataset            what a loader, a baseline and an experiment need
//   class PackedDataset<T>   examples end to end in memory, in the smallest type that holds the ids
//
// Ids are the tokenizer's; 0 is padding, and no token of a text is 0. Only the lengths tell whether a position is
// padding, since a black pixel has id 0 and is real.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/error.h"

namespace bochner {

/// Examples 0 ... size() - 1. Never changes, and may be read by several threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;

  /// For messages: `listops train`.
  virtual const std::string& name() const = 0;
  virtual int64_t size() const = 0;
  /// Sequences of one example: 1, or 2 for tasks on pairs.
  virtual int sequences() const { return 1; }
  /// Number of tokens.
  virtual int64_t length(int64_t example, int sequence = 0) const = 0;
  /// Writes the first ids.size() tokens, at most length().
  virtual void copy_tokens(int64_t example, int sequence, std::span<int64_t> ids) const = 0;
  /// The class, from 0.
  virtual int64_t label(int64_t example) const = 0;
};

/// Examples held in memory: sequence s of example i is tokens[offsets[k]] ... tokens[offsets[k + 1] - 1] with
/// k = i * sequences + s. T is uint8_t for vocabularies up to 256, uint16_t, or int32_t.
template <class T>
class PackedDataset final : public Dataset {
 public:
  PackedDataset(std::string name, std::vector<T> tokens, std::vector<int64_t> offsets, std::vector<int32_t> labels,
                int sequences = 1)
      : name_(std::move(name)),
        tokens_(std::move(tokens)),
        offsets_(std::move(offsets)),
        labels_(std::move(labels)),
        sequences_(sequences) {
    BOCHNER_ASSERT(sequences_ > 0);
    BOCHNER_ASSERT(offsets_.size() == labels_.size() * static_cast<size_t>(sequences_) + 1);
    BOCHNER_ASSERT(offsets_.front() == 0 && offsets_.back() == static_cast<int64_t>(tokens_.size()));
    for (size_t k = 1; k < offsets_.size(); ++k) BOCHNER_ASSERT(offsets_[k - 1] <= offsets_[k]);
  }

  const std::string& name() const override { return name_; }
  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  int sequences() const override { return sequences_; }
  int64_t length(int64_t example, int sequence = 0) const override {
    return static_cast<int64_t>(tokens(example, sequence).size());
  }
  void copy_tokens(int64_t example, int sequence, std::span<int64_t> ids) const override {
    const std::span<const T> from = tokens(example, sequence);
    BOCHNER_ASSERT(ids.size() <= from.size());
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(from[i]);
  }
  int64_t label(int64_t example) const override {
    check(example);
    return labels_[static_cast<size_t>(example)];
  }

  /// The tokens in memory.
  std::span<const T> tokens(int64_t example, int sequence = 0) const {
    check(example);
    BOCHNER_ASSERT(sequence >= 0 && sequence < sequences_);
    const auto k = static_cast<size_t>(example * sequences_ + sequence);
    return std::span(tokens_).subspan(static_cast<size_t>(offsets_[k]),
                                      static_cast<size_t>(offsets_[k + 1] - offsets_[k]));
  }
  /// Bytes of all tokens.
  int64_t bytes() const { return static_cast<int64_t>(tokens_.size() * sizeof(T)); }

 private:
  void check(int64_t example) const {
    if (example < 0 || example >= size()) fail("{}: example {} lies outside 0 ... {}", name_, example, size() - 1);
  }

  std::string name_;
  std::vector<T> tokens_;
  std::vector<int64_t> offsets_;
  std::vector<int32_t> labels_;
  int sequences_;
};

}  // namespace bochner
