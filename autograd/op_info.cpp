#include "autograd/op_info.h"

#include "engine/random.h"

namespace bochner {

// The table of contents: one function per family, each beside the derivatives it describes.
void describe_unary(OpInfos& infos);
void describe_binary(OpInfos& infos);
void describe_reduce(OpInfos& infos);
void describe_view(OpInfos& infos);
void describe_join(OpInfos& infos);
void describe_index(OpInfos& infos);
void describe_sort(OpInfos& infos);
void describe_scan(OpInfos& infos);
void describe_matmul(OpInfos& infos);
void describe_linalg(OpInfos& infos);
void describe_hadamard(OpInfos& infos);
void describe_norm(OpInfos& infos);
void describe_dropout(OpInfos& infos);
void describe_embedding(OpInfos& infos);
void describe_cross_entropy(OpInfos& infos);
void describe_bias_activation(OpInfos& infos);
void describe_linear(OpInfos& infos);
void describe_feed_forward(OpInfos& infos);
void describe_softmax_attention(OpInfos& infos);
void describe_kernel_attention(OpInfos& infos);

namespace {

constexpr void (*kFamilies[])(OpInfos&) = {
    describe_unary,
    describe_binary,
    describe_reduce,
    describe_view,
    describe_join,
    describe_index,
    describe_sort,
    describe_scan,
    describe_matmul,
    describe_linalg,
    describe_hadamard,
    describe_norm,
    describe_dropout,
    describe_embedding,
    describe_cross_entropy,
    describe_bias_activation,
    describe_linear,
    describe_feed_forward,
    describe_softmax_attention,
    describe_kernel_attention,
};

}  // namespace

const OpInfos& op_infos() {
  static const OpInfos infos = [] {
    OpInfos list;
    for (const auto describe : kFamilies) describe(list);
    return list;
  }();
  return infos;
}

Tensor sample_values(const Shape& shape, uint64_t seed, double low, double high, double margin) {
  Generator generator(seed);
  std::vector<double> values = uniform(shape, generator, low, high, DType::f64).to_vector<double>();
  for (double& value : values) {
    if (value > -margin && value < margin) value += value < 0 ? -margin : margin;
  }
  return Tensor::from(values, shape);
}

std::vector<std::pair<std::string, Tensor>> sample_layouts(const Shape& shape, uint64_t seed, double low, double high,
                                                           double margin) {
  std::vector<std::pair<std::string, Tensor>> layouts;
  layouts.emplace_back(shape.str(), sample_values(shape, seed, low, high, margin));
  if (shape.rank() >= 2) {
    Shape turned = shape;
    std::swap(turned[0], turned[-1]);
    layouts.emplace_back(shape.str() + " transposed",
                         sample_values(turned, seed + 1, low, high, margin).transpose(0, -1));
  }
  if (shape.rank() >= 1) {
    Shape wide = shape;
    wide[-1] = 2 * wide[-1] + 1;
    const Tensor all = sample_values(wide, seed + 2, low, high, margin);
    layouts.emplace_back(shape.str() + " strided", all.slice(-1, 1, 1 + 2 * shape[-1], 2));
    Shape flat = shape;
    flat[0] = 1;
    layouts.emplace_back(shape.str() + " broadcast", sample_values(flat, seed + 3, low, high, margin).expand(shape));
  }
  return layouts;
}

}  // namespace bochner
