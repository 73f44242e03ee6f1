#include "experiments/glue/problem.h"

#include <algorithm>

#include "engine/io/data_log.h"
#include "engine/io/sha256.h"
#include "engine/ops/join.h"
#include "engine/ops/sort.h"
#include "experiments/glue/methods.h"
#include "layers/models/hugging_face.h"

namespace bochner::glue {
namespace {

static_assert(kUnlabelled == kNoLabel);

constexpr int64_t kFitBatches = 32;

LoaderOptions order_of(const RunOptions& run, const Texts& texts, bool shuffle) {
  LoaderOptions options;
  options.batch_size = run.batch;
  options.pad_id = texts.tokenizer->vocabulary().padding;
  options.shuffle = shuffle;
  options.seed = stream_of(run.seed, Stream::order).seed();
  return options;
}

/// The answers that always name the most frequent class of the training set.
std::vector<Baseline> majority(const Texts& texts, const std::vector<Metric>& metrics) {
  if (texts.is_regression()) return {};
  const Dataset& train = *texts.train.tokens;
  std::vector<int64_t> counts(texts.corpus->classes.size());
  for (int64_t i = 0; i < train.size(); ++i) ++counts[static_cast<size_t>(train.label(i))];
  const auto majority = std::max_element(counts.begin(), counts.end()) - counts.begin();
  const Dataset& dev = *texts.dev[0].tokens;
  Answers answers;
  for (int64_t i = 0; i < dev.size(); ++i) {
    answers.guesses.push_back(majority);
    answers.labels.push_back(dev.label(i));
  }
  Baseline baseline{"majority class", {}};
  for (const Metric& metric : metrics) {
    if (metric.name != "loss") baseline.test.emplace_back(metric.name, metric.of(answers));
  }
  return {baseline};
}

using Forward = std::function<Outputs(const Examples&, Context&)>;

double accuracy_on(TextFeed& feed, const Forward& forward, Device device) {
  Generator noise(0);
  Context context{noise, false};
  std::vector<int64_t> guesses;
  std::vector<int64_t> labels;
  for (int64_t i = feed.steps_per_epoch(); i > 0; --i) {
    const Examples batch = feed.next();
    const Tensor scores = forward(batch.to(device), context)[0].value();
    for (const int64_t guess : argmax(scores, 1).to_vector<int64_t>()) guesses.push_back(guess);
    for (const int64_t label : batch.at("labels").to_vector<int64_t>()) labels.push_back(label);
  }
  return accuracy(guesses, labels);
}

/// So that the record of a run tells which weights it began with.
void record(const std::filesystem::path& file, const std::string& sha256) {
  if (DataLog::is_active())
    DataLog::add({file.string(), static_cast<int64_t>(std::filesystem::file_size(file)), sha256});
}

/// The scores of a batch, or 1 at the class and 0 elsewhere.  (n, outputs)
Tensor target_of(const Examples& batch, int64_t outputs) {
  if (outputs == 1) return batch.at("values").reshape({batch.size(), 1});
  std::vector<float> targets(static_cast<size_t>(batch.size() * outputs));
  const std::vector<int64_t> labels = batch.at("labels").to_vector<int64_t>();
  for (size_t i = 0; i < labels.size(); ++i)
    targets[i * static_cast<size_t>(outputs) + static_cast<size_t>(labels[i])] = 1;
  return Tensor::from(targets, {batch.size(), outputs});
}

/// Of the weights that were read, those that are frozen need not be in checkpoints.
void keep_frozen(Problem::Base& base, const std::vector<GroupRule>& rules) {
  std::set<std::string> frozen;
  for (const GroupRule& rule : rules) {
    if (rule.frozen && base.tensors.contains(rule.pattern)) frozen.insert(rule.pattern);
  }
  base.tensors = std::move(frozen);
}

}  // namespace

Examples TextFeed::next() {
  Batch batch = loader_.next();
  const int64_t rows = batch.ids.size(0);
  const int64_t length = batch.ids.size(1);
  Tensor types = Tensor::zeros({rows, length}, DType::i64);
  const auto* lengths = batch.lengths.data<int64_t>();
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t first = texts_->first[static_cast<size_t>(batch.examples[static_cast<size_t>(i)])];
    auto* row = types.data<int64_t>() + i * length;
    std::fill(row + first, row + lengths[i], 1);
  }
  Examples examples{{{"ids", batch.ids}, {"mask", batch.mask}, {"types", types}}, std::move(batch.examples)};
  if (texts_->scores.empty()) {
    examples.tensors.emplace_back("labels", batch.labels);
  } else {
    std::vector<float> scores;
    for (const int64_t i : examples.numbers) scores.push_back(texts_->scores[static_cast<size_t>(i)]);
    examples.tensors.emplace_back("values", Tensor::from(scores, {rows}));
  }
  return examples;
}

void TextFeed::go_to(int64_t step) {
  loader_.restore({step / loader_.steps_per_epoch(), step % loader_.steps_per_epoch()});
}

BertOptions bert_options(const Config& config, int64_t outputs) {
  const std::string& folder = config.text->pretrained;
  if (folder.empty()) {
    fail(
        "--pretrained: name the folder of a model, with config.json, model.safetensors and vocab.txt or "
        "tokenizer.json");
  }
  if (const std::string type = pretrained_type(folder); type != "bert") {
    fail("{}: the model is of the type '{}', not 'bert'", folder, type);
  }
  BertOptions options = read_bert_options(folder);
  options.pooler = true;
  options.masked_tokens = false;
  options.next_sentence = false;
  options.classes = outputs;
  options.labels = corpus_named(config.run.task).classes;
  set_attention(options, folder, config.model.mechanism.chosen(config.run.attention), config.model.attention_blocks);
  if (config.model.dropout >= 0) {
    options.dropout = config.model.dropout;
    options.classifier_dropout = config.model.dropout;
    options.attention_dropout = config.model.dropout;
  }
  if (config.text->max_length > options.length) {
    fail("--max-length={}: the model has {} positions", config.text->max_length, options.length);
  }
  return options;
}

