#include "layers/attention/multi_head.h"

#include "autograd/ops/binary.h"
#include "autograd/ops/depthwise_convolution.h"
#include "autograd/ops/view.h"
#include "engine/bf16.h"
#include "layers/attention/blocks.h"
#include "layers/attention/gaussian.h"
#include "layers/init.h"
#include "layers/mixed_precision.h"

namespace bochner {
namespace {

int64_t size_of_head(int64_t dim, const MultiHeadOptions& options) {
  if (options.heads < 1) fail("attention: {} heads; at least 1 is needed", options.heads);
  if (options.head_dim > 0) return options.head_dim;
  if (dim % options.heads != 0) {
    fail("attention: {} heads do not divide the model size {}; choose a divisor, or give the head size", options.heads,
         dim);
  }
  return dim / options.heads;
}

LinearOptions of_inputs(const MultiHeadOptions& options) {
  LinearOptions projection = options.projection;
  const MechanismInfo& info = mechanism_named(options.mechanism.name());
  if (info.unbiased && info.unbiased(options.mechanism)) projection.bias = false;
  return projection;
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(Slot slot, int64_t dim, const MultiHeadOptions& options, Generator& init)
    : Module(std::move(slot)),
      heads_(options.heads),
      head_dim_(size_of_head(dim, options)),
      attention_(options.mechanism.name()),
      qkv_(sub("qkv"), dim, 3 * heads_ * head_dim_, init, of_inputs(options)),
      out_(sub("out"), heads_ * head_dim_, dim, init, options.projection),
      mechanism_(make_mechanism(sub("mechanism"), heads_, head_dim_, options.mechanism, init)),
      columns_(options.columns),
      watch_(options.watch) {
  if (options.rotary > 0) rotary_.emplace(options.rotary, head_dim_, options.rotary_width);
  if (options.projection.init == LinearOptions::Init::xavier ||
      options.projection.init == LinearOptions::Init::xavier_weight) {
    // Q, K and V are three matrices that happen to be stored together: each has its own fans.
    for (int64_t part = 0; part < 3; ++part) {
      const int64_t rows = heads_ * head_dim_;
      qkv_.weight.value.slice(0, part * rows, (part + 1) * rows)
          .copy_(bochner::init::xavier_uniform({rows, dim}, init));
    }
  }
  if (options.convolution > 0) {
    const int64_t width = options.convolution;
    const int64_t rows = columns_ > 0 ? width : 1;
    if (width % 2 == 0) fail("attention: convolution={}: an odd number of places, or 0 for none", width);
    convolution_ = &parameter("convolution",
                              bochner::init::fan_in_uniform({1, rows, width, heads_ * head_dim_}, rows * width, init));
  }
}

std::vector<Variable> MultiHeadAttention::heads_of(const Variable& x, const Mask& mask, Context& context,
                                                   const LinearFusion& fusion) const {
  const int64_t batch = x.size(0);
  const int64_t length = x.size(1);
  Variable joined = reshape(qkv_.forward(x, {.norm = fusion.norm}, context), {batch, length, 3 * heads_, head_dim_});
  if (rotary_) joined = rotary_->turn(joined, 2 * heads_, mask.first);                              // Q and K
  std::vector<Variable> parts = unbind(reshape(joined, {batch, length, 3, heads_, head_dim_}), 2);  // 3 x (B, L, H, D)
  for (Variable& part : parts) part = transpose(part, 1, 2);                                        // 3 x (B, H, L, D)
  return parts;
}

Variable MultiHeadAttention::weights(const Variable& x, const Mask& mask, Context& context) const {
  const Scope scope(name());
  const std::vector<Variable> parts = heads_of(x, mask, context);
  const int64_t length = x.size(1);
  const Variable units(identity(length, DType::f32, x.device()).expand({x.size(0), heads_, length, length}));
  return mechanism_->forward(as_computed(parts[0]), as_computed(parts[1]), units, mask, context);
}

// conv(V), padding as zeros: (B, L, heads * head size)
Variable MultiHeadAttention::convolved(const Variable& V, const Mask& mask, const Context& context) const {
  if (mask.causal) fail("attention: its convolution of values reads later tokens, too; not causal");
  if (context.slice != nullptr)
    fail("--sequence-shards: the convolution of attention's values needs whole sequences; leave one out");
  const int64_t L = V.size(2);
  const int64_t channels = heads_ * head_dim_;
  const Variable real = transpose(without_padding(V, mask.keys), 1, 2);
  const Variable taps = cast(*convolution_, compute_dtype(V.dtype()));
  const Variable y = depthwise_convolution(reshape(real, {V.size(0), 1, L, channels}), taps, columns_);
  return reshape(y, {V.size(0), L, channels});
}

Variable MultiHeadAttention::forward(const Variable& x, const Mask& mask, Context& context,
                                     const LinearFusion& fusion) const {
  const Scope scope(name());
  if (context.slice != nullptr && !mechanism_->takes_slices()) {
    fail_slices(attention_ + (mechanism_named(attention_).slices ? " without streaming" : ""));
  }
  std::vector<Variable> parts = heads_of(x, mask, context, fusion);
  const Variable V = parts[2];
  if (!mechanism_->reads_bf16()) {
    for (Variable& part : parts) part = as_computed(part);
  }
  Variable O = mechanism_->forward(parts[0], parts[1], parts[2], mask, context);  // (B, H, L, D)
  if (watch_) watch_(path(), O.value());
  if (O.dtype() != x.dtype()) O = cast(O, x.dtype());
  O = reshape(transpose(O, 1, 2), {x.size(0), x.size(1), heads_ * head_dim_});
  if (convolution_ != nullptr) O = O + convolved(V, mask, context);
  return out_.forward(O, {.residual = fusion.residual, .dropout = fusion.dropout}, context);  // (B, L, dim)
}

}  // namespace bochner
