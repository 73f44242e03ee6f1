// Some examples of a data set, spread evenly over it: the first ones would be of one class where a set is sorted by
// class, as IMDb is.
#pragma once

#include <algorithm>
#include <memory>

#include "datasets/dataset.h"

namespace bochner {

/// Examples 0, n / count, 2 n / count ... (rounded down) of the n of a data set; all of them where count is n or more.
class SpreadSample final : public Dataset {
 public:
  SpreadSample(std::shared_ptr<const Dataset> whole, int64_t count)
      : whole_(std::move(whole)), count_(std::min(count, whole_->size())) {}

  const std::string& name() const override { return whole_->name(); }
  int64_t size() const override { return count_; }
  int sequences() const override { return whole_->sequences(); }
  int64_t length(int64_t example, int sequence) const override { return whole_->length(place_of(example), sequence); }
  void copy_tokens(int64_t example, int sequence, std::span<int64_t> ids) const override {
    whole_->copy_tokens(place_of(example), sequence, ids);
  }
  int64_t label(int64_t example) const override { return whole_->label(place_of(example)); }

 private:
  int64_t place_of(int64_t example) const {
    BOCHNER_ASSERT(example >= 0 && example < count_);
    return example * whole_->size() / count_;
  }

  std::shared_ptr<const Dataset> whole_;
  int64_t count_;
};

}  // namespace bochner
