// What the mixtures of a trained model have learnt (KL Tables 4, 9 to 12): the eigenvalues of their covariances.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/tensor.h"

namespace bochner {

/// The eigenvalues of one Gaussian of one head.
struct CovarianceSpectrum {
  std::string module;  ///< `blocks.0.attention.mechanism.distribution`
  int64_t head = 0;
  int64_t component = 0;
  /// Ascending: the eigenvalues of the covariance S S^T of frequencies omega = S n + mu, and those of the square of the
  /// parameter itself. The paper's numbers are the latter, as they match those of initial raw parameters. The two
  /// differ only for the released gmm-prf, where S = exp(sigma / 2).
  std::vector<double> covariance;
  std::vector<double> parameter;
};

/// For every mixture among a model's parameters, named as by Module::state(); empty if there is none.
std::vector<CovarianceSpectrum> covariance_spectra(const std::map<std::string, Tensor>& state);

}  // namespace bochner
