#include "layers/attention/blocks.h"

#include <limits>

#include "autograd/fused/dropout.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/join.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/view.h"
#include "engine/math.h"
#include "engine/ops/join.h"
#include "engine/ops/reduce.h"

namespace bochner {

Tensor real_keys(const Mask& mask, const Variable& K) { return real_tokens(mask.keys, K); }

Tensor real_tokens(const Tensor& mask, const Variable& x) {
  if (mask.defined()) return mask;
  return Tensor::full({x.size(0), x.size(2)}, 1, DType::boolean, x.device());
}

Tensor count_of(const Tensor& real) { return sum(real.cast(DType::i64), {1}, true); }

std::vector<std::vector<int64_t>> real_positions(const Tensor& keys, int64_t batch, int64_t length) {
  std::vector<std::vector<int64_t>> positions(static_cast<size_t>(batch));
  const std::vector<int64_t> real =
      keys.defined() ? keys.cast(DType::i64).to_vector<int64_t>() : std::vector<int64_t>();
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t i = 0; i < length; ++i) {
      if (!keys.defined() || real[static_cast<size_t>(b * length + i)] != 0) {
        positions[static_cast<size_t>(b)].push_back(i);
      }
    }
  }
  return positions;
}

Variable without_padding(const Variable& x, const Tensor& keys) {
  if (!keys.defined()) return x;
  return where(keys.view({keys.size(0), 1, keys.size(1), 1}), x, 0);
}

Variable in_blocks(const Variable& x, int64_t block) {
  if (block < 1) fail("attention: a block of {} tokens; at least 1 is needed", block);
  const int64_t count = ceil_div(x.size(2), block);
  const Variable whole = count * block == x.size(2) ? x : pad(x, {0, 0, 0, 0}, {0, 0, count * block - x.size(2), 0});
  return reshape(whole, {x.size(0), x.size(1), count, block, x.size(3)});
}

Variable out_of_blocks(const Variable& x, int64_t length) {
  const Variable joined = reshape(x, {x.size(0), x.size(1), x.size(2) * x.size(3), x.size(4)});
  return joined.size(2) == length ? joined : slice(joined, 2, 0, length);
}

Variable in_strides(const Variable& x, int64_t block) {
  const Variable blocks = in_blocks(x, block);
  const Shape turned{x.size(0), x.size(1), blocks.size(3), blocks.size(2), x.size(3)};
  return transpose(reshape(blocks, turned), 2, 3);
}

Variable out_of_strides(const Variable& x, int64_t length) {
  return out_of_blocks(reshape(transpose(x, 2, 3), x.shape()), length);
}

Tensor mask_in_blocks(const Tensor& keys, int64_t block) {
  const int64_t count = ceil_div(keys.size(1), block);
  const Tensor whole = pad(keys, {0, 0}, {0, count * block - keys.size(1)});
  return whole.reshape({keys.size(0), 1, count, 1, block});
}

Variable with_neighbours(const Variable& x, int64_t before, int64_t after) {
  if (before == 0 && after == 0) return x;
  const Variable wide = pad(x, {0, 0, before, 0, 0}, {0, 0, after, 0, 0});  // (B, H, before + N + after, block, D)
  std::vector<Variable> shifted;
  for (int64_t o = 0; o <= before + after; ++o) shifted.push_back(slice(wide, 2, o, o + x.size(2)));
  return concat(shifted, 3);
}

Tensor mask_with_neighbours(const Tensor& x, int64_t before, int64_t after) {
  const Tensor wide = pad(x, {0, 0, before, 0, 0}, {0, 0, after, 0, 0});
  std::vector<Tensor> shifted;
  for (int64_t o = 0; o <= before + after; ++o) shifted.push_back(wide.slice(2, o, o + x.size(2)));
  return concat(shifted, -1);
}

Variable attend_scores(const Variable& scores, const Variable& V, const Tensor& visible, double dropout_rate,
                       Context& context) {
  Variable P = softmax(visible.defined() ? where(visible, scores, kHidden) : scores);
  if (context.training && dropout_rate > 0) P = dropout(P, dropout_rate, context.generator);
  return matmul(P, V);
}

Variable attend(const Variable& Q, const std::vector<KeySet>& sets, double scale, double dropout_rate,
                Context& context) {
  const Variable scaled = Q * scale;
  std::vector<Variable> scores;
  for (const KeySet& set : sets) {
    const Variable all = matmul(scaled, transpose(set.K, -2, -1));  // (..., n, m)
    scores.push_back(set.visible.defined() ? where(set.visible, all, kHidden) : all);
  }
  Variable P = softmax(scores.size() == 1 ? scores[0] : concat(scores, -1));  // (..., n, sum of m)
  if (context.training && dropout_rate > 0) P = dropout(P, dropout_rate, context.generator);
  Variable O;
  int64_t begin = 0;
  for (const KeySet& set : sets) {
    const int64_t m = set.K.size(-2);
    const Variable part = matmul(sets.size() == 1 ? P : slice(P, -1, begin, begin + m), set.V);  // (..., n, E)
    O = O.defined() ? O + part : part;
    begin += m;
  }
  return O;
}

Dropout dropout_of_weights(double rate, const Variable& Q, int64_t keys, Context& context) {
  if (!context.training || rate == 0) return {};
  return Dropout::draw(rate, Q.size(0) * Q.size(1) * Q.size(2) * keys, context.generator);
}

Generator for_places(Context& context) {
  const uint64_t low = context.generator.next();
  const uint64_t high = context.generator.next();
  return Generator(low | high << 32);
}

Tensor places(int64_t count, int axis, int rank, Device device) {
  Dims sizes = Dims::filled(rank, 1);
  sizes[axis] = count;
  return Tensor::arange(count, DType::i64, device).view(sizes);
}

}  // namespace bochner
