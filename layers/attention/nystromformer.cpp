// Nystromformer (Xiong, Zeng, Chakraborty, Tan, Fung, Li, Singh, AAAI 2021): softmax attention through landmarks, which
// are means of segments of queries and of keys.
#include <bit>
#include <cmath>

#include "autograd/fused/softmax_attention.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/depthwise_convolution.h"
#include "autograd/ops/index.h"
#include "autograd/ops/linalg.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/view.h"
#include "engine/bf16.h"
#include "layers/attention/blocks.h"
#include "layers/attention/gaussian.h"
#include "layers/init.h"

namespace bochner {
namespace {

/// How `count` landmarks are taken from real tokens: landmark m is the mean of its segment, gathered from a rectangle.
struct Segments {
  Tensor index;    ///< i64 (B, 1, count * width, 1)
  Tensor weights;  ///< (B, 1, count, width, 1): 1 / size of the segment, 0 outside it
  Tensor full;     ///< bool (B, count): segments that have tokens

  Variable means(const Variable& x) const {
    const int64_t count = weights.size(2);
    const Variable tokens = reshape(gather(x, 2, index), {x.size(0), x.size(1), count, weights.size(3), x.size(3)});
    return sum(tokens * Variable(weights.cast(x.dtype())), {3});  // (B, H, count, D)
  }
};

class Nystromformer : public Mechanism {
 public:
  struct Options : Joined<FeatureCount, LandmarkInverse, LongestSequence, SkyVersionOption> {
    int64_t convolution = 33;
    void options(OptionList& list) {
      Joined::options(list);
      list("convolution", convolution, "positions that nystromformer's convolution spans; 0: none").at_least(0);
    }
  };

  Nystromformer(Slot slot, int64_t heads, int64_t /*dim*/, const Options& options, Generator& init)
      : Mechanism(std::move(slot)), options_(options) {
    const int64_t width = released() ? 0 : options.convolution;
    if (width != 0 && width % 2 == 0) fail("nystromformer: a convolution over {} places; odd ones only", width);
    if (width != 0) convolution_ = &parameter("convolution", init::fan_in_uniform({heads, width}, width, init));
  }

  // O = F A^+ B V + conv(V),  F = softmax(Q K~^T),  A = softmax(Q~ K~^T),  B = softmax(Q~ K^T), all over sqrt(D)
  Variable forward(const Variable& Q, const Variable& K, const Variable& V, const Mask& mask, Context&) override {
    const Scope scope(name());
    if (mask.causal) fail_causal("nystromformer");
    const double scale = 1 / std::sqrt(static_cast<double>(Q.size(-1)));
    const Tensor query_mask = Q.size(2) == K.size(2) ? mask.keys : Tensor();
    const Variable q = released() ? without_padding(Q, query_mask) : Q;
    const Variable k = released() ? without_padding(K, mask.keys) : K;
    const auto of_queries = averaged(query_mask, Q.size(0), Q.size(2));
    const auto of_keys = averaged(mask.keys, K.size(0), K.size(2));
    const Segments of_q = segments(of_queries, Q.size(2), of_queries, of_keys, Q.device());
    const Segments of_k = segments(of_keys, K.size(2), of_queries, of_keys, Q.device());
    const Variable Q_ = of_q.means(q);                                               // (B, H, M, D)
    const Variable K_ = of_k.means(k);                                               // (B, H, M, D)
    const Variable BV = softmax_attention({scale, false, {}}, Q_, K, V, mask.keys);  // (B, H, M, E)
    const Variable W = inverse_times(scores(Q_, K_, scale, of_k.full), BV);          // (B, H, M, E)
    const Variable O = softmax_attention({scale, false, {}}, q, K_, W, of_k.full);   // (B, H, Lq, E)
    if (convolution_ == nullptr || Q.size(2) != V.size(2)) return O;
    const int64_t H = V.size(1);
    const Variable taps = cast(*convolution_, compute_dtype(V.dtype()));  // one filter for all numbers of a head
    const Variable of_all = expand(reshape(taps, {H, 1, taps.size(1), 1}), {H, 1, taps.size(1), V.size(3)});
    return O + depthwise_convolution(without_padding(V, mask.keys), of_all);
  }

 private:
  bool released() const { return options_.released(); }

  /// The places of each example whose means are taken: real tokens. As released, all of the longest sequence, a power
  /// of 2: padding is zeros in the means, and so is what lies behind the batch.
  std::vector<std::vector<int64_t>> averaged(const Tensor& real, int64_t batch, int64_t length) const {
    if (!released() || length == 0) return real_positions(real, batch, length);
    const auto whole = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max(options_.length, length))));
    return real_positions({}, batch, whole);
  }

  /// Segments of `of`, as many as the shorter of both sequences allows. Places from `length` on are zeros.
  Segments segments(const std::vector<std::vector<int64_t>>& of, int64_t length,
                    const std::vector<std::vector<int64_t>>& queries, const std::vector<std::vector<int64_t>>& keys,
                    Device device) const {
    const auto batch = static_cast<int64_t>(of.size());
    const int64_t M = options_.features;
    const auto size = [](const std::vector<int64_t>& tokens) { return static_cast<int64_t>(tokens.size()); };
    std::vector<int64_t> counts;  // of segments
    int64_t width = 1;            // of the widest one
    for (size_t b = 0; b < of.size(); ++b) {
      counts.push_back(std::min({M, size(queries[b]), size(keys[b])}));
      if (counts[b] > 0) width = std::max(width, (size(of[b]) + counts[b] - 1) / counts[b]);
    }
    std::vector<int64_t> index(static_cast<size_t>(batch * M * width));
    std::vector<double> weights(index.size());
    std::vector<uint8_t> full(static_cast<size_t>(batch * M));
    for (int64_t b = 0; b < batch; ++b) {
      const auto& tokens = of[static_cast<size_t>(b)];
      const int64_t n = size(tokens);
      const int64_t count = counts[static_cast<size_t>(b)];
      for (int64_t m = 0; m < count; ++m) {
        const int64_t begin = m * n / count;
        const int64_t end = (m + 1) * n / count;
        for (int64_t i = begin; i < end; ++i) {
          if (tokens[static_cast<size_t>(i)] >= length) continue;
          const auto at = static_cast<size_t>((b * M + m) * width + i - begin);
          index[at] = tokens[static_cast<size_t>(i)];
          weights[at] = 1 / static_cast<double>(end - begin);
        }
        full[static_cast<size_t>(b * M + m)] = 1;
      }
    }
    return {Tensor::from(index, {batch, 1, M * width, 1}, device),
            Tensor::from(weights, {batch, 1, M, width, 1}, device),
            Tensor::from(full, {batch, M}, device).cast(DType::boolean)};
  }

  /// A (B, H, M, M); a segment without tokens keeps to itself.
  Variable scores(const Variable& Q_, const Variable& K_, double scale, const Tensor& full) const {
    const int64_t M = Q_.size(2);
    const Variable hidden = Tensor::scalar(-1e30, Q_.dtype(), Q_.device());
    const Variable all = matmul(Q_ * scale, transpose(K_, -2, -1));
    const Variable A = softmax(where(full.view({full.size(0), 1, 1, M}), all, hidden));
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
       .equation = "O = softmax(Q K~^T) softmax(Q~ K~^T)^+ softmax(Q~ K^T) V + conv(V), ~: means of segments",
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
