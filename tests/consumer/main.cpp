// The program of the README, from an installed Bochner. It fails if nothing is learnt.
#include <autograd/optim/optimizer.h>
#include <fmt/format.h>
#include <layers/loss.h>
#include <layers/models/encoder.h>

using namespace bochner;

int main() {
  Generator init(1), noise(2);
  SequenceClassifier model({.vocabulary = 10, .length = 16, .classes = 10, .attention = {"performer", 2}}, init);
  AdamW optimizer(model.parameters());
  Context context{noise, true};
  double last = 0;
  for (int step = 0; step < 300; ++step) {
    const Tensor ids = integers({32, 16}, 0, 10, noise);  // (batch, length): which token is the first?
    Tape tape;
    const Variable loss = CrossEntropyLoss{}(model.forward(ids, {}, context), ids.select(1, 0));
    tape.backward(loss);
    optimizer.step(3e-3);
    optimizer.clear_gradients();
    last = loss.item();
  }
  fmt::print("loss {:.3f}; guessing gives 2.303\n", last);
  return last < 1 ? 0 : 1;
}
