// A model with this project's own attention, that of docs/5_mechanism.md (../example/cauchy.cpp).
#include <fmt/format.h>
#include <layers/attention/registry.h>
#include <layers/models/encoder.h>

namespace bochner {
void describe_cauchy(Mechanisms& list);
}  // namespace bochner

using namespace bochner;

int main() {
  add_mechanisms(describe_cauchy);
  Generator init(1), noise(2);
  const SequenceClassifier model({.vocabulary = 10, .length = 16, .classes = 10, .attention = {"cauchy", 2}}, init);
  Context context{noise, false};
  const Variable scores = model.forward(integers({3, 16}, 0, 10, noise), {}, context);
  fmt::print("cauchy: {}\n", scores.value().str());
  try {
    add_mechanisms(describe_cauchy);
  } catch (const Error& error) {
    fmt::print("{}\n", error.what());
    return scores.shape() == Shape{3, 10} ? 0 : 1;
  }
  return 1;
}
