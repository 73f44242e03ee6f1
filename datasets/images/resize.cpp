#include "datasets/images/resize.h"

#include <algorithm>
#include <cmath>

#include "engine/error.h"

namespace bochner::images {
namespace {

constexpr int kBits = 22;

double weight_at(Filter filter, double t) {
  t = std::abs(t);
  if (filter == Filter::bilinear) return t < 1 ? 1 - t : 0;
  constexpr double a = -0.5;
  if (t < 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
  if (t < 2) return (((t - 5) * t + 8) * t - 4) * a;
  return 0;
}

uint8_t byte_of(int64_t sum) { return static_cast<uint8_t>(std::clamp<int64_t>(sum >> kBits, 0, 255)); }

}  // namespace

Resizer::Resizer(int64_t from, int64_t to, Filter filter) : from_(from), to_(to) {
  if (from < 1 || to < 1) fail("resize: from {} to {} pixels; both must be at least 1", from, to);
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double wide = std::max(1.0, scale);
  const double support = (filter == Filter::bilinear ? 1 : 2) * wide;
  most_ = static_cast<int64_t>(std::ceil(support)) * 2 + 1;
  weight_.resize(static_cast<size_t>(to * most_));
  for (int64_t i = 0; i < to; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const int64_t begin = std::max<int64_t>(0, static_cast<int64_t>(center - support + 0.5));
    const int64_t end = std::min(from, static_cast<int64_t>(center + support + 0.5));
    first_.push_back(begin);
    count_.push_back(end - begin);
    std::vector<double> weights;
    double sum = 0;
    for (int64_t j = begin; j < end; ++j) {
      weights.push_back(weight_at(filter, (static_cast<double>(j) - center + 0.5) * (1 / wide)));
      sum += weights.back();
    }
    for (size_t k = 0; k < weights.size(); ++k) {
      const double units = weights[k] / sum * (1 << kBits);
      weight_[static_cast<size_t>(i * most_) + k] = static_cast<int32_t>(units + (units < 0 ? -0.5 : 0.5));
    }
  }
}

void Resizer::run(const uint8_t* in, int64_t planes, uint8_t* out) const {
  if (from_ == to_) {
    std::copy_n(in, planes * from_ * from_, out);
    return;
  }
  std::vector<uint8_t> rows(static_cast<size_t>(from_ * to_));  // (from, to)
  constexpr int64_t half = int64_t{1} << (kBits - 1);
  for (int64_t p = 0; p < planes; ++p, in += from_ * from_, out += to_ * to_) {
    for (int64_t y = 0; y < from_; ++y) {
      for (int64_t i = 0; i < to_; ++i) {
        const int32_t* const weights = weight_.data() + i * most_;
        const uint8_t* const x = in + y * from_ + first_[static_cast<size_t>(i)];
        int64_t sum = half;
        for (int64_t k = 0; k < count_[static_cast<size_t>(i)]; ++k) sum += int64_t{weights[k]} * x[k];
        rows[static_cast<size_t>(y * to_ + i)] = byte_of(sum);
      }
    }
    for (int64_t i = 0; i < to_; ++i) {
      const int32_t* const weights = weight_.data() + i * most_;
      const uint8_t* const x = rows.data() + first_[static_cast<size_t>(i)] * to_;
      for (int64_t column = 0; column < to_; ++column) {
        int64_t sum = half;
        for (int64_t k = 0; k < count_[static_cast<size_t>(i)]; ++k) sum += int64_t{weights[k]} * x[k * to_ + column];
        out[i * to_ + column] = byte_of(sum);
      }
    }
  }
}

}  // namespace bochner::images
