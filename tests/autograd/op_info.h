// The promises of each op in a form that tests can read. From one entry come the float64 gradient checks of first and
// second order, the check of the value against a reference, the refusal of bad arguments and, with a GPU, the
// comparison of both devices.
//
// To add one, describe the op in a file of tests/autograd/ops or tests/autograd/fused that is named like the file of
// its derivative and ends in `const bool kXDescribed = add_family(describe_x);`.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "autograd/variable.h"

namespace bochner {

/// One call of an op on given inputs.
struct Sample {
  std::string label;           ///< e.g. `(3, 1) with (2, 3, 4)`
  std::vector<Tensor> inputs;  ///< differentiated with respect to all of them; f64, away from kinks
  std::function<Variable(const std::vector<Variable>&)> apply;
  /// The same call composed of plain ops, if OpInfo::composition would need more than the inputs.
  std::function<Variable(const std::vector<Variable>&)> composed = {};
};

struct OpInfo {
  std::string name;
  std::string equation;  ///< never empty
  std::string source;    ///< paper, equation; empty for common knowledge
  std::vector<Sample>
      samples;  ///< at least 20, among them sizes 0 and 1, odd, transposed and broadcast ones where the op allows
  /// The same function composed of plain differentiable ops, if the op is fused; its oracle.
  std::function<Variable(const Sample&, const std::vector<Variable>&)> composition;
  std::vector<std::function<void()>> refused = {};  ///< calls that must throw an Error
  bool twice = true;                                ///< whether its derivative can be differentiated
};

using OpInfos = std::vector<OpInfo>;

/// Every op that some file describes, by name. Complete once main() has started.
const OpInfos& op_infos();
/// Adds the ops of a family to the list.
bool add_family(void (*describe)(OpInfos&));

/// A deterministic f64 tensor with values in (low, high), at least `margin` away from 0.
Tensor sample_values(const Shape& shape, uint64_t seed, double low = -2, double high = 2, double margin = 0.05);
/// The layouts that every op must cope with: contiguous, transposed and strided views of one shape, labelled.
std::vector<std::pair<std::string, Tensor>> sample_layouts(const Shape& shape, uint64_t seed, double low = -2,
                                                           double high = 2, double margin = 0.05);
/// An op with one input, with samples in all layouts of these shapes; `seed` is for the first one.
OpInfo describe_on_layouts(uint64_t seed, const char* name, const char* equation, const std::vector<Shape>& shapes,
                           const std::function<Variable(const Variable&)>& f);

/// A tensor that a sample has besides its inputs (labels, a mask), moved to their device and, if it is floating,
/// converted to their type; undefined stays undefined.
inline Tensor beside(const Variable& input, const Tensor& held) {
  if (!held.defined()) return held;
  return (is_floating(held.dtype()) ? held.cast(input.dtype()) : held).to(input.device());
}

}  // namespace bochner
