// SNNK in a Transformer: adapters (SNNK Appendix D), the pooler with its classifier (Appendix E) and a feed-forward
// block for uptraining (Appendix J.4).
#pragma once

#include "layers/adapters.h"
#include "layers/snnk/bundle.h"

namespace bochner {

struct AdapterOptions {
  SnnkOptions snnk{.activation = "relu", .features = 16};
  /// The matrix W of the initial A = Psi(W) is N(0, deviation^2).
  double deviation = 0.02;
  /// Outputs of the SNNK layer, which a Linear then maps back to dim in place of the gate; 0: no such Linear.
  int64_t down = 0;
};

/// y = x + v * (A Phi(x)), with v = 0 at first, so that an adapter begins as the identity (Eqs. 21, 22). Its parameters
/// are the dim x features numbers of A and the dim numbers of v (the text of the paper counts (dim + 1) features). With
/// `down`, y = x + Linear(A Phi(x)), whose weight and bias begin as 0.
class SnnkAdapter final : public Adapter {
 public:
  SnnkAdapter(Slot slot, int64_t dim, const AdapterOptions& options, Generator& init);
  /// (..., dim) -> (..., dim)
  Variable forward(const Variable& x) const override;

 private:
  Snnk snnk_;
  Parameter* gate_ = nullptr;  ///< v (dim)
  std::unique_ptr<Linear> up_;
};

/// activation(x W_p^T + b_p) W_c^T + b_c with the pooler as an SNNK layer (Eq. 23); inputs and pooler weights are
/// divided by dim^(1/4) (H.2), so it begins as activation(x W_p^T / sqrt(dim) + b_p). bundle() turns both matrices into
/// one of (classes, features).
class SnnkPooler : public Module {
 public:
  /// Replaces a trained pooler and a classifier, whose weights it copies.
  SnnkPooler(Slot slot, const Linear& pooler, const Linear& classifier, const SnnkOptions& options, Generator& init);
  /// (..., dim) -> (..., classes)
  Variable forward(const Variable& x) const { return scores(pooled(x)); }
  /// The first half of forward: the pooler's output (..., dim).
  Variable pooled(const Variable& x) const;
  /// The second half: the scores from that output.
  Variable scores(const Variable& pooled) const;
  Bundle bundle(Slot slot = {}) const { return {std::move(slot), {&pooler_, &classifier_}}; }

 private:
  Snnk pooler_;
  Linear classifier_;
};

/// The feed-forward block of a Transformer, out(activation(in(x))), with `in` and the activation as an SNNK layer;
/// bundle() leaves one matrix of (dim, features). Each block has its own weights.
class SnnkFeedForward : public Module {
 public:
  /// Replaces a trained block, whose `out` it copies.
  SnnkFeedForward(Slot slot, const Linear& in, const Linear& out, const SnnkOptions& options, Generator& init);
  /// (..., dim) -> (..., dim)
  Variable forward(const Variable& x) const;
  Bundle bundle(Slot slot = {}) const { return {std::move(slot), {&in_, &out_}}; }
  /// Multiplications and additions of one row, before bundling.
  int64_t flops() const;

 private:
  Snnk in_;
  Linear out_;
};

}  // namespace bochner
