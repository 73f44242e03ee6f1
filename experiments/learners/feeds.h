// Feeds built on what exists already: a subclass says what the model and the objective see of each batch.
#pragma once

#include <memory>
#include <utility>

#include "datasets/loader.h"
#include "experiments/learners/examples.h"

namespace bochner {

/// The batches of a Loader.
class LoaderFeed : public Feed {
 public:
  LoaderFeed(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options)
      : loader_(std::move(dataset), options) {}
  Examples next() final { return examples_of(loader_.next()); }
  void go_to(int64_t step) final { loader_.go_to(step); }
  int64_t steps_per_epoch() const final { return loader_.steps_per_epoch(); }
  int64_t examples() const final { return loader_.dataset().size(); }

 private:
  virtual Examples examples_of(Batch batch) = 0;

  Loader loader_;
};

/// The batches of another feed.
class FeedOver : public Feed {
 public:
  explicit FeedOver(std::unique_ptr<Feed> feed) : feed_(std::move(feed)) {}
  void prepare() override { feed_->prepare(); }
  Examples next() final { return examples_of(feed_->next()); }
  void go_to(int64_t step) override { feed_->go_to(step); }
  int64_t steps_per_epoch() const final { return feed_->steps_per_epoch(); }
  int64_t examples() const override { return feed_->examples(); }

 private:
  virtual Examples examples_of(Examples given) = 0;

  std::unique_ptr<Feed> feed_;
};

}  // namespace bochner
