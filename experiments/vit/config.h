// The options of `vit`: images, a Vision Transformer, pretrained or new, how it is fitted to them, and the training.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "datasets/images/preparation.h"
#include "datasets/partial.h"
#include "experiments/learners/adaptation/config.h"
#include "experiments/learners/task.h"
#include "layers/models/vit.h"

namespace bochner::vit {

/// The options of images, which all tasks share.
struct ImageConfig {
  Partial partial{};
  std::vector<std::string> classes{};
  int64_t each = 0;
  double valid_share = 0.25;
  images::Augmentation augmentation{};

  void fields(Fields& f);
};

using ImageTask = TaskEntry<images::ImageSets>;

/// cifar10, fashion-mnist and mnist.
std::vector<ImageTask> image_tasks(const std::shared_ptr<const ImageConfig>& config);

struct ModelConfig : AdaptationConfig {
  bool pooler = false;
  // For a new model.
  int64_t image = 32;
  int64_t patch = 4;
  int64_t layers = 6;
  int64_t dim = 128;
  int64_t heads = 4;
  int64_t hidden = 256;

  void fields(Fields& f);
};

struct Config : FittingConfig {
  RunOptions run;
  std::shared_ptr<ImageConfig> images = std::make_shared<ImageConfig>();
  std::vector<ImageTask> tasks = image_tasks(images);
  std::string pretrained{};
  ModelConfig model;
  OptimConfig optim;

  Config();
  void fields(Fields& f);
  /// Takes what the folders of model and adapter say, and checks what can be known without data.
  void take_folders(const Fields& fields);

  /// The names of the classes that are distinguished.
  std::vector<std::string> classes() const;
  /// The model that config.json in --pretrained describes, or the new one of the options, with a classifier. An Error
  /// names what does not fit.
  VitOptions vit_options() const;
  /// The preprocessing of images for this model.
  images::Preparation preparation() const;

 private:
  /// Takes the sizes in config.json, for the record. An Error if others were given.
  void take_sizes(const Fields& fields);
};

}  // namespace bochner::vit
