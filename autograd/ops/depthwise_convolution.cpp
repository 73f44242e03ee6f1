#include "autograd/ops/depthwise_convolution.h"

#include "autograd/tape.h"
#include "engine/ops/depthwise_convolution.h"

namespace bochner {

// y = C(w) x:  dx = C(w)^T g,  dw_t = <g, x shifted by t>; of the transpose, whose shift is the other way, <x, g
// shifted>
Variable depthwise_convolution(const Variable& x, const Variable& taps, bool back) {
  return record("depthwise_convolution", depthwise_convolution(x.value(), taps.value(), back), {&x, &taps},
                [x, taps, back](const Variable& g) {
                  const int64_t width = taps.size(1);
                  return Gradients{
                      depthwise_convolution(g, taps, !back),
                      back ? depthwise_convolution_taps(g, x, width) : depthwise_convolution_taps(x, g, width)};
                });
}

// u_t = <g, x shifted by t>, for a gradient v of u:  dx = C(v)^T g,  dg = C(v) x
Variable depthwise_convolution_taps(const Variable& x, const Variable& g, int64_t width) {
  return record("depthwise_convolution_taps", depthwise_convolution_taps(x.value(), g.value(), width), {&x, &g},
                [x, g](const Variable& v) {
                  return Gradients{depthwise_convolution(g, v, true), depthwise_convolution(x, v)};
                });
}

}  // namespace bochner
