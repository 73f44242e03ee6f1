// Informer's ProbSparse attention (Zhou et al., AAAI 2021): only the queries whose scores are the least uniform attend;
// the others take the mean of all values. The choice is made from a few random keys for each query.
#include <cmath>

#include "autograd/fused/softmax_attention.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/index.h"
#include "autograd/ops/join.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/view.h"
#include "engine/ops/index.h"
#include "engine/ops/join.h"
#include "engine/ops/reduce.h"
#include "engine/ops/sort.h"
#include "layers/attention/blocks.h"

namespace bochner {
namespace {

class Informer : public Mechanism {
 public:
  struct Options : SkyVersionOption {
    int64_t factor = 5;  ///< c: c ln L queries attend, chosen by c ln L keys
    void options(OptionList& list) {
      SkyVersionOption::options(list);
      list("factor", factor, "c of informer, in which c ln L queries attend").at_least(1).counts_where([this] {
        return !released();
      });
    }
  };

  Informer(Slot slot, int64_t /*heads*/, int64_t /*dim*/, const Options& options, Generator& /*init*/)
      : Mechanism(std::move(slot)), options_(options) {}

  Variable forward(const Variable& Q, const Variable& K, const Variable& V, const Mask& mask,
                   Context& context) override {
    const Scope scope(name());
    if (mask.causal) fail_causal("informer");
    // As released (SKY) there are no masks.
    const Tensor keys = released() ? Tensor() : mask.keys;
    const Tensor query_mask = Q.size(2) == K.size(2) ? keys : Tensor();
    const double scale = 1 / std::sqrt(static_cast<double>(Q.size(-1)));
    const Tensor active = active_queries(Q.value(), K.value(), query_mask, keys, context);  // i64 (B, H, u), -1: none
    const Tensor index = maximum(active, 0).unsqueeze(3);                                   // (B, H, u, 1)
    const Variable chosen = gather(Q, 2, index);                                            // (B, H, u, D)
    const Variable attended = softmax_attention({scale, false, {}}, chosen, K, V, keys);    // (B, H, u, E)
    const Variable mean_value = mean_of(V, keys);                                           // (B, H, 1, E)
    const Tensor row = row_of_each(active, Q.size(2)).to(Q.device());
    return gather(concat({attended, mean_value}, 2), 2, row);  // (B, H, Lq, E)
  }

 private:
  bool released() const { return options_.released(); }

  /// c ln n, rounded up, from 1 to n. As released (SKY) c = ceil(128 / ln n), and ln n is rounded up before it is
  /// multiplied.
  int64_t few(int64_t n) const {
    if (n < 2) return n;
    const double ln = std::log(static_cast<double>(n));
    const double count =
        released() ? std::ceil(128 / ln) * std::ceil(ln) : std::ceil(static_cast<double>(options_.factor) * ln);
    return std::min(n, static_cast<int64_t>(count));
  }

  Variable mean_of(const Variable& V, const Tensor& keys) const {
    if (!keys.defined()) return mean(V, {2}, true);
    const Tensor count = maximum(sum(keys.cast(V.dtype()), {1}), 1);
    return sum(without_padding(V, keys), {2}, true) / Variable(count.view({V.size(0), 1, 1, 1}));
  }

  /// The row of (attended; mean) that each query takes, from the numbers of the queries that attend: i64 (B, H, Lq, 1),
  /// on the CPU.
  static Tensor row_of_each(const Tensor& active, int64_t queries) {
    const int64_t u = active.size(2);
    const Shape shape{active.size(0), active.size(1), queries + 1,
                      1};  // the last one for entries of `active` without a query
    const Tensor rows = Tensor::full(shape, static_cast<double>(u), DType::i64);
    const Tensor at = where(less(active, 0), static_cast<double>(queries), active).to(Device::cpu());
    for (int64_t b = 0; b < at.size(0); ++b) {
      for (int64_t h = 0; h < at.size(1); ++h) {
        const std::vector<int64_t> numbers = at.select(0, b).select(0, h).to_vector<int64_t>();
        int64_t* const row = rows.select(0, b).select(0, h).data<int64_t>();
        for (int64_t i = 0; i < u; ++i) row[numbers[static_cast<size_t>(i)]] = i;
      }
    }
    return rows.slice(2, 0, queries).contiguous();
  }

