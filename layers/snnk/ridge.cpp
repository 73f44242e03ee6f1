#include "layers/snnk/ridge.h"

#include <cmath>

#include "engine/error.h"
#include "engine/ops/binary.h"
#include "engine/ops/join.h"
#include "engine/ops/linalg.h"
#include "engine/ops/matmul.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"

namespace bochner {

RidgeFit::RidgeFit(int64_t features, int64_t outputs, bool bias)
    : features_(features), outputs_(outputs), columns_(features + (bias ? 1 : 0)) {
  if (features < 1 || outputs < 1) fail("ridge: {} features and {} outputs; at least 1 of each", features, outputs);
}

void RidgeFit::add(const Tensor& Phi, const Tensor& Y) {
  if (Phi.rank() != 2 || Y.rank() != 2 || Phi.size(0) != Y.size(0) || Phi.size(1) != features_ ||
      Y.size(1) != outputs_) {
    fail("ridge: rows Phi {} and Y {}; they must be (n, {}) and (n, {})", Phi.shape().str(), Y.shape().str(), features_,
         outputs_);
  }
  std::vector<Tensor> columns = {Phi.cast(DType::f64)};
  if (columns_ > features_) columns.push_back(Tensor::full({Phi.size(0), 1}, 1, DType::f64));
  columns.push_back(Y.cast(DType::f64));
  const Tensor fresh = concat(columns, 1);
  const Tensor all = R_.defined() ? concat(std::vector<Tensor>{R_, fresh}, 0) : fresh;
  R_ = all.size(0) > all.size(1) ? qr(all).r : all;
  rows_ += Phi.size(0);
}

RidgeFit::Solution RidgeFit::solve(double ridge) const {
  if (rows_ == 0) fail("ridge: no rows yet; add some");
  if (!(ridge >= 0)) fail("ridge: {} must not be negative", ridge);
  Tensor A = R_.slice(1, 0, columns_).contiguous();
  Tensor B = R_.slice(1, columns_, columns_ + outputs_).contiguous();
  if (ridge > 0) {  // rows sqrt(ridge) I with target 0 for W, and none for b
    Tensor pull = Tensor::zeros({features_, columns_}, DType::f64);
    for (int64_t i = 0; i < features_; ++i) pull.data<double>()[i * columns_ + i] = std::sqrt(ridge);
    A = concat(std::vector<Tensor>{A, pull}, 0);
    B = concat(std::vector<Tensor>{B, Tensor::zeros({features_, outputs_}, DType::f64)}, 0);
  }
  const Tensor X = least_squares(A, B);  // (columns, outputs)
  const Tensor rest = matmul(A, X) - B;
  Solution solution;
  solution.weight = X.slice(0, 0, features_).transpose(0, 1).contiguous();
  if (columns_ > features_) solution.bias = X.select(0, features_).contiguous();
  solution.residual = sum(square(rest)).item();
  return solution;
}

}  // namespace bochner
