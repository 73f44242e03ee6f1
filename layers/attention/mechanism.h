// An attention mechanism maps Q, K, V of shape (batch, heads, length, dim) to the weighted means O of the same shape.
// Projections stay in MultiHeadAttention, so a mechanism is the kernel alone. To add one, write a class and its
// describe_NAME in one file, and name it in registry.cpp.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "layers/mask.h"
#include "layers/module.h"

namespace bochner {

class Mechanism : public Module {
 public:
  using Module::Module;
  /// Q (B, H, Lq, D), K, V (B, H, Lk, D) -> (B, H, Lq, D). A query that may look at no key gets zeros.
  virtual Variable forward(const Variable& Q, const Variable& K, const Variable& V, const Mask& mask,
                           Context& context) = 0;
  /// Whether Q, K, V may be bf16, and then O as well. Otherwise they are passed in f32.
  virtual bool reads_bf16() const { return false; }
  /// The frequencies that a forward pass uses where it does not draw, Omega (1 or heads, M, dim), of FastFood with as
  /// many columns as a power of two; undefined where there are none. Of the generative kernels those of training
  /// differ, as BatchNorm's do, and to ask for them moves its running statistics.
  virtual Tensor frequencies(bool /*training*/ = false) { return {}; }
};

/// The options of mechanisms. Each reads the fields that its line of the registry names under `options`.
struct AttentionOptions {
  enum class As : unsigned char { paper, released };
  /// How rows of Omega depend on one another: not at all, or orthogonal by one of three constructions (PERF §B.2).
  enum class Coupling : unsigned char { independent, orthogonal, hadamard, givens };

  /// M, the papers' number of random features: frequencies, rows of Omega, those of all Gaussians of a mixture
  /// together. The map phi has more rows where it makes a pair of each frequency: F = 2 M. Or landmarks.
  int64_t features = 128;
  Coupling coupling = Coupling::orthogonal;
  int64_t redraw = 100;  ///< training steps between draws of frequencies; 0: never; KL: 100, PERF: "periodically"
  bool redraw_in_evaluation = false;  ///< a new draw for each evaluation batch (KL as released)
  int64_t components = 2;             ///< C of the Gaussian mixture (KL Eq. 4)
  /// Tied: C = 2, mu_1 = -mu_2 and Sigma_1 = Sigma_2, as in KL's experiments (footnote 2).
  enum class Mixture : unsigned char { free, tied };
  Mixture mixture = Mixture::free;
  /// Sigma of its components: KL has matrices in gmm-rks and diagonals in gmm-prf (KL Eqs. 5, 10; Table 1).
  enum class Covariance : unsigned char { paper, diagonal, full };
  Covariance covariance = Covariance::paper;
  double sigma = 1;          ///< of FastFood: frequencies are N(0, 1 / sigma^2) at first (KL Eq. 6)
  double kernel_eps = 1e-3;  ///< added to generalised features f(Omega x) (PERF A.4), exponentials of them included
  bool renormalise = true;   ///< divide by the sum of weights (PERF §2.1; without: §D.4)
  /// The stabiliser of positive features (PERF A.3), added, as in its authors' code, to exponentials that are shifted:
  /// of a query it is a share of its largest one, of keys of the largest among those it sees. Derivatives take that
  /// largest one as a constant, which is true to the share alone: 0 makes them exact.
  double eps = 1e-6;
  /// Added to the sum of weights (KL as released). Of exponentials the sum is that of the shifted ones, and derivatives
  /// take the shift as a constant: 0, as all papers write it, makes them exact. A query without keys gets zeros.
  double denominator_eps = 0;
  double dropout = 0;     ///< of the attention weights, where there are such
  bool streaming = true;  ///< the fused kernels; else the plain composition
  As as = As::paper;      ///< where paper and released code differ

  // Nystrom methods: `features` landmarks.
  int64_t iterations = 6;      ///< of the inverse (SKY §4.4), or of Sinkhorn's normalisation
  bool exact_inverse = false;  ///< the pseudo-inverse of SKY Eq. 5 instead of the iteration, which damps
  double gamma = 0.1;          ///< added to the diagonal before it (SKY §4.4)
  /// What Skyformer approximates: its own Gaussian kernel, or the matrix of softmax attention and then its row sums
  /// (SKY §4.5, whose authors advise against training it).
  enum class Kernel : unsigned char { gaussian, softmax };
  Kernel kernel = Kernel::gaussian;
  int64_t convolution = 33;  ///< places that Nystromformer's convolution of V spans; 0: none

  // Patterns.
  int64_t length = 0;  ///< the longest sequence, for parameters that belong to places (linformer, synthesizer)
  /// Tokens of a block, chunk or bucket, of a stride (sparse: at least the square root of `length`), and to either side
  /// of a token (longformer).
  int64_t block = 64;
  int64_t global_tokens = 1;  ///< the first ones, which see all and are seen by all (longformer)
  int64_t random_blocks = 3;  ///< for each block of queries (bigbird)
  int64_t summary = 8;        ///< tokens at the end of each block that later ones see (sparse)
  int64_t hashes = 4;         ///< rounds of hashing (reformer)
  int64_t factor = 5;         ///< c: c ln L queries attend, c ln L keys judge them (informer)
  double temperature = 0.75;  ///< of sorting (sinkhorn)
  enum class Synthesis : unsigned char { random, factorized, dense };
  Synthesis synthesis = Synthesis::random;  ///< where the synthesizer has its scores from
};

/// A line of the registry.
struct MechanismInfo {
  std::string name;
  int year;
  std::string paper;
  std::string equation;
  std::string approximates;  ///< empty: exact
  std::string cost;          ///< time, in length L, dim D and features M
  bool causal;               ///< has a causal form
  std::string learns;        ///< its learnable parts, empty for none
  std::string options;       ///< the fields of AttentionOptions that it reads
  std::function<std::unique_ptr<Mechanism>(Slot slot, int64_t heads, int64_t dim, const AttentionOptions& options,
                                           Generator& init)>
      make;
  std::string released = {};  ///< what it does otherwise where `as` is released; empty: nothing
};
using Mechanisms = std::vector<MechanismInfo>;

/// All mechanisms, in the order of layers/attention/registry.cpp.
const Mechanisms& mechanisms();
/// An Error that names the mechanisms which do have a causal form, in the name of `mechanism`.
[[noreturn]] void fail_causal(const std::string& mechanism);
/// Refuses queries and keys that are not of the same tokens, which `mechanism` needs.
void require_self_attention(const std::string& mechanism, const Variable& Q, const Variable& K);
/// The line of that name, or an Error that names the nearest one.
const MechanismInfo& mechanism_named(const std::string& name);

}  // namespace bochner
