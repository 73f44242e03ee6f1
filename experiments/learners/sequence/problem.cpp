#include "experiments/learners/sequence/problem.h"

#include "datasets/baselines.h"
#include "experiments/learners/sequence/config.h"
#include "layers/models/pair_classifier.h"

namespace bochner::sequence {

Examples TokenFeed::examples_of(Batch batch) {
  return {{{"ids", batch.ids}, {"mask", batch.mask}, {"labels", batch.labels}}, std::move(batch.examples)};
}

namespace {

template <class Model>
Classifier of(const EncoderOptions& options, Generator& init) {
  const auto model = std::make_shared<Model>(options, init);
  return {model, [model](const Tensor& ids, const Tensor& mask, Context& context) {
            return model->forward(ids, mask, context);
          }};
}

}  // namespace

Classifier classifier(const EncoderOptions& options, const Task& task, Generator& init) {
  return task.sequences == 2 ? of<PairClassifier>(options, init) : of<SequenceClassifier>(options, init);
}

Problem without_model(const RunOptions& run, const EncoderOptions& options, const TaskData& data) {
  LoaderOptions in_order;
  in_order.batch_size = run.batch;
  in_order.max_length = data.task.max_length;
  in_order.least_length = least_length(options);
  in_order.mask_zeros = data.task.masks_zeros;
  in_order.shuffle = false;
  in_order.group_by_length = run.batches_grouped_by_length();
  in_order.multiple_of = run.pad_to_multiple_of;
  in_order.seed = stream_of(run.seed, Stream::order).seed();
  LoaderOptions shuffled = in_order;
  shuffled.shuffle = true;
  shuffled.drop_last = true;

  Problem problem;
  problem.train = std::make_unique<TokenFeed>(data.train, shuffled);
  problem.split = [data, in_order](Split split) {
    return std::make_unique<TokenFeed>(split == Split::valid ? data.valid : data.test, in_order);
  };
  problem.remarks = data.remarks;
  return problem;
}

void require_batch_norm_of_batches(const RunOptions& run, const EncoderOptions& options) {
  if (options.pooled_batch_norm && run.batches_grouped_by_length()) {
    fail(
        "--model.pooled-batch-norm: batches of texts of similar length have means of their own, which an evaluation "
        "does not know; add --group-by-length=false");
  }
  if (options.pooled_batch_norm && run.accumulate > 1) {
    fail(
        "--model.pooled-batch-norm: the means of a batch are not those of its parts, so --accumulate={} would train "
        "another model; leave out one of them",
        run.accumulate);
  }
}

Problem classification(const RunOptions& run, const EncoderOptions& options, const TaskData& data,
                       const TaskEntry<TaskData>& task) {
  require_batch_norm_of_batches(run, options);
  Generator init = stream_of(run.seed, Stream::init);
  const Classifier model = classifier(options, data.task, init);
  Problem problem = without_model(run, options, data);
  problem.model = model.module;
  problem.forward = [forward = model.forward](const Examples& examples, Context& context) -> Outputs {
    return {forward(examples.at("ids"), examples.at("mask"), context)};
  };
  problem.sequences = {"ids", "mask"};
  problem.objective = std::make_shared<Classification>();
  problem.metrics = metrics_named(task.metrics, options.classes);
  problem.baselines = [data, own = task.baselines] {
    std::vector<Baseline> all = {
        of_majority_class(labels_of(*data.train), labels_of(*data.test), metrics_named({"accuracy"}))};
    const std::vector<Baseline> more = own ? own(data) : std::vector<Baseline>();
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  return problem;
}

}  // namespace bochner::sequence
