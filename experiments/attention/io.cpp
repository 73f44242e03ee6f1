#include "experiments/attention/io.h"

#include <algorithm>
#include <cmath>

#include "autograd/tape.h"
#include "engine/nearest.h"
#include "engine/ops/binary.h"
#include "experiments/common/report/table.h"

namespace bochner {
namespace {

const Tensor& needed(const TensorMap& given, const std::string& name) {
  const auto found = given.find(name);
  if (found == given.end()) fail("tensor '{}' is missing; Q, K and V (batch, heads, length, dim) are needed", name);
  return found->second;
}

void require_shape(const std::string& name, const Tensor& tensor, const Shape& shape) {
  if (tensor.shape() == shape) return;
  fail("tensor '{}' is {}, but must be {}", name, tensor.shape().str(), shape.str());
}

void require_finite(const std::string& name, const Tensor& tensor) {
  const std::vector<double> values = tensor.to_vector<double>();
  const auto bad = std::find_if(values.begin(), values.end(), [](double x) { return !std::isfinite(x); });
  if (bad != values.end()) fail("tensor '{}': element {} is {}", name, bad - values.begin(), *bad);
}

/// bool (B, L) from any type: true where not 0.
Tensor mask_of(const TensorMap& given, const Shape& keys) {
  const auto found = given.find("mask");
  if (found == given.end()) return {};
  require_shape("mask", found->second, {keys[0], keys[2]});
  return found->second.cast(DType::boolean);
}

/// Copies the file's tensors into parameters and buffers; an unknown name is refused.
void load(const TensorMap& given, const std::map<std::string, Tensor>& state) {
  std::vector<std::string> known = {"Q", "K", "V", "dO", "mask"};
  for (const auto& [name, tensor] : state) known.push_back(name);
  for (const auto& [name, tensor] : given) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      fail("tensor '{}' is no input and no parameter of this mechanism; the nearest is '{}'", name,
           nearest(name, known));
    }
    const auto found = state.find(name);
    if (found == state.end()) continue;
    require_shape(name, tensor, found->second.shape());
    found->second.copy_(tensor);
  }
}

/// Identity matrices in place of V: attention is linear in V, so O is its matrix.
Tensor one_hot_values(const Tensor& K) {
  const int64_t L = K.size(2);
  const Tensor one = equal(Tensor::arange(L).view({L, 1}), Tensor::arange(L).view({1, L})).cast(K.dtype());
  return one.view({1, 1, L, L}).expand({K.size(0), K.size(1), L, L}).contiguous();
}

}  // namespace

TensorMap attend_tensors(const AttentionCall& call, const TensorMap& given) {
  const Tensor& Q = needed(given, "Q");
  for (const char* name : {"Q", "K", "V"}) {
    const Tensor& x = needed(given, name);
    if (x.rank() != 4) fail("tensor '{}' is {}, but must be (batch, heads, length, dim)", name, x.shape().str());
    if (x.dtype() != Q.dtype() || !(x.dtype() == DType::f32 || x.dtype() == DType::f64)) {
      fail("tensor '{}' is {}; Q, K and V must all be f32 or all f64", name, x.str());
    }
    require_finite(name, x);
  }
  const Tensor& K = needed(given, "K");
  const Tensor& V = needed(given, "V");
  require_shape("K", K, {Q.size(0), Q.size(1), K.size(2), Q.size(3)});
  require_shape("V", V, {K.size(0), K.size(1), K.size(2), V.size(3)});
  const Mask mask{mask_of(given, K.shape()), call.causal};
  MechanismOptions options = call.mechanism;
  options.set_default_length(std::max(Q.size(2), K.size(2)));
  // Frequencies come from the file, or are drawn once, so the ones that are written are those used for O and for A.
  options.set_known({{"redraw", 0}, {"redraw-in-evaluation", false}});

  Generator init(call.seed);
  const auto mechanism = make_mechanism({}, Q.size(1), Q.size(3), options, init);
  mechanism->to(Device::cpu(), Q.dtype());
  load(given, mechanism->state());

  TensorMap result;
  for (const auto& [name, tensor] : mechanism->state()) result[name] = tensor.clone();
  const auto attend = [&](const Variable& q, const Variable& k, const Variable& v) {
    Generator noise = Generator(call.seed).fork(1);  // the same draws each time
    Context context{noise, call.training};
    return mechanism->forward(q, k, v, mask, context);
  };
  if (call.matrix) result["A"] = attend(Q, K, one_hot_values(K)).value().contiguous();
  if (const Tensor Omega = mechanism->frequencies(call.training); Omega.defined()) {
    result["Omega"] = Omega.slice(2, 0, Q.size(3)).contiguous();  // FastFood's has extra columns for padding
  }
  const auto dO = given.find("dO");
  if (dO == given.end()) {
    result["O"] = attend(Q, K, V).value().contiguous();
    return result;
  }
  require_shape("dO", dO->second, {Q.size(0), Q.size(1), Q.size(2), V.size(3)});
  require_finite("dO", dO->second);
  Tape tape;
  std::vector<Variable> inputs = {tape.watch(Q), tape.watch(K), tape.watch(V)};
  const Variable O = attend(inputs[0], inputs[1], inputs[2]);
  std::vector<std::string> names = {"dQ", "dK", "dV"};
  for (Parameter* parameter : mechanism->parameters()) {
    inputs.push_back(*parameter);
    names.push_back("d" + parameter->name);
  }
  const Gradients gradients = tape.gradients({O}, {dO->second.cast(Q.dtype())}, inputs);
  result["O"] = O.value().contiguous();
  for (size_t i = 0; i < names.size(); ++i) result[names[i]] = gradients[i].value().contiguous();
  return result;
}

std::string mechanisms_table() {
  Table table{{"name", "year", "source", "approximates", "time", "causal", "learns"}, {}};
  for (const MechanismInfo& info : mechanisms()) {
    table.rows.push_back({info.name, std::to_string(info.year), info.paper, info.approximates, info.cost,
                          info.causal ? "yes" : "no", info.learns});
  }
  return table.text();
}

}  // namespace bochner
