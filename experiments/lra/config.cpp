#include "experiments/lra/config.h"

namespace bochner::lra {

Config::Config() {
  run.tasks = names_of(tasks);
  run.task = run.tasks.front();
  run.attentions = sequence::mechanism_names();
  run.attention = "performer";
  run.steps = 5000;
  run.batch = 32;
  optim.rate = 1e-4;
}

void Config::fields(Fields& f) {
  run.fields(f);
  fields_of(tasks, f);
  f.group("model", model);
  f.group("optim", optim);
}

}  // namespace bochner::lra
