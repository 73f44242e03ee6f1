// Compares derivatives with central differences, in float64.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "autograd/variable.h"
#include "engine/sanitizer.h"

namespace bochner {

struct GradcheckOptions {
  double step = 1e-5;                            ///< h of (f(x + h) - f(x - h)) / 2h
  double tolerance = 1e-7;                       ///< multiplied by max(1, |g|)
  uint64_t seed = 1;                             ///< of the projection
  int64_t entries = kAddressSanitizer ? 8 : 64;  ///< at most about this many entries of each input, spread evenly
};

/// Compares d<p, f(x)>/dx, for a fixed random p, with central differences for every input. Returns an empty string if
/// all agree, else the worst entry: `input 1 at (2, 0): 0.25 by backward, 0.31 by differences`. f must be
/// deterministic.
std::string gradcheck(const std::function<Variable(const std::vector<Variable>&)>& f, const std::vector<Tensor>& inputs,
                      const GradcheckOptions& options = {});
/// The same for the derivative of f: differentiates <q, d<p, f(x)>/dx>.
std::string gradcheck_twice(const std::function<Variable(const std::vector<Variable>&)>& f,
                            const std::vector<Tensor>& inputs, const GradcheckOptions& options = {});

}  // namespace bochner
