// The promises of the ops of autograd/fused/embedding.h, and samples to check them.
#include "autograd/fused/embedding.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/view.h"
#include "autograd/tape.h"
#include "engine/ops/embedding.h"
#include "engine/random.h"

#include "tests/autograd/op_info.h"

namespace bochner {

void describe_embedding(OpInfos& infos) {
  OpInfo info{"embedding", "y_i = table_(ids_i)", "", {}, {}};
  uint64_t seed = 1700;
  for (const Shape& shape : {Shape{5, 3}, Shape{1, 1}, Shape{7, 2}, Shape{3, 5}, Shape{2, 1}, Shape{6, 0}}) {
    for (const auto& [label, table] : sample_layouts(shape, ++seed)) {
      Generator generator(++seed);
      const Tensor ids = integers({2, 600}, 0, shape[0], generator);
      const Tensor few = seed % 2 == 0 ? ids : ids.slice(1, 0, 600, 200);
      info.samples.push_back(
          {label, {table}, [few](const std::vector<Variable>& in) { return embedding(in[0], beside(in[0], few)); }});
    }
  }
  info.refused = {[] {
                    embedding(Variable(Tensor::zeros({2, 2})), Tensor::from<int64_t>({2}, {1}));
                  },
                  [] {
                    embedding(Variable(Tensor::zeros({2, 2})), Tensor::from<int64_t>({-1}, {1}));
                  },
                  [] {
                    embedding(Variable(Tensor::zeros({2, 2})), Tensor::zeros({1}));
                  }};
  infos.push_back(info);

  OpInfo placed{"embedding_at", "y_bi = table_(ids_bi) + positions_i", "", {}, {}};
  for (const Shape& shape : {Shape{5, 3}, Shape{1, 1}, Shape{7, 2}, Shape{3, 5}, Shape{6, 0}}) {
    for (const auto& [label, table] : sample_layouts(shape, ++seed)) {
      Generator generator(++seed);
      const Tensor ids = integers({3, 4}, 0, shape[0], generator);
      placed.samples.push_back(
          {label,
           {table, sample_values({6, shape[1]}, ++seed)},
           [=](const std::vector<Variable>& in) { return embedding_at(in[0], beside(in[0], ids), in[1]); },
           [=](const std::vector<Variable>& in) { return embedding_at_composed(in[0], beside(in[0], ids), in[1]); }});
    }
  }
  placed.composition = [](const Sample& sample, const std::vector<Variable>& in) { return sample.composed(in); };
  placed.refused = {[] {
    const Variable rows = Tensor::zeros({2, 2});
    embedding_at(rows, Tensor::zeros({1, 3}, DType::i64), rows);
  }};
  infos.push_back(placed);
}

const bool kEmbeddingDescribed = add_family(describe_embedding);

}  // namespace bochner
