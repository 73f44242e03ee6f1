#include "autograd/fused/cross_entropy.h"

#include "autograd/op_info.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/reduce.h"
#include "autograd/tape.h"
#include "engine/random.h"

namespace bochner {
namespace {

/// (batch, classes) with 1 at each label.
Tensor one_hot(const Tensor& labels, int64_t classes, DType dtype) {
  for (const int64_t label : labels.to_vector<int64_t>()) {
    if (label < 0 || label >= classes) fail("cross_entropy: label {} lies outside the {} classes", label, classes);
  }
  const Tensor places = equal(labels.unsqueeze(1), Tensor::arange(classes, DType::i64, labels.device()).unsqueeze(0));
  return places.cast(dtype);
}

}  // namespace

// loss = -1/n sum_i ln softmax(x_i)[label_i]:  dx = g (softmax(x) - onehot) / n
Variable cross_entropy(const Variable& logits, const Tensor& labels) {
  if (logits.rank() != 2 || labels.rank() != 1 || labels.size(0) != logits.size(0) || labels.dtype() != DType::i64) {
    fail("cross_entropy: needs logits (batch, classes) and labels i64 (batch), got {} and {}", logits.value().str(),
         labels.str());
  }
  const Tensor target = one_hot(labels, logits.size(1), logits.dtype());
  const double n = static_cast<double>(std::max<int64_t>(1, logits.size(0)));
  return sum((logsumexp(logits, 1) - sum(logits * Variable(target), {1})) / n);
}

void describe_cross_entropy(OpInfos& infos) {
  OpInfo info{"cross_entropy", "loss = -1/n sum_i ln softmax(x_i)_(label_i)", "", {}, {}};
  uint64_t seed = 1900;
  for (const Shape& shape : {Shape{4, 5}, Shape{1, 1}, Shape{7, 3}, Shape{3, 33}, Shape{1, 10}, Shape{0, 4}}) {
    for (const auto& [label, x] : sample_layouts(shape, ++seed)) {
      Generator generator(++seed);
      const Tensor labels = integers({shape[0]}, 0, shape[1], generator);
      info.samples.push_back(
          {label, {x}, [labels](const std::vector<Variable>& in) { return cross_entropy(in[0], labels); }});
    }
  }
  info.refused = {[] {
                    cross_entropy(Variable(Tensor::zeros({2, 3})), Tensor::from<int64_t>({0, 3}, {2}));
                  },
                  [] {
                    cross_entropy(Variable(Tensor::zeros({2, 3})), Tensor::from<int64_t>({0}, {1}));
                  }};
  infos.push_back(info);
}

}  // namespace bochner
