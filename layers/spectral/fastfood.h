// FastFood: Gaussian frequencies that are multiplied in O(M log dim) (Le, Sarlos, Smola, ICML 2013; KL Eqs. 6, 12).
#pragma once

#include "layers/spectral/distribution.h"

namespace bochner {

/// V = 1 / (sigma sqrt P) S H G Pi H B in each of ceil(M / P) blocks, shared by heads. H is the Walsh-Hadamard matrix,
/// Pi a random permutation, B random signs, G ~ N(0, I) and S_i = chi(P) / |G|. Every row of V is then distributed as
/// N(0, I / sigma^2). P is the head size rounded up to a power of two; x is padded with zeros.
///
/// Learnable diagonals start from such a draw (KL: FastFood-SGB; Appendix D.1: FastFood-S, where S alone learns, and
/// fixed FastFood). Everything else is redrawn according to the schedule. If S learns, G is drawn with |G| = sqrt P, so
/// a new draw changes the directions of rows but not their lengths.
struct FastFoodOptions {
  enum class Learn : unsigned char { sgb, s, none };
  Learn learn = Learn::sgb;
  double sigma = 1;
  /// S, G, B ~ N(0, 1 / P) as in KL's code: frequencies of about P^(-3/2), which make a nearly constant kernel.
  bool released_init = false;
};

class FastFoodFrequencies : public SpectralDistribution {
 public:
  FastFoodFrequencies(Slot slot, int64_t features, int64_t dim, FastFoodOptions options, RedrawSchedule schedule,
                      Generator& init);

 protected:
  /// (blocks, 4, P): S, G, B and the places of Pi, which a float holds exactly.
  Tensor draw(Generator& generator) override;
  VariableFrequencies transform(const Tensor& noise, bool training) override;

 private:
  Variable diagonal(Parameter* learnt, const Tensor& noise, int64_t row) const;

  int64_t size_;  ///< P
  int64_t blocks_;
  FastFoodOptions options_;
  Parameter* S_ = nullptr;  ///< (blocks, P), null if it does not learn
  Parameter* G_ = nullptr;
  Parameter* B_ = nullptr;
};

}  // namespace bochner
