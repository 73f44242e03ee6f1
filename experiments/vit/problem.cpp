#include "experiments/vit/problem.h"

#include <algorithm>
#include <numeric>

#include "engine/io/file.h"
#include "engine/math.h"
#include "experiments/common/run/answer.h"
#include "layers/models/hugging_face.h"

namespace bochner::vit {
namespace {

// Besides the order, which is a stream of the same seed.
constexpr auto kChanges = static_cast<uint64_t>(Stream::own);

std::vector<int64_t> labels_of(const images::Images& images) {
  return std::vector<int64_t>(images.labels.begin(), images.labels.end());
}

/// A new pooler must be trained.
void check_pooler(const Config& config, Vit& vit, const Problem::Base& base) {
  if (vit.pooler() == nullptr || config.model.from_scratch || config.pretrained.empty() || !config.adapter.empty()) {
    return;
  }
  if (base.tensors.contains("pooler.weight")) return;
  for (const GroupRule& rule : rules_of(method_of(config.model), config.model, vit)) {
    if (rule.frozen && rule.pattern == "pooler.weight") {
      fail(
          "{}: has no pooler, and --model.method={} would leave a new one as it was drawn; add --model.train-pooler, "
          "or "
          "--model.pooler=off",
          config.pretrained, config.model.method);
    }
  }
}

}  // namespace

ImageFeed::ImageFeed(std::shared_ptr<const images::Images> images, images::Preparation preparation,
                     images::Augmentation augmentation, const Order& order)
    : images_(std::move(images)),
      preparation_(std::move(preparation)),
      augmentation_(augmentation),
      order_(order),
      numbers_(static_cast<size_t>(images_->count())) {
  BOCHNER_ASSERT(order_.batch > 0 && images_->count() > 0);
  std::iota(numbers_.begin(), numbers_.end(), 0);
}

int64_t ImageFeed::steps_per_epoch() const { return ceil_div(images_->count(), order_.batch); }

Examples ImageFeed::next() {
  const int64_t epoch = step_ / steps_per_epoch();
  const int64_t begin = step_ % steps_per_epoch() * order_.batch;
  const int64_t end = std::min(begin + order_.batch, images_->count());
  ++step_;
  if (order_.shuffle && ordered_ != epoch) {
    Generator generator = Generator(order_.seed).fork(static_cast<uint64_t>(epoch));
    numbers_ = permutation(images_->count(), generator).to_vector<int64_t>();
    ordered_ = epoch;
  }
  Examples batch;
  batch.numbers.assign(numbers_.begin() + begin, numbers_.begin() + end);
  std::vector<int64_t> labels;
  std::vector<images::Change> changes;
  const Generator of_epoch = Generator(order_.seed).fork(kChanges).fork(static_cast<uint64_t>(epoch));
  for (const int64_t i : batch.numbers) {
    labels.push_back(images_->labels[static_cast<size_t>(i)]);
    if (!order_.shuffle || !augmentation_.is_any() || !order_.inputs) continue;
    changes.push_back(images::drawn(augmentation_, of_epoch.fork(static_cast<uint64_t>(i))));
  }
  if (order_.inputs) {
    batch.tensors.emplace_back("pixels", images::prepared(*images_, batch.numbers, preparation_, changes));
  }
  batch.tensors.emplace_back("labels", Tensor::from(labels, {end - begin}));
  return batch;
}

std::shared_ptr<Vit> make_vit(const Config& config, const Say& say, Adapted& adapted) {
  Generator init = stream_of(config.run.seed, Stream::init);
  const auto vit = std::make_shared<Vit>(Slot{}, config.vit_options(), init);
  adapted = adapt(*vit, config.model, {config.pretrained, config.adapter}, init, say);
  check_pooler(config, *vit, adapted.base);
  return vit;
}

Variable states_of(PretrainedModel& vit, const Examples& batch, Context& context) {
  return dynamic_cast<Vit&>(vit).forward(batch.at("pixels"), context);
}

Examples random_images(const Config& config) {
  const VitOptions options = config.vit_options();
  Generator draws(1);
  return {.tensors = {{"pixels", normal({8, options.channels, options.image, options.image}, draws)}}, .numbers = {}};
}

Fitted problem_of(const Config& config, const ImageTask& task, const std::shared_ptr<const images::ImageSets>& sets,
                  const std::shared_ptr<TrunkStates>& memory, const Say& say) {
  const images::Preparation preparation = config.preparation();
  Adapted adapted;
  const std::shared_ptr<Vit> vit = make_vit(config, say, adapted);
  const images::Augmentation augmentation = config.images->augmentation;
  const auto opens = [sets, preparation, augmentation, run = config.run](const images::Images& images) -> OpenFeed {
    return [=, &images](bool shuffle, bool inputs) {
      const ImageFeed::Order order{
          .batch = run.batch, .shuffle = shuffle, .seed = stream_of(run.seed, Stream::order).seed(), .inputs = inputs};
      return std::make_unique<ImageFeed>(std::shared_ptr<const images::Images>(sets, &images), preparation,
                                         augmentation, order);
    };
  };
  Fitted fitted = fitted_problem(vit, states_of, std::move(adapted), config.model);
  Problem& problem = fitted.problem;
  problem.objective = std::make_shared<Classification>("labels", sets->classes, Classification::Tells::class_alone);
  problem.remarks = sets->remarks;
  problem.metrics = metrics_named(task.metrics, std::ssize(sets->classes));
  TrunkRepeats repeats = repeats_of(*vit, vit->options(), problem.groups);
  repeats.training = repeats.training && !augmentation.is_any();
  const FrozenTrunk trunk(memory, vit, states_of, repeats, config.run);
  problem.train = trunk.feed("train", opens(sets->train), true);
  fitted.in_order = [trunk, train = opens(sets->train)] { return trunk.feed("train", train, false); };
  problem.split = [trunk, valid = opens(sets->valid), test = opens(sets->test)](Split split) {
    return split == Split::valid ? trunk.feed("valid", valid, false) : trunk.feed("test", test, false);
  };
  problem.baselines = [sets, metrics = problem.metrics] {
    return std::vector{of_majority_class(labels_of(sets->train), labels_of(sets->test), metrics)};
  };
  return fitted;
}

void export_run(const Config& config, const Say& say) {
  const std::filesystem::path to = config.folder();
  Adapted adapted;
  std::shared_ptr<Vit> vit = make_vit(config, say, adapted);
  load_module(*vit, best_of(config.exported), adapted.base);
  merge_adapter(*vit);
  if (vit->pooler() != nullptr) {
    say("transformers has no ViT with a pooler and a classifier: the classifier is left out");
    VitOptions options = vit->options();
    options.classes = 0;
    Generator unused(0);
    const auto trunk = std::make_shared<Vit>(Slot{}, options, unused);
    const std::map<std::string, Tensor> trained = vit->state();
    for (const auto& [name, tensor] : trunk->state()) tensor.copy_(trained.at(name));
    vit = trunk;
  }
  save_pretrained(*vit, to, config.pretrained);
  write_file_atomically(to / "preprocessor_config.json", images::preparation_text(config.preparation()));
  fmt::print("{}\n", config.to);
}

}  // namespace bochner::vit
