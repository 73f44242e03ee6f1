#include "experiments/learners/analysis/singular_values.h"

#include <cmath>

#include "engine/error.h"
#include "engine/ops/linalg.h"

namespace bochner {

SingularValues singular_values(const Tensor& O, const Tensor& mask) {
  if (O.rank() != 4) fail("singular values: O must be (batch, heads, length, dim), got {}", O.shape().str());
  const int64_t batch = O.size(0);
  const int64_t length = O.size(2);
  const int64_t columns = O.size(1) * O.size(3);
  if (mask.defined() && (mask.rank() != 2 || mask.size(0) != batch || mask.size(1) != length)) {
    fail("singular values: of {} the mask must be ({}, {}), got {}", O.shape().str(), batch, length,
         mask.shape().str());
  }
  const Tensor rows = O.to(Device::cpu()).cast(DType::f64).transpose(1, 2).contiguous();  // (B, L, H, D)
  const std::vector<uint8_t> real = mask.defined() ? mask.to(Device::cpu()).cast(DType::u8).to_vector<uint8_t>()
                                                   : std::vector<uint8_t>(static_cast<size_t>(batch * length), 1);
  SingularValues result;
  result.values.assign(static_cast<size_t>(columns), 0);
  for (int64_t b = 0; b < batch; ++b) {
    std::vector<double> kept;
    int64_t tokens = 0;
    for (int64_t i = 0; i < length; ++i) {
      if (real[static_cast<size_t>(b * length + i)] == 0) continue;
      const double* const row = rows.data<double>() + (b * length + i) * columns;
      kept.insert(kept.end(), row, row + columns);
      ++tokens;
    }
    if (tokens == 0) continue;
    const std::vector<double> s = svd(Tensor::from(kept, {tokens, columns})).s.to_vector<double>();
    if (!(s.front() > 0)) continue;
    double sum = 0;
    double entropy = 0;
    for (const double value : s) sum += value;
    for (size_t k = 0; k < s.size(); ++k) {
      result.values[k] += s[k] / s.front();
      if (s[k] > 0) entropy -= s[k] / sum * std::log(s[k] / sum);
    }
    result.effective_rank += std::exp(entropy);
    ++result.sequences;
  }
  const auto count = static_cast<double>(std::max<int64_t>(result.sequences, 1));
  for (double& value : result.values) value /= count;
  result.effective_rank /= count;
  return result;
}

}  // namespace bochner
