// Cauchy attention: a shift-invariant kernel with heavier tails than the Gaussian, and a width that each head learns.
#include <cmath>

#include "autograd/ops/binary.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/unary.h"
#include "autograd/ops/view.h"
#include "layers/attention/mechanism.h"

namespace bochner {
namespace {

class CauchyAttention : public Mechanism {
 public:
  struct Options {
    double sharpness = 1;
    void options(OptionList& list) { list("sharpness", sharpness, "s of each head before training").above(0); }
  };

  CauchyAttention(Slot slot, int64_t heads, int64_t /*dim*/, const Options& options, Generator& /*init*/)
      : Mechanism(std::move(slot)),
        log_s_(&parameter("log_s", Tensor::full({heads, 1, 1}, std::log(options.sharpness)))) {}

  // O_i = sum_j C_ij v_j / sum_j C_ij,  C_ij = 1 / (1 + s |q_i - k_j|^2 / sqrt D)
  Variable forward(const Variable& Q, const Variable& K, const Variable& V, const Mask& mask, Context&) override {
    const Scope scope(name());
    if (mask.causal) fail_causal("cauchy");
    const auto squares = [](const Variable& x) { return sum(square(x), {-1}, true); };  // (B, H, L, 1)
    const Variable dots = matmul(Q, transpose(K, -2, -1));                              // (B, H, Lq, Lk)
    const Variable D2 = squares(Q) + transpose(squares(K), -2, -1) - dots * 2;          // (B, H, Lq, Lk)
    const Variable s = exp(*log_s_) / std::sqrt(static_cast<double>(Q.size(-1)));       // (H, 1, 1)
    Variable C = reciprocal(maximum(D2, 0) * s + 1);                                    // rounding may leave D2 < 0
    if (mask.keys.defined()) C = where(mask.keys.unsqueeze(1).unsqueeze(1), C, 0);
    return matmul(C, V) / maximum(sum(C, {-1}, true), 1e-30);  // (B, H, Lq, E)
  }

 private:
  Parameter* log_s_;
};

}  // namespace

void describe_cauchy(Mechanisms& list) {
  list.push_back({.name = "cauchy",
                  .year = 2026,
                  .paper = "chapter 5",
                  .equation = "C_ij = 1 / (1 + s |q_i - k_j|^2 / sqrt D)",
                  .cost = "L^2 D",
                  .learns = "s",
                  .maker = made_as<CauchyAttention>()});
}

}  // namespace bochner
