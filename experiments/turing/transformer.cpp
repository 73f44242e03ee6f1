#include "experiments/turing/transformer.h"

#include <cmath>

#include "engine/error.h"
#include "engine/ops/binary.h"
#include "engine/ops/join.h"
#include "engine/ops/matmul.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"

namespace bochner::turing {
namespace {

Tensor zeros(const Shape& shape) { return Tensor::zeros(shape, DType::f64); }

Tensor times(const Tensor& W, const Tensor& x) { return matmul(W, x.view({x.size(0), 1})).view({W.size(0)}); }

double& entry(Tensor& W, int64_t row, int64_t column) { return W.data<double>()[row * W.size(1) + column]; }

/// Perceptrons that are added one by one.
class PerceptronList {
 public:
  explicit PerceptronList(int64_t size) : size_(size) {}

  /// Adds a perceptron that is 1 where sum w a > threshold, with its contribution to the output.
  void add(const std::vector<std::pair<int64_t, double>>& weights, double threshold,
           const std::vector<std::pair<int64_t, double>>& outputs) {
    in_.push_back(weights);
    thresholds_.push_back(threshold);
    out_.push_back(outputs);
  }
  /// Copies `count` numbers of {0, 1} from one place to another, times `factor`.
  void copy_bits(int64_t from, int64_t to, int64_t count, double factor = 1) {
    for (int64_t i = 0; i < count; ++i) add({{from + i, 1}}, 0.5, {{to + i, factor}});
  }
  /// Copies a number of {-1, 0, 1}.
  void copy_sign(int64_t from, int64_t to, double factor = 1) {
    add({{from, 1}}, 0.5, {{to, factor}});
    add({{from, -1}}, 0.5, {{to, -factor}});
  }

  Perceptrons made() const {
    const auto hidden = static_cast<int64_t>(in_.size());
    Perceptrons layer{zeros({hidden, size_}), zeros({hidden}), zeros({size_, hidden})};
    for (int64_t h = 0; h < hidden; ++h) {
      const auto i = static_cast<size_t>(h);
      for (const auto& [place, weight] : in_[i]) entry(layer.W1, h, place) += weight;
      layer.b.data<double>()[h] = -thresholds_[i];
      for (const auto& [place, weight] : out_[i]) entry(layer.W2, place, h) += weight;
    }
    return layer;
  }

