// Skyformer (Chen, Zeng, Ji, Yang, NeurIPS 2021): Gaussian kernel attention by the Nystrom method on the kernel matrix
// of queries and keys together, which is positive definite where that of queries against keys is not.
#include <cmath>

#include "autograd/fused/gaussian_kernel.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/index.h"
#include "autograd/ops/join.h"
#include "autograd/ops/linalg.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/unary.h"
#include "autograd/ops/view.h"
#include "engine/ops/binary.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "layers/attention/blocks.h"
#include "layers/attention/gaussian.h"
#include "layers/attention/landmarks.h"

namespace bochner {
namespace {

class Skyformer : public Mechanism {
 public:
  /// What is approximated: the Gaussian kernel, or the matrix of softmax attention and then its row sums (SKY §4.5,
  /// whose authors advise against training it).
  enum class Kernel : unsigned char { gaussian, softmax };

  struct Options : Joined<FeatureCount, LandmarkInverse, SkyVersionOption> {
    double gamma = 0.1;  ///< added to the diagonal before it is inverted (SKY §4.4)
    Kernel kernel = Kernel::gaussian;
    void options(OptionList& list) {
      Joined::options(list);
      list("gamma", gamma, "added to skyformer's diagonal").above(0).counts_where([this] { return !exact_inverse; });
      list("kernel", kernel, {{"gaussian", Kernel::gaussian}, {"softmax", Kernel::softmax}},
           "what skyformer approximates: its own kernel, or softmax's");
    }
  };

  Skyformer(Slot slot, int64_t /*heads*/, int64_t /*dim*/, const Options& options, Generator& /*init*/)
      : Mechanism(std::move(slot)), options_(options) {}

  // O = C V,  C ~ kappa(Q, Z) (kappa(Z, Z) + gamma I)^-1 kappa(Z, K),  Z = S^T (Q; K)             (SKY Eqs. 4-6)
  Variable forward(const Variable& Q, const Variable& K, const Variable& V, const Mask& mask,
                   Context& context) override {
    const Scope scope(name());
    if (mask.causal) fail_causal("skyformer");
    // As released, the scale is that of heads of 32, and padded tokens are zeros that may become landmarks.
    const double scale = std::pow(released() ? 32.0 : static_cast<double>(Q.size(-1)), -0.25);
    const Tensor query_mask = Q.size(2) == K.size(2) ? mask.keys : Tensor();
    const Variable q = released() ? without_padding(Q * scale, query_mask) : Q * scale;                // (B, H, Lq, D)
    const Variable k = released() ? without_padding(K * scale, mask.keys) : K * scale;                 // (B, H, Lk, D)
    const Variable Z = gather(concat({q, k}, 2), 2, landmarks(Q, K, query_mask, mask.keys, context));  // (B, H, M, D)
    if (options_.kernel == Kernel::softmax) return approximate_softmax(q, k, V, Z, mask.keys);
    const Variable KV = matmul(gaussian_kernel(Z, k, mask.keys), V);                 // (B, H, M, E)
    return matmul(gaussian_kernel(q, Z), inverse_times(gaussian_kernel(Z, Z), KV));  // (B, H, Lq, E)
  }

 private:
  bool released() const { return options_.released(); }

  /// O = A~ V / A~ 1,  A~ = SM(Q, Z) (SM(Z, Z) + gamma I)^-1 SM(Z, K),  SM(x, y) = exp(x . y)   (SKY §4.5)
  /// Each factor is divided by its largest entry, of each query or of each example and head, which cancels except for
  /// gamma. Sums of approximate weights may be near 0 or negative.
  Variable approximate_softmax(const Variable& q, const Variable& k, const Variable& V, const Variable& Z,
                               const Tensor& keys) const {
    const auto scores = [](const Variable& x, const Variable& y) { return matmul(x, transpose(y, -2, -1)); };
    const Variable ZZ = scores(Z, Z);                                     // (B, H, M, M)
    const Variable W = exp(ZZ - amax(amax(ZZ, {-1}, true), {-2}, true));  // (B, H, M, M)
    const Variable QZ = scores(q, Z);                                     // (B, H, Lq, M)
    const Variable F = exp(QZ - Variable(amax(QZ.value(), {-1}, true)));  // (B, H, Lq, M)
    Variable ZK = scores(Z, k);                                           // (B, H, M, Lk)
    if (keys.defined()) ZK = where(keys.view({keys.size(0), 1, 1, keys.size(1)}), ZK, kNegligible);
    const Variable G = exp(ZK - Variable(amax(amax(ZK.value(), {-1}, true), {-2}, true)));  // (B, H, M, Lk)
    const Variable ones = Tensor::full({V.size(0), V.size(1), V.size(2), 1}, 1, V.dtype(), V.device());
    const Variable V1 = without_padding(concat({V, ones}, 3), keys);  // (B, H, Lk, E + 1)
    const Variable O = matmul(F, inverse_times(W, matmul(G, V1)));    // (B, H, Lq, E + 1)
    const Variable sums = slice(O, 3, V.size(3), V.size(3) + 1);
    const Variable tiny = Tensor::scalar(1e-20, V.dtype(), V.device());
    const Tensor vanishes = less(abs(sums.value()), tiny.value());
    return slice(O, 3, 0, V.size(3)) / where(vanishes, tiny, sums);
  }

  Tensor landmarks(const Variable& Q, const Variable& K, const Tensor& query_mask, const Tensor& key_mask,
                   Context& context) const {
    const auto draw = released() ? drawn_landmarks_as_released : drawn_landmarks;
    return draw(options_.features, real_tokens(query_mask, Q), real_tokens(key_mask, K), context.generator);
  }

  /// W^-1 X for W = kappa(Z, Z) (B, H, M, M). W + gamma I is normalised to A = D^-1/2 (W + gamma I) D^-1/2, where D has
  /// its row sums; the eigenvalues of A lie in (0, 1] (SKY Lemma 3), and it is inverted by iteration. Or W^-1 is the
  /// pseudo-inverse of SKY Eq. 5.
  Variable inverse_times(const Variable& W, const Variable& X) const {
    if (options_.exact_inverse) return matmul(pinv(W), X);
    const Variable damped = W + Variable(identity(W.size(-1), W.dtype(), W.device()) * options_.gamma);
    const Variable root = pow(sum(damped, {-1}, true), -0.5);    // D^-1/2: (B, H, M, 1)
    const Variable A = damped * root * transpose(root, -2, -1);  // (B, H, M, M)
    const Variable columns = sum(A, {-2}, true);                 // (B, H, 1, M)
    // As released, the largest column sum of the whole batch, so examples influence one another.
    const Variable s = released() ? amax(columns) : amax(columns, {-1}, true);
    return matmul(iterative_inverse(A, s, options_.iterations), X * root) * root;
  }

  Options options_;
};

}  // namespace

void describe_skyformer(Mechanisms& list) {
  list.push_back(
      {.name = "skyformer",
       .year = 2021,
       .paper = "SKY Eqs. 3-6, §4.4",
       .equation = "O = kappa(Q, Z) (kappa(Z, Z) + gamma I)^-1 kappa(Z, K) V, Z sampled from (Q; K)",
       .approximates = "gaussian",
       .cost = "L M D + M^3",
       .released =
           "the scale of heads of 32; padded tokens are zeros that may be landmarks, half of them queries, half "
           "keys; one scale of the inverse for the batch",
       .skyformer = "as released",
       .maker = made_as<Skyformer>()});
}

}  // namespace bochner