  /// The u queries of each example and head with the largest M(q), i64 (B, H, most); -1 where an example has fewer.
  Tensor active_queries(const Tensor& Q, const Tensor& K, const Tensor& query_mask, const Tensor& key_mask,
                        Context& context) const {
    const int64_t Lq = Q.size(2);
    const auto queries = real_positions(query_mask, Q.size(0), Lq);
    const auto keys = real_positions(key_mask, K.size(0), K.size(2));
    const Generator noise = for_places(context);
    int64_t most = 1;
    for (const auto& real : queries) most = std::max(most, few(static_cast<int64_t>(real.size())));
    std::vector<Tensor> found;
    for (int64_t b = 0; b < Q.size(0); ++b) {
      Tensor M = measurements(Q.select(0, b), K.select(0, b), keys[static_cast<size_t>(b)], noise);
      if (query_mask.defined()) {
        M = where(query_mask.slice(0, b, b + 1), M, -std::numeric_limits<double>::infinity());
      }
      const int64_t u = few(static_cast<int64_t>(queries[static_cast<size_t>(b)].size()));
      const Tensor best = topk(M, std::min(most, Lq), 1).indices;  // (H, most)
      found.push_back(where(less(places(best.size(1), 1, 2, Q.device()), static_cast<double>(u)), best, -1));
    }
    return stack(found, 0);
  }

  /// M(q) = max_j s_j - sum_j s_j / n (Eq. 4) over sampled keys, where s_j = q . k_j: (H, Lq), for Q (H, Lq, D) and
  /// K (H, Lk, D) of one example. The sum is divided by the number n of all real keys, as in the authors' code. Each
  /// query has its own sampled keys, drawn with replacement; examples and heads share them.
  Tensor measurements(const Tensor& Q, const Tensor& K, const std::vector<int64_t>& real_keys,
                      const Generator& noise) const {
    constexpr int64_t kTile = 512;  // queries at once, so that their keys never take much memory
    const int64_t Lq = Q.size(1);
    const auto n = static_cast<int64_t>(real_keys.size());
    const int64_t count = few(n);
    Tensor M = Tensor::full({Q.size(0), Lq}, 0, Q.dtype(), Q.device());
    if (count == 0) return M;
    for (int64_t begin = 0; begin < Lq; begin += kTile) {
      const int64_t end = std::min(Lq, begin + kTile);
      std::vector<int64_t> sampled;
      for (int64_t i = begin; i < end; ++i) {
        Generator draw = noise.fork(static_cast<uint64_t>(i));  // so padding does not change other rows' keys
        for (int64_t s = 0; s < count; ++s) sampled.push_back(real_keys[static_cast<size_t>(draw.below(n))]);
      }
      const Tensor index = Tensor::from(sampled, {(end - begin) * count}, Q.device());
      for (int64_t h = 0; h < Q.size(0); ++h) {
        const Tensor q = Q.select(0, h).slice(0, begin, end).unsqueeze(1);                      // (rows, 1, D)
        const Tensor k = take(K.select(0, h), index, 0).view({end - begin, count, K.size(2)});  // (rows, count, D)
        const Tensor s = sum(k * q, {-1});                                                      // (rows, count)
        M.select(0, h).slice(0, begin, end).copy_(amax(s, {-1}) - sum(s, {-1}) / static_cast<double>(n));
      }
    }
    return M;
  }

  Options options_;
};

}  // namespace

void describe_informer(Mechanisms& list) {
  list.push_back(
      {.name = "informer",
       .year = 2021,
       .paper = "Zhou et al., Eqs. 3, 4",
       .equation = "O_i = softmax(q_i K^T / sqrt D) V for the c ln L least uniform queries, else the mean of V",
       .approximates = "softmax",
       .cost = "L ln L D",
       .released =
           "SKY: all tokens count as real, ceil(128 / ln L) ceil(ln L) queries, judged by as many keys; L is that "
           "of the batch, where SKY pads all to the longest",
       .skyformer = "as released",
       .maker = made_as<Informer>()});
}

}  // namespace bochner
