// Some examples of a data set, as a data set of their own.
//
//   spread_sample(imdb, 200)    200 examples spread evenly: the first 200 of a sorted set would all be of one class
//   examples_of(pairs, 1)       those of class 1
#pragma once

#include <algorithm>
#include <memory>

#include "datasets/dataset.h"

namespace bochner {

/// The examples of a data set at these places, in this order.
class Subset final : public Dataset {
 public:
  Subset(std::shared_ptr<const Dataset> whole, std::vector<int64_t> places)
      : whole_(std::move(whole)), places_(std::move(places)) {}

  const std::string& name() const override { return whole_->name(); }
  int64_t size() const override { return std::ssize(places_); }
  int sequences() const override { return whole_->sequences(); }
  int64_t length(int64_t example, int sequence) const override { return whole_->length(place_of(example), sequence); }
  void copy_tokens(int64_t example, int sequence, std::span<int64_t> ids) const override {
    whole_->copy_tokens(place_of(example), sequence, ids);
  }
  int64_t label(int64_t example) const override { return whole_->label(place_of(example)); }

 private:
  int64_t place_of(int64_t example) const {
    BOCHNER_ASSERT(example >= 0 && example < size());
    return places_[static_cast<size_t>(example)];
  }

  std::shared_ptr<const Dataset> whole_;
  std::vector<int64_t> places_;
};

/// Examples 0, n / count, 2 n / count ... (rounded down) of the n of a data set; all of them where count is n or more.
inline std::shared_ptr<const Dataset> spread_sample(std::shared_ptr<const Dataset> whole, int64_t count) {
  const int64_t most = std::min(count, whole->size());
  std::vector<int64_t> places;
  for (int64_t i = 0; i < most; ++i) places.push_back(i * whole->size() / most);
  return std::make_shared<const Subset>(std::move(whole), std::move(places));
}

/// Those of one class. An Error if there are none.
inline std::shared_ptr<const Dataset> examples_of(std::shared_ptr<const Dataset> whole, int64_t label) {
  std::vector<int64_t> places;
  for (int64_t i = 0; i < whole->size(); ++i) {
    if (whole->label(i) == label) places.push_back(i);
  }
  if (places.empty()) fail("{}: there are no examples of class {}", whole->name(), label);
  return std::make_shared<const Subset>(std::move(whole), std::move(places));
}

}  // namespace bochner
