#include "experiments/vit/config.h"

#include <filesystem>

#include "datasets/images/cifar10.h"
#include "experiments/learners/pretrained.h"
#include "layers/models/hugging_face.h"
#include "layers/models/peft.h"

namespace bochner::vit {
namespace {

ImageTask task_of(const std::string& name, const std::shared_ptr<const ImageConfig>& config) {
  ImageTask task;
  task.name = name;
  task.load = [name, config](const RunOptions& run, const Messages& messages) {
    const std::filesystem::path data = run.data;
    images::ImageSets sets = name == "cifar10"
                                 ? images::read_cifar10({.folder = data / name, .partial = config->partial})
                                 : images::read_mnist(data, name);
    sets = images::hold_out(images::of_classes(sets, config->classes), config->valid_share);
    sets = images::first_of_each(std::move(sets), config->each);
    messages.say(fmt::format("{}: {} + {} + {} images of {} classes", name, sets.train.count(), sets.valid.count(),
                             sets.test.count(), sets.classes.size()));
    return sets;
  };
  return task;
}

}  // namespace

std::vector<ImageTask> image_tasks(const std::shared_ptr<const ImageConfig>& config) {
  return {task_of("cifar10", config), task_of("fashion-mnist", config), task_of("mnist", config)};
}

void ImageConfig::fields(Fields& f) {
  partial.field(f,
                "take fewer training images of CIFAR-10 than the 50,000 published ones; fewer test images always are");
  f.at("partial").only("with --task=cifar10", [&task = f.at("task")] { return task.text() == "cifar10"; });
  f("classes", classes, "the names of the classes to tell apart, with commas; none: all");
  f("each", each, "training images of each class, the first ones; 0: all").at_least(0);
  f("valid-share", valid_share, "of the training images of each class that validate").above(0).below(1);
  f("crop", augmentation.crop, "in training, cut an image out of itself with a rim of so many black pixels")
      .at_least(0);
  f("flip", augmentation.flip, "in training, mirror half of the images");
}

void ModelConfig::fields(Fields& f) {
  AdaptationConfig::fields(f);
  f("pooler", pooler, "the classifier reads the pooler, not the state of the first token itself");
  f("image", image,
    "pixels a side that the model wants; this and what follows are those of config.json with --pretrained")
      .at_least(1);
  f("patch", patch, "pixels a side of a patch").at_least(1);
  f("layers", layers, "blocks").at_least(1);
  f("dim", dim, "size of a token's state").at_least(1);
  f("heads", heads, "attention heads").at_least(1);
  f("hidden", hidden, "hidden units of the feed-forward networks").at_least(1);
}

Config::Config() {
  run.tasks = names_of(tasks);
  run.task = run.tasks.front();
  run.attentions = attention_names();
  run.attention = "softmax";
  run.batch = 64;
  optim.rate = 1e-3;
  epochs = 10;
}

void Config::fields(Fields& f) {
  run.fields(f);
  images->fields(f);
  f("pretrained", pretrained,
    "folder of a pretrained ViT: config.json, model.safetensors and, where there is one, preprocessor_config.json; "
    "empty: a new one");
  FittingConfig::fields(f, "preprocessor_config.json");
  f.group("model", model);
  f.group("optim", optim);
}

void Config::take_folders(const Fields& fields) {
  if (!adapter.empty() && pretrained.empty())
    fail("--adapter={}: name the model that it belongs to, --pretrained", adapter);
  model.take(adapter, fields);
  if (!adapter.empty()) model.pooler = read_peft(adapter).pooled;
  if (!pretrained.empty()) take_sizes(fields);
  const std::string& method = model.method;
  if ((method == "pooler" || method == "snnk-pooler" || method == "bundle") && !model.pooler)
    fail("--model.method={}: the model has no pooler; add --model.pooler=on", method);
  if (pretrained.empty() && method != "full") {
    fail("--model.method={}: name the folder of a pretrained model with --pretrained; a new one is trained as a whole",
         method);
  }
}

void Config::take_sizes(const Fields& fields) {
  const VitOptions theirs = vit_options();
  const auto take = [&](const char* name, int64_t& value, int64_t size) {
    if (fields.find(name)->was_asked() && value != size)
      fail("--{}={}: the model in {} has {}; leave it out", name, value, pretrained, size);
    value = size;
  };
  take("model.image", model.image, theirs.image);
  take("model.patch", model.patch, theirs.patch);
  take("model.layers", model.layers, theirs.layers);
  take("model.dim", model.dim, theirs.dim);
  take("model.heads", model.heads, theirs.attention.heads);
  take("model.hidden", model.hidden, theirs.hidden);
}

std::vector<std::string> Config::classes() const {
  if (!images->classes.empty()) return images->classes;
  if (run.task == "cifar10") return images::cifar10_classes();
  return {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
}

VitOptions Config::vit_options() const {
  VitOptions options;
  if (!pretrained.empty()) {
    options = pretrained_vit(pretrained);
  } else {
    options.image = model.image;
    options.patch = model.patch;
    options.layers = model.layers;
    options.dim = model.dim;
    options.hidden = model.hidden;
    options.attention.heads = model.heads;
  }
  if (options.channels != 3 && options.channels != 1) {
    fail("{}: the model reads {} channels; images have 3, or 1 where they are grey", pretrained, options.channels);
  }
  if (options.channels == 1 && run.task == "cifar10")
    fail("{}: the model reads one channel, and {} has 3", pretrained, run.task);
  options.pooler = model.pooler;
  options.labels = classes();
  options.classes = std::ssize(options.labels);
  options.problem_type = kOneLabelProblem;
  set_attention(options, pretrained, model.mechanism.chosen(run.attention), model.attention_blocks);
  model.set_dropout(options);
  return options;
}

images::Preparation Config::preparation() const {
  const VitOptions options = vit_options();
  return images::read_preparation(pretrained, options.image, options.channels);
}

}  // namespace bochner::vit
