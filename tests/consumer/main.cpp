// A layer, its loss and its gradient, from an installed Bochner.
#include <autograd/ops/reduce.h>
#include <fmt/format.h>
#include <layers/linear.h>

int main() {
  using namespace bochner;
  Generator generator(1);
  Linear layer({}, 3, 2, generator);
  Tape tape;
  const Variable loss = mean(layer.forward(Variable(Tensor::full({4, 3}, 1))));
  const auto gradients = tape.gradients(loss, {Variable(layer.weight)});
  fmt::print("loss {:.4f}, gradient of the weight {}\n", loss.value().item(), gradients.at(0).shape());
}
