#include "autograd/ops/depthwise_convolution.h"

#include "autograd/tape.h"

namespace bochner {

// y = C(w) x:  dx = C(w)^T g,  dw_rt = <g, x shifted by (r, t)>; of the transpose, whose shift is the other way, <x, g
// shifted>
Variable depthwise_convolution(const Variable& x, const Variable& taps, int64_t columns, bool back) {
  return record("depthwise_convolution", depthwise_convolution(x.value(), taps.value(), columns, back), {&x, &taps},
                [x, taps, columns, back](const Variable& g) {
                  const FilterSize filter{taps.size(1), taps.size(2)};
                  return Gradients{depthwise_convolution(g, taps, columns, !back),
                                   back ? depthwise_convolution_taps(g, x, filter, columns)
                                        : depthwise_convolution_taps(x, g, filter, columns)};
                });
}

// u_rt = <g, x shifted by (r, t)>, for a gradient v of u:  dx = C(v)^T g,  dg = C(v) x
Variable depthwise_convolution_taps(const Variable& x, const Variable& g, FilterSize filter, int64_t columns) {
  return record("depthwise_convolution_taps", depthwise_convolution_taps(x.value(), g.value(), filter, columns),
                {&x, &g}, [x, g, columns](const Variable& v) {
                  return Gradients{depthwise_convolution(g, v, columns, true), depthwise_convolution(x, v, columns)};
                });
}

}  // namespace bochner
