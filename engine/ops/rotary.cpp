#include "engine/ops/rotary.h"

#include "engine/bf16.h"
#include "engine/kernel.h"

namespace bochner {

// All contiguous.
BOCHNER_KERNEL(kRotary, "rotary", rotary, const RotarySizes& sizes, const Tensor& x, const Tensor& cosines,
               const Tensor& sines, const Tensor& y);

Tensor rotary(const Tensor& x, const Tensor& cosines, const Tensor& sines, int64_t turned, bool back) {
  if (x.rank() != 4 || x.size(3) % 2 != 0 || turned < 0 || turned > x.size(2)) {
    fail("rotary: {} vectors of {} to turn; x must be (batch, length, vectors, dim), with an even dim", turned,
         x.shape().str());
  }
  const Shape angles = {x.size(1), x.size(3) / 2};
  require_stored(x.dtype(), "rotary");
  for (const Tensor* const table : {&cosines, &sines}) {
    if (!(table->shape() == angles) || table->dtype() != compute_dtype(x.dtype())) {
      fail("rotary: x is {}, so cosines and sines must be {} {}; got {}", x.str(), name_of(compute_dtype(x.dtype())),
           angles.str(), table->str());
    }
  }
  const Tensor y = Tensor::empty_like(x);
  if (x.size() == 0) return y;
  const RotarySizes sizes = {x.size(0) * x.size(1), x.size(1), x.size(2), turned, x.size(3), back};
  kRotary(x.device(), sizes, x.contiguous(), cosines.contiguous(), sines.contiguous(), y);
  return y;
}

}  // namespace bochner
