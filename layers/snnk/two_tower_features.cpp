#include "layers/snnk/two_tower_features.h"

#include <cmath>

#include "autograd/ops/binary.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/view.h"
#include "engine/ops/binary.h"
#include "engine/ops/join.h"
#include "engine/ops/linalg.h"
#include "engine/ops/matmul.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "layers/spectral/orthogonal.h"

namespace bochner {
namespace {

/// A column (n, 1) of a vector (n).
Tensor column(const Tensor& x) { return x.reshape({x.size(), 1}); }

}  // namespace

Projection Projection::after(const Tensor& W, const Tensor& b) const {
  Projection result;
  result.composed = true;
  const DType dtype = G.dtype();
  const Tensor bias = column(b.defined() ? b.cast(DType::f64) : Tensor::zeros({W.size(0)}, DType::f64, W.device()));
  Tensor shift = matmul(G.cast(DType::f64), bias);
  if (offset.defined()) shift = shift + column(offset.cast(DType::f64));
  result.G = matmul(G.cast(DType::f64), W.cast(DType::f64)).cast(dtype);
  result.offset = shift.reshape({G.size(0)}).cast(dtype);
  // |R z + r|^2 for z = W x + b is the square norm of (R W | R b + r) (x; 1), for which its triangular factor suffices.
  Tensor norm = concat(std::vector<Tensor>{W.cast(DType::f64), bias}, 1) * scale;
  if (R.defined())
    norm = concat(std::vector<Tensor>{matmul(R.cast(DType::f64), W.cast(DType::f64)),
                                      matmul(R.cast(DType::f64), bias) + column(r.cast(DType::f64))},
                  1);
  if (norm.size(0) > norm.size(1)) norm = qr(norm).r;
  const int64_t inputs = W.size(1);
  result.R = norm.slice(1, 0, inputs).contiguous().cast(dtype);
  result.r = norm.slice(1, inputs, inputs + 1).contiguous().reshape({norm.size(0)}).cast(dtype);
  return result;
}

Tensor gaussian_rows(int64_t rows, int64_t inputs, bool orthogonal, Generator& generator) {
  if (rows < 1 || inputs < 1) fail("snnk: {} projections of {} inputs; both must be at least 1", rows, inputs);
  const Tensor iid = normal({rows, inputs}, generator);
  if (!orthogonal) return iid;
  const Tensor lengths = sqrt(sum(iid * iid, {1}, true));  // chi of `inputs` degrees
  return haar_rows(rows, inputs, generator) * lengths;
}

TwoTowerFeatures::TwoTowerFeatures(Slot slot, const Projection& projection, bool uses_norm)
    : Module(std::move(slot)),
      composed_(projection.composed),
      scale_(projection.scale),
      uses_norm_(uses_norm),
      G_(buffer("projection", projection.G)),
      offset_(projection.offset.defined() ? &buffer("offset", projection.offset) : nullptr),
      R_(projection.R.defined() && uses_norm ? &buffer("norm", projection.R) : nullptr),
      r_(projection.R.defined() && uses_norm ? &buffer("norm_offset", projection.r) : nullptr) {}

Variable TwoTowerFeatures::forward(const Variable& x) const {
  const Scope scope(name());
  if (x.rank() < 1 || x.shape()[-1] != inputs()) {
    fail("snnk: x {} does not end in the {} inputs of the features", x.shape().str(), inputs());
  }
  const int64_t n = x.size() / inputs();
  const Variable flat = x.rank() == 2 ? x : reshape(x, {n, inputs()});
  Variable u = matmul_transposed(flat, Variable(G_));
  if (offset_ != nullptr) u = u + Variable(*offset_);
  Variable s;
  if (uses_norm_) {
    const Variable z = R_ == nullptr ? flat : matmul_transposed(flat, Variable(*R_)) + Variable(*r_);
    s = sum(square(z), {1}, true);
    if (R_ == nullptr && scale_ != 1) s = s * (scale_ * scale_);
  }
  const Variable result = phi(u, s);
  if (x.rank() == 2) return result;
  Shape shape = x.shape();
  shape[-1] = features();
  return reshape(result, shape);
}

Tensor TwoTowerFeatures::jacobian(const Tensor& x) const {
  if (x.rank() != 2 || x.size(1) != inputs())
    fail("snnk: jacobian at x {}; it must be (n, {})", x.shape().str(), inputs());
  Tensor u = matmul(x, G_.transpose(0, 1));
  if (offset_ != nullptr) u = u + *offset_;
  if (!uses_norm_) return slope(u, {}, {});
  if (R_ == nullptr) {
    const double square = scale_ * scale_;
    return slope(u, sum(x * x, {1}, true) * square, x * (2 * square));
  }
  const Tensor z = matmul(x, R_->transpose(0, 1)) + *r_;
  return slope(u, sum(z * z, {1}, true), matmul(z, *R_) * 2.0);
}

int64_t TwoTowerFeatures::flops() const {
  const int64_t norm = uses_norm_ ? 2 * (R_ == nullptr ? inputs() : R_->size()) : 0;
  return 2 * G_.size() + norm;
}

Projection TwoTowerFeatures::projection(const Tensor& W, const Tensor& b) const {
  Projection now{G_,
                 offset_ == nullptr ? Tensor() : *offset_,
                 R_ == nullptr ? Tensor() : *R_,
                 r_ == nullptr ? Tensor() : *r_,
                 scale_,
                 composed_};
  if (W.defined()) {
    if (W.rank() != 2 || W.size(0) != inputs()) {
      fail("snnk: an affine map of weight {} before features of {} inputs", W.shape().str(), inputs());
    }
    return now.after(W, b);
  }
  for (Tensor* tensor : {&now.G, &now.offset, &now.R, &now.r}) {
    if (tensor->defined()) *tensor = tensor->clone();
  }
  return now;
}

Tensor TwoTowerFeatures::project_weights(const Tensor& W, const Tensor& b) const {
  if (composed_) fail("snnk: features after another layer have no weights of their own; map those of the first one");
  if (W.rank() != 2 || W.size(1) != inputs() || (b.defined() && b.size() != W.size(0))) {
    fail("snnk: weights {}{} for features of {} inputs; they must be (outputs, inputs) and (outputs)", W.shape().str(),
         b.defined() ? " and biases " + b.shape().str() : "", inputs());
  }
  const Tensor u = matmul(W.cast(DType::f64), G_.cast(DType::f64).transpose(0, 1));
  if (offset_ == nullptr || !b.defined()) return u;
  return u + column(b.cast(DType::f64)) * offset_->cast(DType::f64);
}

Tensor TwoTowerFeatures::weight_norms(const Tensor& W) const {
  return sum(W.cast(DType::f64) * W.cast(DType::f64), {1}, true) * (scale_ * scale_);
}

}  // namespace bochner
