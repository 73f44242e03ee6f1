#include "autograd/tape.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <utility>

#include "autograd/recompute.h"
#include "engine/ops/binary.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"

namespace bochner {
namespace {

thread_local Tape* current_tape = nullptr;

uint64_t next_serial() {
  static std::atomic<uint64_t> serial{0};
  return ++serial;
}

/// Without NaN and +inf. Scores of hidden keys are -inf on purpose; where another one does harm, NaN or +inf follow.
bool all_finite(const Tensor& x) {
  if (!is_floating(x.dtype()) || x.size() == 0) return true;
  constexpr double kFar = 1e30;  // within every type
  return std::isfinite(sum(clamp(x, -kFar, std::numeric_limits<double>::infinity()) * 0.0).item());
}

}  // namespace

Parameter::operator Variable() const {
  Recomputation::note(*this);
  Tape* tape = Tape::current();
  return tape != nullptr && trainable ? tape->leaf(*this) : Variable(value);
}

Tape::Tape(Options options) : options_(options), serial_(next_serial()), previous_(current_tape) {
  current_tape = this;
}

Tape::~Tape() {
  if (current_tape == this) current_tape = previous_;
  for (Tape* tape = current_tape; tape != nullptr; tape = tape->previous_) {
    if (tape->previous_ == this) tape->previous_ = previous_;  // a later one outlives this one
  }
}

Tape* Tape::current() { return current_tape; }

std::vector<Variable> Tape::append(const char* op, std::vector<Tensor> outputs, std::vector<int64_t> inputs,
                                   Backward backward) {
  std::vector<Variable> variables;
  for (Tensor& output : outputs) {
    if (options_.check_finite && !all_finite(output))
      fail("{}: the first NaN or Inf appears in its output {}", op, output.str());
    Variable variable(std::move(output));
    variable.tape_ = serial_;
    variable.node_ = static_cast<int64_t>(nodes_.size());
    nodes_.emplace_back();
    variables.push_back(std::move(variable));
  }
  Node& first = nodes_[nodes_.size() - variables.size()];
  first.inputs = std::move(inputs);
  first.outputs = static_cast<int>(variables.size());
  first.backward = std::move(backward);
  first.op = op;
  first.first_held = held_.size();
  if (first.backward) {
    // Copying the closure copies the tensors that it holds, and each copy tells the watch its storage: these must not
    // be overwritten before backward.
    const SharedStorage::Watch watch(held_);
    const Backward copy = first.backward;
  }
  first.held = held_.size() - first.first_held;
  return variables;
}

void Tape::check_held(const Node& node) const {
  for (size_t i = node.first_held; i < node.first_held + node.held; ++i) {
    if (held_[i].holds()) continue;
    fail(
        "{}: backward needs what it had at the forward pass, but a tensor of {} bytes was overwritten in place "
        "since; run backward first, or write to a copy",
        node.op, held_[i].storage->bytes());
  }
}

Variable Tape::watch(const Tensor& value) { return append("leaf", {value}, {}, {})[0]; }

Variable Tape::leaf(const Parameter& parameter) {
  const auto found = leaves_.find(&parameter);
  if (found != leaves_.end()) return found->second;
  const Variable variable = watch(parameter.value);
  nodes_.back().parameter = const_cast<Parameter*>(&parameter);  // NOLINT: only its gradient is written, by backward()
  leaves_.emplace(&parameter, variable);
  return variable;
}

/// p.grad += gradient. A copy where there was none, since later passes add to it, and another parameter or the caller
/// may hold the same gradient.
static void add_to(Parameter& parameter, const Tensor& gradient) {
  if (parameter.grad.defined()) {
    add_(parameter.grad, gradient);
  } else {
    parameter.grad = gradient.is_contiguous() && gradient.is_alone() ? gradient : gradient.clone();
  }
}

Gradients Tape::run(const std::vector<Variable>& ys, const Gradients& dys, const Pass& pass) {
  if (used_) {
    fail(
        "an earlier backward pass has freed what this tape's ops held for their gradients; compute the outputs again "
        "under a new Tape, or give that pass create_graph = true");
  }
  if (ys.size() != dys.size()) fail("backward: {} outputs, but {} gradients of them", ys.size(), dys.size());
  for (size_t i = 0; i < ys.size(); ++i) {
    const Tensor& y = ys[i].value();
    const Tensor& dy = dys[i].value();
    if (dy.defined() && !(dy.shape() == y.shape() && dy.dtype() == y.dtype()))
      fail("backward: {} is given as the gradient of {}; both need the same shape and type", dy.str(), y.str());
  }
  used_ = !pass.create_graph;
  const auto count = static_cast<int64_t>(nodes_.size());
  Gradients grads(static_cast<size_t>(count));
  const auto kept = [&](size_t node) { return node < pass.keep.size() && pass.keep[node]; };
  const auto add = [&](int64_t node, const Variable& gradient) {
    Variable& sum = grads[static_cast<size_t>(node)];
    if (!sum.defined()) {
      sum = gradient;
    } else if (pass.create_graph) {
      const Variable left = sum;
      sum = record("accumulate", left.value() + gradient.value(), {&left, &gradient}, [](const Variable& g) {
        return Gradients{g, g};
      });
    } else {
      sum = sum.value() + gradient.value();
    }
  };
  for (size_t i = 0; i < ys.size(); ++i) {
    if (node_of(ys[i]) >= 0 && dys[i].defined()) add(node_of(ys[i]), dys[i]);
  }
  Tape* const outer = current_tape;
  current_tape = pass.create_graph ? this : nullptr;
  try {
    for (int64_t i = count - 1; i >= pass.stop; --i) {
      const auto n = static_cast<size_t>(i);
      if (nodes_[n].backward) {
        const auto outputs = static_cast<size_t>(nodes_[n].outputs);
        Gradients incoming(outputs);
        bool any = false;
        for (size_t k = 0; k < outputs; ++k) {
          any = any || grads[n + k].defined();
          incoming[k] = kept(n + k) ? grads[n + k] : std::exchange(grads[n + k], Variable());
        }
        // A copy: with create_graph, the ops of the closure append to nodes_ while it runs.
        const Backward backward = pass.create_graph ? nodes_[n].backward : std::exchange(nodes_[n].backward, nullptr);
        if (!any) continue;
        check_held(nodes_[n]);
        const Gradients outgoing = backward(incoming);
        const std::vector<int64_t> inputs = nodes_[n].inputs;
        BOCHNER_ASSERT(outgoing.size() == inputs.size());
        incoming.clear();
        for (size_t k = 0; k < inputs.size(); ++k) {
          if (inputs[k] >= 0 && outgoing[k].defined()) add(inputs[k], outgoing[k]);
        }
      } else if (pass.into_parameters && nodes_[n].parameter != nullptr) {
        Parameter& parameter = *nodes_[n].parameter;
        if (grads[n].defined()) add_to(parameter, std::exchange(grads[n], Variable()).value());
        // All that uses a leaf comes behind it on the tape, so backward has passed it.
        if (pass.completed != nullptr && *pass.completed && parameter.grad.defined()) (*pass.completed)(parameter);
      }
    }
  } catch (...) {
    current_tape = outer;
    throw;
  }
  current_tape = outer;
  return grads;
}

Gradients Tape::gradients(const std::vector<Variable>& ys, const Gradients& dys, const std::vector<Variable>& xs,
                          bool create_graph) {
  std::vector<bool> keep(nodes_.size(), false);
  for (const Variable& x : xs) {
    if (node_of(x) < 0) fail("gradients: {} is not watched by this tape", x.value().str());
    keep[static_cast<size_t>(node_of(x))] = true;
  }
  const Gradients grads = run(ys, dys, {.create_graph = create_graph, .keep = keep});
  Gradients result;
  for (const Variable& x : xs) {
    const Variable& found = grads[static_cast<size_t>(node_of(x))];
    result.push_back(found.defined() ? found : Variable(Tensor::zeros_like(x.value())));
  }
  return result;
}

Gradients Tape::gradients(const Variable& y, const std::vector<Variable>& xs, bool create_graph) {
  if (y.size() != 1)
    fail("gradients: {} has {} elements; give its gradient, or reduce it to one", y.value().str(), y.size());
  return gradients({y}, {Tensor::full(y.shape(), 1, y.dtype(), y.device())}, xs, create_graph);
}

Gradients Tape::pull_back(const std::function<Variable(const std::vector<Variable>&)>& f,
                          const std::vector<Variable>& inputs, const Variable& g) {
  // Aliases end the backward walk: nothing before them is touched, and inputs that depend on one another are
  // independent here.
  std::vector<Variable> aliases;
  for (const Variable& input : inputs) {
    aliases.push_back(
        append("alias", {input.value()}, {node_of(input)}, [](const Gradients& incoming) { return incoming; })[0]);
  }
  const auto stop = static_cast<int64_t>(nodes_.size());
  const Variable y = f(aliases);
  const Gradients grads =
      run({y}, {g}, {.create_graph = true, .keep = std::vector<bool>(nodes_.size(), true), .stop = stop});
  Gradients result;
  for (const Variable& alias : aliases) result.push_back(grads[static_cast<size_t>(alias.node_)]);
  return result;
}

void Tape::backward(const std::vector<Variable>& ys, const Gradients& dys, const Completed& completed) {
  if (std::none_of(ys.begin(), ys.end(), [&](const Variable& y) { return node_of(y) >= 0; }))
    fail("backward: {} was not computed on this tape; make the Tape before the forward pass",
         ys.empty() ? "nothing" : ys.front().value().str());
  run(ys, dys, {.into_parameters = true, .completed = &completed});
}

void Tape::backward(const Variable& y, const Completed& completed) {
  if (y.size() != 1)
    fail("backward: {} has {} elements; give its gradient, or reduce it to one", y.value().str(), y.size());
  backward({y}, {Tensor::full(y.shape(), 1, y.dtype(), y.device())}, completed);
}

NoTape::NoTape() : previous_(current_tape) { current_tape = nullptr; }

NoTape::~NoTape() { current_tape = previous_; }

std::vector<Variable> record(const char* op, std::vector<Tensor> outputs, std::initializer_list<const Variable*> inputs,
                             Backward backward) {
  std::vector<Variable> copies;
  for (const Variable* input : inputs) copies.push_back(*input);
  return record(op, std::move(outputs), copies, std::move(backward));
}

std::vector<Variable> record(const char* op, std::vector<Tensor> outputs, const std::vector<Variable>& inputs,
                             Backward backward) {
  Tape* tape = Tape::current();
  bool any = false;
  std::vector<int64_t> nodes;
  for (const Variable& input : inputs) {
    nodes.push_back(tape == nullptr ? -1 : tape->node_of(input));
    any = any || nodes.back() >= 0;
  }
  if (!any) return {outputs.begin(), outputs.end()};
  return tape->append(op, std::move(outputs), std::move(nodes), std::move(backward));
}

}  // namespace bochner
