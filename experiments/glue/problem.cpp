#include "experiments/glue/problem.h"

#include "datasets/baselines.h"
#include "experiments/learners/pretrained.h"
#include "layers/models/hugging_face.h"

namespace bochner::glue {
namespace {

static_assert(kUnlabelled == kNoLabel);

LoaderOptions order_of(const RunOptions& run, const Texts& texts, int64_t max_length, bool shuffle) {
  LoaderOptions options;
  options.batch_size = run.batch;
  options.pad_id = texts.tokenizer->vocabulary().padding;
  options.shuffle = shuffle;
  options.max_length = max_length;
  options.group_by_length = run.batches_grouped_by_length();
  options.multiple_of = run.pad_to_multiple_of;
  options.seed = stream_of(run.seed, Stream::order).seed();
  return options;
}

}  // namespace

Examples TextFeed::examples_of(Batch batch) {
  Examples examples;
  if (inputs_) examples.tensors = {{"ids", batch.ids}, {"mask", batch.mask}, {"types", types_of(*texts_, batch)}};
  examples.numbers = std::move(batch.examples);
  if (texts_->scores.empty()) {
    examples.tensors.emplace_back("labels", batch.labels);
  } else {
    std::vector<float> scores;
    for (const int64_t i : examples.numbers) scores.push_back(texts_->scores[static_cast<size_t>(i)]);
    examples.tensors.emplace_back("values", Tensor::from(scores, {std::ssize(scores)}));
  }
  return examples;
}

BertOptions bert_options(const Config& config, int64_t outputs) {
  const std::string& folder = config.text->pretrained;
  BertOptions options = pretrained_bert(folder);
  options.pooler = true;
  options.masked_tokens = false;
  options.next_sentence = false;
  options.classes = outputs;
  options.labels = corpus_named(config.run.task).classes;
  options.problem_type = outputs == 1 ? kRegressionProblem : kOneLabelProblem;
  set_attention(options, folder, config.model.mechanism.chosen(config.run.attention), config.model.attention_blocks);
  config.model.set_dropout(options);
  if (config.model.dropout >= 0) options.classifier_dropout = config.model.dropout;
  require_positions(options, config.text->max_length);
  return options;
}

std::shared_ptr<Bert> make_bert(const Config& config, int64_t outputs, const Say& say, Adapted& adapted) {
  Generator init = stream_of(config.run.seed, Stream::init);
  const auto bert = std::make_shared<Bert>(Slot{}, bert_options(config, outputs), init);
  adapted = adapt(*bert, config.model, {config.text->pretrained, config.adapter}, init, say);
  return bert;
}

Variable states_of(PretrainedModel& bert, const Examples& batch, Context& context) {
  return dynamic_cast<Bert&>(bert).forward(input_of(batch), context);
}

Examples random_texts(const Config& config, int64_t vocabulary) {
  Generator draws(1);
  return {.tensors = {{"ids", integers({8, config.text->max_length}, 0, vocabulary, draws)}}, .numbers = {}};
}

Fitted problem_of(const Config& config, const GlueTask& task, const std::shared_ptr<const Texts>& texts,
                  const std::shared_ptr<TrunkStates>& memory, const Say& say) {
  const RunOptions& run = config.run;
  Adapted adapted;
  const std::shared_ptr<Bert> bert = make_bert(config, texts->outputs(), say, adapted);
  require_tokens(bert->options(), texts->tokenizer->size(), config.text->pretrained);
  const int64_t longest = config.text->max_length;
  const LoaderOptions in_order = order_of(run, *texts, longest, false);
  const auto opens = [texts, run, longest](const Encoded& encoded) -> OpenFeed {
    return [texts, run, longest, &encoded](bool shuffle, bool inputs) {
      return std::make_unique<TextFeed>(std::shared_ptr<const Encoded>(texts, &encoded),
                                        order_of(run, *texts, longest, shuffle), inputs);
    };
  };
  Fitted fitted = fitted_problem(bert, states_of, std::move(adapted), config.model);
  Problem& problem = fitted.problem;
  if (texts->is_regression()) {
    problem.objective = std::make_shared<Regression>();
  } else {
    problem.objective =
        std::make_shared<Classification>("labels", texts->corpus->classes, Classification::Tells::class_alone);
  }
  problem.remarks = texts->remarks;
  problem.only_set = "dev";
  problem.metrics = metrics_named(task.metrics, texts->outputs());
  if (reads_labelled(run)) {
    const FrozenTrunk trunk(memory, bert, states_of, repeats_of(*bert, bert->options(), problem.groups), run);
    problem.train = trunk.feed("train", opens(texts->train), true);
    fitted.in_order = [trunk, train = opens(texts->train)] { return trunk.feed("train", train, false); };
    problem.split = [trunk, dev = opens(texts->dev[0])](Split) { return trunk.feed("dev", dev, false); };
  }
  problem.baselines = [texts, metrics = problem.metrics] {
    if (texts->is_regression()) return std::vector<Baseline>();
    return std::vector{of_majority_class(labels_of(*texts->train.tokens), labels_of(*texts->dev[0].tokens), metrics)};
  };
  for (const TestSet& test : test_sets(run, *config.text, *texts->corpus)) {
    problem.asked.push_back({test.submission, [run, text = config.text, texts, test, in_order, say] {
                               const auto encoded =
                                   std::make_shared<const Encoded>(encode_test(run, *text, *texts, test, say));
                               return std::make_unique<TextFeed>(encoded, in_order);
                             }});
  }
  if (texts->dev.size() > 1) {
    problem.further_tests.push_back(
        {"mismatched", [mismatched = opens(texts->dev[1])] { return mismatched(false, true); }});
  }
  return fitted;
}

}  // namespace bochner::glue
