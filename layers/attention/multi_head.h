// Multi-head attention: projections around a mechanism.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "layers/attention/mechanism.h"
#include "layers/linear.h"
#include "layers/rotary.h"

namespace bochner {

struct MultiHeadOptions {
  MechanismOptions mechanism = "softmax";
  int64_t heads = 1;
  int64_t head_dim = 0;           ///< 0: dim / heads, which must divide
  LinearOptions projection = {};  ///< of Q, K, V and the output
  int64_t rotary = 0;             ///< longest sequence for rotary positions (layers/rotary.h); 0: no rotary positions
  int64_t rotary_width = 0;       ///< pixels in a row, for rotary positions by row and column
  int64_t convolution = 0;        ///< size of a convolution of the values, in tokens or in pixels each way; 0: none
  int64_t columns = 0;            ///< pixels in a row, for a convolution over images; 0: not over images
  /// Called in each forward pass with the module's path and the mechanism's output O (batch, heads, length, dim), to
  /// analyse trained models.
  std::function<void(const std::string& path, const Tensor& O)> watch = {};
};

/// O = concat_h(attend(n Wq_h, n Wk_h, n Wv_h)) Wo  (Vaswani et al., 2017, §3.2.2), n = LayerNorm(x) or x,
/// y = residual + dropout(O): the norm and the residual of the block, as `fusion` says. With a convolution, which has
/// one filter per channel, and V = n Wv of all heads:
///
///   O = (concat_h(attend(...)) + conv(V)) Wo
///
/// (Xiong et al., AAAI 2021, §3; Han et al., ICCV 2023, Eq. 9, for linear attention, whose O has a rank of at most the
/// head's size without it)
class MultiHeadAttention : public Module {
 public:
  MultiHeadAttention(Slot slot, int64_t dim, const MultiHeadOptions& options, Generator& init);
  /// x (batch, length, dim) -> (batch, length, dim)
  Variable forward(const Variable& x, const Mask& mask, Context& context, const LinearFusion& fusion = {}) const;

  /// The inputs of the mechanism: Q, K and V, each (batch, heads, length, head size).
  std::vector<Variable> heads_of(const Variable& x, const Mask& mask, Context& context,
                                 const LinearFusion& fusion = {}) const;
  /// The attention weights w_ij, with O_i = sum_j w_ij v_j: (batch, heads, length, length), in f32. They are the
  /// mechanism's output when the values are unit vectors.
  Variable weights(const Variable& x, const Mask& mask, Context& context) const;

  // For adding low-rank updates to pretrained attention.

  Linear& qkv() { return qkv_; }  ///< rows: all of Q, all of K, all of V, each head by head
  Linear& out() { return out_; }

 private:
  Variable convolved(const Variable& V, const Mask& mask, const Context& context) const;

  int64_t heads_;
  int64_t head_dim_;
  std::string attention_;  ///< its name
  Linear qkv_;
  Linear out_;
  std::unique_ptr<Mechanism> mechanism_;
  std::optional<RotaryPositions> rotary_;
  Parameter* convolution_ = nullptr;  ///< (1, rows, width, heads * head size)
  int64_t columns_;
  std::function<void(const std::string& path, const Tensor& O)> watch_;
};

}  // namespace bochner