 private:
  int64_t size_;
  std::vector<std::vector<std::pair<int64_t, double>>> in_, out_;
  std::vector<double> thresholds_;
};

}  // namespace

Tensor Perceptrons::operator()(const Tensor& a) const {
  const Tensor hidden = less(0, times(W1, a) + b).cast(DType::f64);
  return times(W2, hidden);
}

Tensor hard_attention(const Tensor& q, const Tensor& K, const Tensor& V) {
  const Tensor scores = -sum(square(K - q), {1});                         // (n): -|q - k_j|^2
  const Tensor best = equal(scores, amax(scores)).cast(DType::f64);       // (n): 1 at the largest
  return times(V.transpose(0, 1).contiguous(), best) / sum(best).item();  // (e)
}

Transformer::Transformer(const Machine& machine, const std::vector<int64_t>& input)
    : states_(static_cast<int64_t>(machine.states.size())),
      symbols_(static_cast<int64_t>(machine.symbols.size()) - 1),
      size_(2 * states_ + 3 * symbols_ + 12) {
  int64_t at = 0;
  const auto next = [&](int64_t count) {
    at += count;
    return at - count;
  };
  q1_ = next(states_), s1_ = next(symbols_), x1_ = next(1), x2_ = next(1);
  q2_ = next(states_), s2_ = next(symbols_), x3_ = next(1), x4_ = next(1), next(2);
  x7_ = next(1), s4_ = next(symbols_), x8_ = next(1), x9_ = next(4);
  BOCHNER_ASSERT(at == size_);
  const int64_t x10 = x9_ + 1, x11 = x9_ + 2;

  // Encoder: its attention gives zeros; keys (j, -1), and values that hold the symbol and j (KL Eq. 31).
  const auto n = static_cast<int64_t>(input.size()) + 1;
  K_encoder_ = zeros({n, 2});
  V_encoder_ = zeros({n, size_});
  for (int64_t j = 0; j < n; ++j) {
    const int64_t symbol = j + 1 < n ? input[static_cast<size_t>(j)] : 0;
    entry(K_encoder_, j, 0) = static_cast<double>(j);
    entry(K_encoder_, j, 1) = -1;
    if (symbol > 0) entry(V_encoder_, j, s2_ + symbol - 1) = 1;
    entry(V_encoder_, j, x7_) = static_cast<double>(j);
  }

  // Layer 1. The query (i, -1) finds the encoder's cell min(i, n) (KL Lemma S.1); i = x10 - x9.
  Wq1_ = zeros({2, size_});
  entry(Wq1_, 0, x10) = 1;
  entry(Wq1_, 0, x9_) = -1;
  entry(Wq1_, 1, x9_) = -1;
  // Its perceptrons look up the transition and clear the first group except for the head's cell (KL Eq. 23).
  PerceptronList look_up(size_);
  look_up.copy_bits(q1_, q1_, states_, -1);
  look_up.copy_bits(s1_, s1_, symbols_, -1);
  look_up.copy_sign(x1_, x1_, -1);
  look_up.copy_sign(x1_, x4_);
  using Weights = std::vector<std::pair<int64_t, double>>;
  // A code is detected by weight 1 at its own coordinate and -1 at the others: w . code > number of ones - 1/2.
  const auto code = [](Weights& weights, int64_t place, int64_t count, int64_t own) {
    for (int64_t i = 0; i < count; ++i) weights.emplace_back(place + i, i == own ? 1 : -1);
    return own >= 0 ? 1.0 : 0.0;
  };
  // Copying: write what the encoder holds, which attention has already put into s2, and move right; turn at the blank.
  Weights any;
  for (int64_t i = 0; i < symbols_; ++i) any.emplace_back(s2_ + i, 1);
  code(any, q1_, states_, -1);
  look_up.add(any, 0.5, {{x3_, 1}, {x2_, 1}});
  Weights blank;
  code(blank, s2_, symbols_, -1);
  code(blank, q1_, states_, -1);
  look_up.add(blank, -0.5, {{x3_, -1}, {x2_, -1}, {q2_, 1}});
  // Running: one perceptron for each rule.
  for (int64_t state = 0; state < states_; ++state) {
    for (int64_t symbol = 0; symbol <= symbols_; ++symbol) {
      const Machine::Rule& rule = machine.rule(state, symbol);
      if (rule.move == 0) continue;
      Weights found;
      const double ones = code(found, q1_, states_, state) + code(found, s1_, symbols_, symbol - 1);
      const auto move = static_cast<double>(rule.move);
      Weights done = {{x3_, move}, {x2_, move}, {q2_ + rule.next, 1}};
      if (rule.write > 0) done.emplace_back(s2_ + rule.write - 1, 1);
      look_up.add(found, ones - 0.5, done);
    }
  }
  O1_ = look_up.made();

  // Layer 2. q_i = (c^(i+1), 0, 0), k_j = (c^(j), 0, 1 / (j + 1)) find the latest visit to the next cell or, if it is
  // new, the present step (KL Lemma S.3); values are what was written then, and j.
  Wq2_ = zeros({3, size_});
  entry(Wq2_, 0, x2_) = 1;
  Wk2_ = zeros({3, size_});
  entry(Wk2_, 0, x2_) = 1;
  entry(Wk2_, 0, x3_) = -1;
  entry(Wk2_, 2, x11) = 1;
  Wv2_ = zeros({size_, size_});
  for (int64_t i = 0; i < symbols_; ++i) entry(Wv2_, s4_ + i, s2_ + i) = 1;
  entry(Wv2_, x8_, x10) = 1;
  entry(Wv2_, x8_, x9_) = -1;
  // Its perceptrons fill the first group again. If the latest visit is the present step, the cell is new: every symbol
  // gets -1, and the output's ReLU makes that the blank.
  PerceptronList read_back(size_);
  read_back.copy_bits(q2_, q1_, states_);
  read_back.copy_bits(s4_, s1_, symbols_);
  read_back.copy_sign(x3_, x1_);
  Weights minus_one;
  for (int64_t i = 0; i < symbols_; ++i) minus_one.emplace_back(s1_ + i, -1);
  read_back.add({{x8_, 1}, {x10, -1}, {x9_, 2}}, 0.5, minus_one);  // l(i + 1) + 2 - (i + 1) > 0
  O2_ = read_back.made();

  // Output: only the first group, through ReLU; for the move, both signs.
  const int64_t group = states_ + symbols_ + 2;
  F1_ = zeros({group + 1, size_});
  F2_ = zeros({size_, group + 1});
  for (int64_t i = 0; i < group; ++i) entry(F1_, i, i) = entry(F2_, i, i) = 1;
  entry(F1_, group, x1_) = -1;
  entry(F2_, x1_, group) = -1;
  y_ = zeros({size_});  // the seed: copying, on a blank, at cell 0
}

int64_t Transformer::parameters() const {
  int64_t count = K_encoder_.size() + V_encoder_.size();
  for (const Tensor* W : {&Wq1_, &Wq2_, &Wk2_, &Wv2_, &F1_, &F2_}) count += W->size();
  for (const Perceptrons* layer : {&O1_, &O2_}) count += layer->W1.size() + layer->b.size() + layer->W2.size();
  return count;
}

void Transformer::step() {
  const auto position = static_cast<double>(steps_ + 1);
  Tensor x = y_.clone();
  auto* const p = x.data<double>() + x9_;
  p[0] = 1, p[1] = position, p[2] = 1 / position, p[3] = 1 / (position * position);

  const Tensor a1 = x + hard_attention(times(Wq1_, x), K_encoder_, V_encoder_);  // KL Eq. 22
  const Tensor z1 = a1 + O1_(a1);                                                // KL Eq. 24
  keys_.push_back(times(Wk2_, z1));
  values_.push_back(times(Wv2_, z1));
  const Tensor a2 = z1 + hard_attention(times(Wq2_, z1), stack(keys_, 0), stack(values_, 0));  // KL Eq. 26
  const Tensor z2 = a2 + O2_(a2);

  // Not part of the model: the tape, from the symbols that the model reports as written.
  const auto head = static_cast<size_t>(std::llround(y_.data<double>()[x2_]));
  if (head >= tape_.size()) tape_.resize(head + 1, 0);
  tape_[head] = one_hot(z1, s2_, symbols_) + 1;

  y_ = times(F2_, relu(times(F1_, z2)));
  ++steps_;
}

bool Transformer::is_copying() const { return one_hot(y_, q1_, states_) < 0; }

int64_t Transformer::symbol() const { return one_hot(y_, s1_, symbols_) + 1; }

Configuration Transformer::configuration() const {
  Configuration at{.state = one_hot(y_, q1_, states_), .head = std::llround(y_.data<double>()[x2_]), .tape = tape_};
  if (at.head < 0) fail("turing: the head leaves the tape to the left");
  if (at.head >= static_cast<int64_t>(at.tape.size())) at.tape.resize(static_cast<size_t>(at.head) + 1, 0);
  return at;
}

int64_t Transformer::one_hot(const Tensor& vector, int64_t place, int64_t count) const {
  const double* const x = vector.data<double>() + place;
  int64_t found = -1;
  for (int64_t i = 0; i < count; ++i) {
    if (x[i] == 0) continue;
    if (x[i] != 1 || found >= 0) fail("turing: a code that is not one-hot after {} steps", steps_);
    found = i;
  }
  return found;
}

}  // namespace bochner::turing
