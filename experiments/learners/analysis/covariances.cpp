#include "experiments/learners/analysis/covariances.h"

#include <algorithm>
#include <cmath>

#include "engine/ops/linalg.h"
#include "engine/ops/matmul.h"

namespace bochner {
namespace {

/// The parts of a name before and after its last dot.
std::pair<std::string, std::string> split(const std::string& name) {
  const size_t dot = name.rfind('.');
  return dot == std::string::npos ? std::pair<std::string, std::string>{"", name}
                                  : std::pair{name.substr(0, dot), name.substr(dot + 1)};
}

std::vector<double> sorted(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values;
}

/// Eigenvalues of S S^T, which are those of S^T S.
std::vector<double> of_square(const Tensor& matrix) {
  const Tensor S = matrix.cast(DType::f64);
  return eigh(matmul(S, S.transpose(0, 1))).values.to_vector<double>();
}

}  // namespace

std::vector<CovarianceSpectrum> covariance_spectra(const std::map<std::string, Tensor>& state) {
  std::vector<CovarianceSpectrum> found;
  for (const auto& [name, value] : state) {
    const auto [module, last] = split(name);
    if (!state.contains(module + ".mean")) continue;
    const Tensor tensor = value.to(Device::cpu());
    if (last == "scale" && tensor.rank() == 4) {  // (heads, Gaussians, dim, dim), or (.., 1, dim) if diagonal
      for (int64_t h = 0; h < tensor.size(0); ++h) {
        for (int64_t c = 0; c < tensor.size(1); ++c) {
          const Tensor S = tensor.select(0, h).select(0, c).contiguous();
          std::vector<double> values;
          if (S.size(0) == S.size(1)) {
            values = of_square(S);
          } else {
            values = S.to_vector<double>();
            for (double& x : values) x *= x;
          }
          values = sorted(values);
          found.push_back({module, h, c, values, values});
        }
      }
    } else if (last == "sigma" && (tensor.rank() == 2 || tensor.rank() == 3)) {  // released: (heads, dim[, dim])
      for (int64_t h = 0; h < tensor.size(0); ++h) {
        const Tensor sigma = tensor.select(0, h).contiguous();
        if (sigma.rank() == 2) {
          const std::vector<double> values = of_square(sigma);
          found.push_back({module, h, 0, values, values});
          continue;
        }
        std::vector<double> covariance = sigma.to_vector<double>();
        std::vector<double> parameter = covariance;
        for (double& x : covariance) x = std::exp(x);
        for (double& x : parameter) x *= x;
        found.push_back({module, h, 0, sorted(covariance), sorted(parameter)});
      }
    }
  }
  return found;
}

}  // namespace bochner
