// Dropout (Srivastava et al., JMLR 2014), whose mask is never stored: it depends only on a place in a random stream, so
// backward draws it again.
//
//   y_i = x_i keep_i scale,   keep_i = (h_i >= t),   t = round(65536 p),   scale = 65536 / (65536 - t)
//
// h_i is 16-bit number i of the stream from that place; the lower half of a word comes before the upper one. This takes
// half as many random words as one word per element would, but rounds p to 1/65536. The mean is exact, since the scale
// uses the rounded p. p = 1 drops everything.
//
//   const Dropout drop = Dropout::draw(0.1, x.size(), generator);
//   Tensor y = dropout(x, drop);
//   Tensor dx = dropout(g, drop);                    // the same mask
#pragma once

#include "engine/random.h"
#include "engine/tensor.h"

namespace bochner {

/// What to drop: a threshold for 16-bit numbers, and their place in a stream. The default drops nothing.
struct Dropout {
  uint32_t threshold = 0;  ///< t, 0 ... 65536
  Generator place = Generator();

  /// Drops with probability p, 0 <= p <= 1, from `place` on.
  static Dropout at(double p, const Generator& place);
  /// The same for `count` elements, whose words are drawn from the generator; draws none for p = 0.
  static Dropout draw(double p, int64_t count, Generator& generator);

  bool active() const { return threshold > 0; }
  double scale() const { return threshold < 65536 ? 65536.0 / (65536.0 - threshold) : 0.0; }
};

/// y_i = x_i keep_i scale; any shape, f32, f64 or bf16. It is its own backward.
Tensor dropout(const Tensor& x, const Dropout& drop);
/// keep_i scale, as a tensor: the factors of dropout.
Tensor dropout_mask(const Shape& shape, const Dropout& drop, DType dtype = DType::f32, Device device = Device::cpu());

}  // namespace bochner
