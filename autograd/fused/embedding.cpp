#include "autograd/fused/embedding.h"

#include "autograd/op_info.h"
#include "autograd/tape.h"
#include "engine/ops/embedding.h"
#include "engine/random.h"

namespace bochner {
namespace {

/// y[e, :] = sum of x over the places with ids e: the adjoint of embedding, which is its own adjoint in turn.
Variable scatter_rows(const Variable& x, const Tensor& ids, int64_t entries) {
  return record("embedding_backward", embedding_backward(x.value(), ids, entries), {&x},
                [ids](const Variable& g) { return Gradients{embedding(g, ids)}; });
}

}  // namespace

// y = E[ids]:  dE[e] = sum of g where ids = e
Variable embedding(const Variable& table, const Tensor& ids) {
  return record("embedding", embedding(table.value(), ids), {&table},
                [ids, entries = table.size(0)](const Variable& g) { return Gradients{scatter_rows(g, ids, entries)}; });
}

void describe_embedding(OpInfos& infos) {
  OpInfo info{"embedding", "y_i = table_(ids_i)", "", {}, {}};
  uint64_t seed = 1700;
  for (const Shape& shape : {Shape{5, 3}, Shape{1, 1}, Shape{7, 2}, Shape{3, 5}, Shape{2, 1}, Shape{6, 0}}) {
    for (const auto& [label, table] : sample_layouts(shape, ++seed)) {
      Generator generator(++seed);
      const Tensor ids = integers({2, 600}, 0, shape[0], generator);
      const Tensor few = seed % 2 == 0 ? ids : ids.slice(1, 0, 600, 200);
      info.samples.push_back(
          {label, {table}, [few](const std::vector<Variable>& in) { return embedding(in[0], few); }});
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
}

}  // namespace bochner
