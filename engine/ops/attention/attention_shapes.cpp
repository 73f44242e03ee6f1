#include "engine/ops/attention/attention_shapes.h"

namespace bochner {

void check_attention(const char* op, const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& key_mask) {
  const bool agree = Q.rank() == 4 && K.rank() == 4 && V.rank() == 4 && K.size(0) == Q.size(0) &&
                     K.size(1) == Q.size(1) && K.size(3) == Q.size(3) && V.size(0) == K.size(0) &&
                     V.size(1) == K.size(1) && V.size(2) == K.size(2);
  if (!agree) {
    fail(
        "{}: Q {}, K {}, V {} must be (batch, heads, queries, dim), (batch, heads, keys, dim) and (batch, heads, keys, "
        "value dim)",
        op, Q.shape().str(), K.shape().str(), V.shape().str());
  }
  for (const Tensor* x : {&K, &V}) {
    if (x->dtype() != Q.dtype())
      fail("{}: Q is {}, K {}, V {}: one type is needed; convert with cast()", op, Q.str(), K.str(), V.str());
  }
  if (!key_mask.defined()) return;
  if (key_mask.dtype() != DType::boolean || !(key_mask.shape() == Shape{K.size(0), K.size(2)})) {
    fail("{}: the key mask must be bool (batch, keys) = {}, true at real keys; got {}", op,
         Shape{K.size(0), K.size(2)}.str(), key_mask.str());
  }
}

Tensor with_whole_rows(const Tensor& x) {
  return x.strides()[3] == 1 || x.size(3) == 1 || x.size() == 0 ? x : x.contiguous();
}

Tensor attention_output(const Shape& shape, const Tensor& like) {
  return Tensor::empty({shape[0], shape[2], shape[1], shape[3]}, like.dtype(), like.device()).transpose(1, 2);
}

AttentionGradients attention_gradients(const Tensor& Q, const Tensor& K, const Tensor& V) {
  if (Q.shape() == K.shape() && K.shape() == V.shape()) {
    const Tensor joint = Tensor::empty({Q.size(0), Q.size(2), 3, Q.size(1), Q.size(3)}, Q.dtype(), Q.device());
    return {joint.select(2, 0).transpose(1, 2), joint.select(2, 1).transpose(1, 2), joint.select(2, 2).transpose(1, 2)};
  }
  return {attention_output(Q.shape(), Q), attention_output(K.shape(), Q), attention_output(V.shape(), Q)};
}

}  // namespace bochner
