// Images and a Vision Transformer, as a Problem for the Learner.
#pragma once

#include "datasets/say.h"
#include "experiments/learners/adaptation/fitting.h"
#include "experiments/learners/learner.h"
#include "experiments/vit/config.h"

namespace bochner::vit {

/// Batches of images in the form that the model needs: `pixels` (n, channels, side, side) and `labels` (n). In
/// training, the order of epoch e, and the augmentation of an image in it, depend only on the seed, e and the number of
/// the image.
class ImageFeed final : public Feed {
 public:
  struct Order {
    int64_t batch = 64;
    bool shuffle = false;
    uint64_t seed = 0;
    bool inputs = true;  ///< whether there are `pixels`
  };

  /// `augmentation` applies if the images are shuffled.
  ImageFeed(std::shared_ptr<const images::Images> images, images::Preparation preparation,
            images::Augmentation augmentation, const Order& order);
  Examples next() override;
  void go_to(int64_t step) override { step_ = step; }
  int64_t steps_per_epoch() const override;
  int64_t examples() const override { return images_->count(); }

 private:
  std::shared_ptr<const images::Images> images_;
  images::Preparation preparation_;
  images::Augmentation augmentation_;
  Order order_;
  int64_t step_ = 0;
  int64_t ordered_ = -1;  ///< the epoch of numbers_
  std::vector<int64_t> numbers_;
};

/// The model with its pretrained weights, changed as the method says. `say` is told which weights were read, and
/// `adapted` receives the result. An Error if a pooler that the folder lacks would keep its random initial values.
std::shared_ptr<Vit> make_vit(const Config& config, const Say& say, Adapted& adapted);

/// The states of all tokens of `pixels`.
Variable states_of(PretrainedModel& vit, const Examples& batch, Context& context);

/// 8 random images, as examples without labels.
Examples random_images(const Config& config);

/// `memory` keeps a frozen trunk's states of the images; those of training images unless they change in each epoch.
Fitted problem_of(const Config& config, const ImageTask& task, const std::shared_ptr<const images::ImageSets>& sets,
                  const std::shared_ptr<TrunkStates>& memory, const Say& say);

/// Writes the best model of the run --export into --to, with low-rank updates merged into their matrices, and with
/// preprocessor_config.json. transformers has no ViT with both a pooler and a classifier: for such a model, writes the
/// trunk and the pooler, and says so. An Error if the model has something that transformers does not support.
void export_run(const Config& config, const Say& say);

}  // namespace bochner::vit
