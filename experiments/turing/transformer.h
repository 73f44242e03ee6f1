// KL Theorems 1 and 2 as a program: the encoder-decoder Transformer of KL Appendix A, with weights that are constructed
// instead of learnt, executes a Turing machine. Its attention is the hard form of Gaussian attention.
//
// A decoder's vector (KL Eq. 20), with one-hot codes that are 0 for the blank and for the state of copying the input:
//
//   q1  s1  x1  x2 | q2  s2  x3  x4  x5  x6 | x7  s4  x8 | x9  x10  x11  x12
//
// q1, s1: state and symbol under the head; x1: the move that led there; x2: the head's cell. q2, s2, x3, x4: next
// state, symbol to write, this move and the one before. x7: the encoder's cell that was read. s4, x8: what was last
// written to the head's next cell, and when. x9 ... x12: positions 1, i + 1, 1 / (i + 1), 1 / (i + 1)^2.
#pragma once

#include "engine/tensor.h"
#include "experiments/turing/machine.h"

namespace bochner::turing {

/// O(a) = W2 step(W1 a + b) with step(x) = 1 where x > 0, else 0: a feed-forward layer of perceptrons (KL A.1).
struct Perceptrons {
  Tensor W1, b, W2;                          ///< (hidden, size), (hidden), (size, hidden)
  Tensor operator()(const Tensor& a) const;  ///< (size) -> (size)
};

/// Hard Gaussian attention (KL Eqs. 29, 30): the mean of those v_j whose -|q - k_j|^2 is the largest.
Tensor hard_attention(const Tensor& q, const Tensor& K, const Tensor& V);  ///< (d), (n, d), (n, e) -> (e)

class Transformer {
 public:
  /// The encoder reads the input, followed by one blank.
  Transformer(const Machine& machine, const std::vector<int64_t>& input);

  int64_t size() const { return size_; }  ///< of a vector: 2 |Q| + 3 |Sigma| + 12
  int64_t parameters() const;             ///< numbers in all matrices
  /// Appends one vector to the decoder's sequence: one step of the machine, or of copying its input to the tape.
  void step();
  /// Whether the input is still being copied.
  bool is_copying() const;
  /// The configuration in the vectors, and the tape from what was written; the symbol under the head must match the
  /// tape's.
  Configuration configuration() const;
  /// The symbol under the head, which attention has found.
  int64_t symbol() const;

 private:
  int64_t one_hot(const Tensor& vector, int64_t place, int64_t count) const;

  int64_t states_, symbols_;  ///< |Q|, |Sigma| without the blank
  int64_t size_;
  int64_t q1_, s1_, x1_, x2_, q2_, s2_, x3_, x4_, x7_, s4_, x8_, x9_;  ///< places in a vector

  // The encoder's keys and values for the decoder, (n, 2) and (n, size).
  Tensor K_encoder_, V_encoder_;
  // Layer 1: cross attention. Layer 2: attention to earlier vectors.
  Tensor Wq1_;              ///< (2, size)
  Tensor Wq2_, Wk2_, Wv2_;  ///< (3, size), (3, size), (size, size)
  Perceptrons O1_, O2_;
  Tensor F1_, F2_;  ///< of the output y = F2 relu(F1 z): (2 size of the first group, size), (size, ...)

  Tensor y_;                           ///< (size): the decoder's latest output, its next input
  std::vector<Tensor> keys_, values_;  ///< of layer 2, for each vector so far
  std::vector<int64_t> tape_;
  int64_t steps_ = 0;
};

}  // namespace bochner::turing
