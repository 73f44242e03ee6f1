#include "layers/spectral/distribution.h"

#include <limits>

#include "autograd/recompute.h"
#include "engine/step_graph.h"

namespace bochner {

SpectralDistribution::SpectralDistribution(Slot slot, const Sizes& sizes, RedrawSchedule schedule)
    : Module(std::move(slot)),
      features_(sizes.features),
      dim_(sizes.dim),
      schedule_(schedule),
      noise_(buffer("noise", Tensor())),
      age_(buffer("age", Tensor::zeros({1}, DType::i64))) {
  if (sizes.features < 1) fail("{}: {} features; at least 1 is needed", sizes.name, sizes.features);
  if (sizes.dim < 1) fail("{}: head size {}; at least 1 is needed", sizes.name, sizes.dim);
  if (schedule.interval < 0) fail("redraw: interval {} is negative; 0 never draws anew", schedule.interval);
}

void SpectralDistribution::start(Generator& init) { noise_ = draw(init); }

Tensor SpectralDistribution::noise(Context& context) {
  const auto drawn = [&] { return draw(context.of_all_examples()).cast(noise_.dtype()).to(noise_.device()); };
  return once([&] {
    if (!context.training) return schedule_.in_evaluation ? drawn() : noise_.clone();
    const bool counted = context.step != Context::kEachForward && context.step == step_ && !schedule_.each_forward;
    if (!counted) count(drawn);
    step_ = context.step;
    return noise_.clone();
  });
}

void SpectralDistribution::count(const std::function<Tensor()>& drawn) {
  if (!age_.device().is_cpu()) age_ = age_.to(Device::cpu());  // the host counts, wherever the module is
  StepGraph::count(age_, schedule_.interval > 0 ? schedule_.interval : std::numeric_limits<int64_t>::max());
  const int64_t age = age_.to_vector<int64_t>()[0];
  const bool due = schedule_.interval > 0 && age >= schedule_.interval;
  // In place, since recorded steps (StepGraph) read it there.
  if (due) noise_.copy_(drawn());
  age_.fill_(static_cast<double>(due ? 1 : age + 1));
}

VariableFrequencies SpectralDistribution::current(bool training) { return transform(noise_, training); }

VariableFrequencies SpectralDistribution::frequencies(Context& context) {
  const Scope scope(name());
  return transform(noise(context), context.training);
}

GaussianFrequencies::GaussianFrequencies(Slot slot, int64_t features, int64_t dim, RedrawSchedule schedule,
                                         Generator& init)
    : SpectralDistribution(std::move(slot), {"gaussian frequencies", features, dim}, schedule) {
  start(init);
}

Tensor GaussianFrequencies::draw(Generator& generator) { return normal({1, features_, dim_}, generator); }

}  // namespace bochner
