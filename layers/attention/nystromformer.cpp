// Nystromformer (Xiong, Zeng, Chakraborty, Tan, Fung, Li, Singh, AAAI 2021): softmax attention through landmarks, which
// are means of segments of queries and of keys.
#include <cmath>

#include "autograd/fused/softmax_attention.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/depthwise_convolution.h"
#include "autograd/ops/linalg.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/view.h"
#include "engine/bf16.h"
#include "engine/math.h"
#include "engine/ops/binary.h"
#include "engine/ops/scan.h"
#include "layers/attention/blocks.h"
#include "layers/attention/gaussian.h"
#include "layers/attention/landmarks.h"
#include "layers/init.h"

namespace bochner {
namespace {

class Nystromformer : public Mechanism {
 public:
  struct Options : Joined<FeatureCount, LandmarkInverse, LongestSequence, SkyVersionOption> {
    int64_t convolution = 33;
    void options(OptionList& list) {
      Joined::options(list);
      list.at("length").counts_where([this] { return released(); });
      list("convolution", convolution, "positions that nystromformer's convolution spans, an odd number; 0: none")
          .at_least(0)
          .at_most(kMostOfASize)
          .counts_where([this] { return !released(); });
    }
  };

  Nystromformer(Slot slot, int64_t heads, int64_t /*dim*/, const Options& options, Generator& init)
      : Mechanism(std::move(slot)), options_(options) {
    const int64_t width = released() ? 0 : options.convolution;
    if (width != 0 && width % 2 == 0)
      fail("nystromformer: convolution={}: an odd number of positions, or 0 for none", width);
    if (width != 0) convolution_ = &parameter("convolution", init::fan_in_uniform({heads, width}, width, init));
  }

  // O = F A^+ B V + conv(V),  F = softmax(Q K~^T),  A = softmax(Q~ K~^T),  B = softmax(Q~ K^T), all over sqrt(D)
  Variable forward(const Variable& Q, const Variable& K, const Variable& V, const Mask& mask, Context&) override {
    const Scope scope(name());
    if (mask.causal) fail_causal("nystromformer");
    const double scale = 1 / std::sqrt(static_cast<double>(Q.size(-1)));
    const Tensor query_mask = Q.size(2) == K.size(2) ? mask.keys : Tensor();
    const Variable real_q = without_padding(Q, query_mask);
    const Variable real_k = without_padding(K, mask.keys);
    const Variable q = released() ? real_q : Q;
    const Averaged of_q = averaged(query_mask, Q);
    const Averaged of_k = averaged(mask.keys, K);
    const auto most = static_cast<double>(options_.features);
    const Tensor count = minimum(minimum(of_q.count, of_k.count), most);  // of segments, as many as both have
    const Segments queries = segments(options_.features, of_q.ranks, of_q.count, count);
    const Segments keys = segments(options_.features, of_k.ranks, of_k.count, count);
    const Variable Q_means = queries.means(real_q);                                              // (B, H, M, D)
    const Variable K_means = keys.means(real_k);                                                 // (B, H, M, D)
    const Variable BV = softmax_attention({scale, false, {}}, Q_means, K, V, mask.keys);         // (B, H, M, E)
    const Variable W = inverse_times(landmark_weights(Q_means, K_means, scale, keys.full), BV);  // (B, H, M, E)
    const Variable O = softmax_attention({scale, false, {}}, q, K_means, W, keys.full);          // (B, H, Lq, E)
    if (convolution_ == nullptr || Q.size(2) != V.size(2)) return O;
    const int64_t H = V.size(1);
    const Variable taps = cast(*convolution_, compute_dtype(V.dtype()));  // one filter for all channels of a head
    const Variable of_all = expand(reshape(taps, {H, 1, taps.size(1), 1}), {H, 1, taps.size(1), V.size(3)});
    return O + depthwise_convolution(without_padding(V, mask.keys), of_all);
  }

 private:
  bool released() const { return options_.released(); }

  /// The tokens over which means are taken.
  struct Averaged {
    Tensor ranks;  ///< i64 (B, L), from 1
    Tensor count;  ///< i64 (B, 1)
  };

  /// The real tokens. As released, all positions of the longest sequence, a power of 2: in the means, padding counts as
  /// zeros, and so do the positions after the end of the batch.
  Averaged averaged(const Tensor& mask, const Variable& x) const {
    const Tensor real = real_tokens(released() ? Tensor() : mask, x);
    const Tensor ranks = cumsum(real.cast(DType::i64), 1);
    if (!released() || x.size(2) == 0) return {ranks, count_of(real)};
    const int64_t whole = std::max(options_.length, x.size(2));
    const auto count = static_cast<double>(next_power_of_two(whole));
    return {ranks, Tensor::full({x.size(0), 1}, count, DType::i64, x.device())};
  }

  /// A (B, H, M, M); a segment without tokens attends only to itself.
  Variable landmark_weights(const Variable& Q_means, const Variable& K_means, double scale, const Tensor& full) const {
    const int64_t M = Q_means.size(2);
    const Variable all = matmul(Q_means * scale, transpose(K_means, -2, -1));
    const Variable A = softmax(where(full.view({full.size(0), 1, 1, M}), all, kNegligible));
    return where(full.view({full.size(0), 1, M, 1}), A, Variable(identity(M, A.dtype(), A.device())));
  }

  /// A^+ X; Z0 = A^T / (|A|_1 |A|_inf), where the rows of A sum to 1. As released, |A|_1 is that of the whole batch.
  Variable inverse_times(const Variable& A, const Variable& X) const {
    if (options_.exact_inverse) return matmul(pinv(A), X);
    const Variable columns = sum(A, {-2}, true);
    const Variable s = released() ? amax(columns) : amax(columns, {-1}, true);
    return matmul(iterative_inverse(A, s, options_.iterations), X);
  }

  Options options_;
  Parameter* convolution_ = nullptr;  ///< (heads, width)
};

}  // namespace

void describe_nystromformer(Mechanisms& list) {
  list.push_back(
      {.name = "nystromformer",
       .year = 2021,
       .paper = "Xiong et al.",
       .equation = "O = softmax(Q K~^T) softmax(Q~ K~^T)^+ softmax(Q~ K^T) V + conv(V), ~: means of segments; "
                   "conv(V) where Q has as many tokens as V",
       .approximates = "softmax",
       .cost = "L M D + M^3",
       .learns = "the convolution",
       .released = "SKY: segments of the longest sequence, padded tokens are zeros in the means, one scale of the "
                   "inverse for the "
                   "batch, no convolution",
       .skyformer = "as released",
       .maker = made_as<Nystromformer>()});
}

}  // namespace bochner
