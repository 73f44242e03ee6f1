#include "layers/models/vit.h"

#include "autograd/ops/binary.h"
#include "autograd/ops/unary.h"
#include "autograd/ops/view.h"
#include "layers/init.h"
#include "layers/mixed_precision.h"
#include "layers/models/pretrained_blocks.h"

namespace bochner {
namespace {

const VitOptions& checked(const VitOptions& options) {
  if (options.image < 1 || options.patch < 1 || options.channels < 1 || options.layers < 0 || options.dim < 1 ||
      options.hidden < 1 || options.classes < 0) {
    fail(
        "vit: image {}, patch {}, channels {}, layers {}, dim {}, hidden {}, classes {}: layers and classes must be at "
        "least 0, the others at least 1",
        options.image, options.patch, options.channels, options.layers, options.dim, options.hidden, options.classes);
  }
  if (options.image % options.patch != 0)
    fail("vit: patches of {} pixels do not divide an image of {}", options.patch, options.image);
  return options;
}

int64_t patches_of(const VitOptions& options) {
  const int64_t side = options.image / options.patch;
  return side * side;
}

}  // namespace

Vit::Vit(Slot slot, const VitOptions& options, Generator& init)
    : PretrainedModel(std::move(slot)),
      options_(checked(options)),
      cls_(parameter("embeddings.cls", init::gaussian({1, 1, options.dim}, options.deviation, init))),
      patches_(sub("embeddings.patches"), options.channels * options.patch * options.patch, options.dim, init,
               normal_weights(options)),
      positions_(parameter("embeddings.positions",
                           init::gaussian({1 + patches_of(options), options.dim}, options.deviation, init))),
      dropout_(sub("embeddings.dropout"), options.dropout),
      blocks_(sub("blocks"), pretrained_blocks(options, BlockOptions::Order::pre_norm, 1 + patches_of(options)),
              options.recompute, init),
      norm_(sub("norm"), options.dim, options.norm_eps) {
  const auto linear_of = [&](const char* name, int64_t outputs) {
    return std::make_unique<Linear>(sub(name), options.dim, outputs, init, normal_weights(options));
  };
  if (options.pooler) pooler_ = linear_of("pooler", options.dim);
  if (options.classes > 0) classifier_ = linear_of("classifier", options.classes);
}

Variable Vit::forward(const Variable& pixels, Context& context, std::vector<Variable>* states) const {
  const Scope scope(name());
  const int64_t channels = options_.channels, image = options_.image, patch = options_.patch, side = image / patch;
  if (pixels.rank() != 4 || !(pixels.shape() == Shape{pixels.size(0), channels, image, image})) {
    fail("vit: pixels must be (batch, {}, {}, {}), got {}", channels, image, image, pixels.shape().str());
  }
  const int64_t batch = pixels.size(0);
  const Variable cut = permute(reshape(pixels, {batch, channels, side, patch, side, patch}), {0, 2, 4, 1, 3, 5});
  const Variable flat = reshape(cut, {batch, side * side, channels * patch * patch});
  const Variable tokens =
      concat({expand(cls_, {batch, 1, options_.dim}), patches_.forward(flat)}, 1);  // (B, 1 + N, dim)
  const Variable x = as_stored(dropout_.forward(tokens + Variable(positions_), context));
  return norm_.forward(blocks_.forward(x, {}, context, states));
}

}  // namespace bochner