std::shared_ptr<Bert> make_bert(const Config& config, int64_t outputs, const Say& say, Problem::Base& base) {
  Generator init = stream_of(config.run.seed, Stream::init);
  const auto bert = std::make_shared<Bert>(Slot{}, bert_options(config, outputs), init);
  if (!config.model.from_scratch) {
    const std::filesystem::path folder = config.text->pretrained;
    const LoadedTensors loaded = load_pretrained(*bert, folder);
    say(fmt::format("{}: {}", folder.string(), loaded.text()));
    const std::filesystem::path file = pretrained_weights(folder);
    base = {file.string(), sha256_of_file(file), loaded.filled};
    record(file, base.sha256);
  }
  const Method& method = method_of(config.model);
  if (method.adds) add_adapter(*bert, method.adds(config.model), init);
  if (method.change) method.change(*bert, config.model, init);
  if (!config.adapter.empty()) {
    const std::vector<std::string> read = load_adapter(*bert, read_peft(config.adapter), config.adapter);
    for (const std::string& name : read) base.tensors.erase(name);
    const std::filesystem::path file = std::filesystem::path(config.adapter) / "adapter_model.safetensors";
    record(file, sha256_of_file(file));
    say(fmt::format("{}: {} tensors read", config.adapter, read.size()));
  }
  return bert;
}

void fit_bundle(const Config& config, Problem& problem, int64_t outputs) {
  auto& bert = dynamic_cast<Bert&>(*problem.model);
  Bundle* bundle = bert.bundled_pooler();
  if (bundle == nullptr) fail("--model.ridge={}: only the method bundle has a closed form", config.model.ridge);
  const Device device = Device::named(config.run.device);
  bert.to(device, DType::f32);
  const NoTape inference;
  Generator unused(0);
  Context context{unused, false};
  RidgeFit regression(bundle->weight().shape()[1], outputs);
  std::vector<Tensor> features;  // a QR of many rows at once is faster
  std::vector<Tensor> targets;
  const int64_t batches = problem.train->steps_per_epoch();
  for (int64_t i = 1; i <= batches; ++i) {
    const Examples batch = problem.train->next();
    const Examples there = batch.to(device);
    const Variable x = bert.forward({there.at("ids"), there.at("mask"), there.at("types")}, context);
    features.push_back(bert.pool(x).value().to(Device::cpu()));
    targets.push_back(target_of(batch, outputs));
    if (i % kFitBatches != 0 && i != batches) continue;
    regression.add(concat(features, 0), concat(targets, 0));
    features.clear();
    targets.clear();
  }
  problem.train->go_to(0);
  const RidgeFit::Solution solution = regression.solve(config.model.ridge);
  bundle->weight().value.copy_(solution.weight.cast(DType::f32).to(device));
  bundle->bias()->value.copy_(solution.bias.cast(DType::f32).to(device));
}

Problem problem_of(const Config& config, const GlueTask& task, const std::shared_ptr<const Texts>& texts,
                   const Say& say) {
  const RunOptions& run = config.run;
  Problem problem;
  const std::shared_ptr<Bert> bert = make_bert(config, texts->outputs(), say, problem.base);
  if (const int64_t ids = texts->tokenizer->size(); ids > bert->options().vocabulary) {
    fail("{}: the tokenizer has {} ids, the model {} tokens; they do not belong together", config.text->pretrained, ids,
         bert->options().vocabulary);
  }
  const LoaderOptions in_order = order_of(run, *texts, false);
  const auto feed_of = [texts](const Encoded& encoded, const LoaderOptions& options) {
    return std::make_unique<TextFeed>(std::shared_ptr<const Encoded>(texts, &encoded), options);
  };
  problem.model = bert;
  problem.forward = [bert](const Examples& examples, Context& context) -> Outputs {
    const Variable x = bert->forward({examples.at("ids"), examples.at("mask"), examples.at("types")}, context);
    return {bert->class_scores(bert->pool(x), context)};
  };
  if (texts->is_regression()) {
    problem.objective = std::make_shared<Regression>();
  } else {
    problem.objective = std::make_shared<Classification>("labels", texts->corpus->classes);
  }
  problem.train = feed_of(texts->train, order_of(run, *texts, true));
  problem.split = [texts, feed_of, in_order](Split) { return feed_of(texts->dev[0], in_order); };
  problem.remarks = texts->remarks;
  problem.metrics = metrics_named(task.metrics, texts->outputs());
  problem.groups = rules_of(method_of(config.model), config.model, *bert);
  keep_frozen(problem.base, problem.groups);
  problem.baselines = [texts, metrics = problem.metrics] { return majority(*texts, metrics); };
  for (const TestSet& test : test_sets(run, *config.text, *texts->corpus)) {
    problem.asked.push_back({test.submission, [run, text = config.text, texts, test, in_order] {
                               const auto encoded =
                                   std::make_shared<const Encoded>(encode_test(run, *text, *texts, test));
                               return std::make_unique<TextFeed>(encoded, in_order);
                             }});
  }
  if (texts->dev.size() > 1) {
    problem.further = [texts, feed_of, in_order, forward = problem.forward, device = Device::named(run.device)](
                          Split split, const Answers&, Metrics& metrics) {
      if (split != Split::test) return;
      metrics.emplace_back("accuracy-mismatched", accuracy_on(*feed_of(texts->dev[1], in_order), forward, device));
    };
  }
  return problem;
}

}  // namespace bochner::glue
