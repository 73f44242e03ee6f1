// Times one training step (forward, backward, AdamW) of the sequence classifier: the program behind the speed tables;
// `--attention none` times that of an MLP on tables, 54-512-512-7, with the loader of their rows; `--bert` that of BERT
// with a classifier of two classes, for which `--dropout 0.1` is the fine-tuning setting. `--forward` times only
// evaluation.
//
//   training_step --attention performer --features 128 --length 1024 [--recompute|--forward]
//                 [--batch 16 --layers 2 --dim 64 --heads 2 --hidden 128] [--threads 2] [--seconds 6]
//
// Prints one JSON line. Dropout is off otherwise, every token is real, `performer` keeps its frequencies and `gmm-*`
// draw new noise each step.
#include <sys/resource.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <iostream>

#include "autograd/fused/cross_entropy.h"
#include "autograd/optim/optimizer.h"
#include "datasets/tables/tabular.h"
#include "engine/cpu/parts/blas.h"
#include "engine/cpu/parts/limits.h"
#include "engine/packed_weights.h"
#include "engine/parallel.h"
#include "engine/precision.h"
#include "engine/stopwatch.h"
#include "layers/models/bert.h"
#include "layers/models/encoder.h"
#include "layers/models/mlp.h"

namespace {

using namespace bochner;  // NOLINT: a program, not a header
namespace po = boost::program_options;

int64_t resident_megabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

/// A step, which returns its loss; what it trains; and the operations of its matrix products, counted as other programs
/// do.
struct Training {
  std::function<double()> step;
  int64_t parameters;
  double flops;
};

bool forward_alone = false;
/// The cost of a step's products relative to its forward pass: backward has two for each of them.
double passes() { return forward_alone ? 1 : 3; }

/// Forward, backward and AdamW; or only forward, as in evaluation.
template <class Model, class Loss>
std::function<double()> step_of(std::shared_ptr<Model> model, std::shared_ptr<Generator> noise,
                                const AdamOptions& options, Loss loss_of) {
  if (forward_alone) {
    return [=, keep = std::make_shared<KeepPackedWeights>()] {
      Context context{*noise, false};
      return loss_of(context).item();
    };
  }
  const auto optimizer = std::make_shared<AdamW>(model->parameters(), options);
  return [=] {
    Context context{*noise, true};
    double loss = 0;
    {
      Tape tape;
      const Variable y = loss_of(context);
      loss = y.item();
      tape.backward(y);
    }
    optimizer->step(1e-3);
    optimizer->clear_gradients();
    return loss;
  };
}

/// For products with weights, 2 per weight, token and pass; for the scores and values of attention, 4 L per unit.
double flops_of_blocks(const EncoderOptions& options, int64_t batch) {
  const double d = static_cast<double>(options.dim);
  const double each =
      8 * d * d + 4 * d * static_cast<double>(options.hidden) + 4 * static_cast<double>(options.length) * d;
  return passes() * each * static_cast<double>(options.layers * batch * options.length);
}

Training bert(const EncoderOptions& sizes, double dropout, int64_t batch) {
  BertOptions options{.length = 512, .layers = sizes.layers, .dim = sizes.dim, .hidden = sizes.hidden, .classes = 2};
  options.dropout = options.attention_dropout = options.classifier_dropout = dropout;
  options.attention.heads = sizes.attention.heads;
  options.recompute = sizes.recompute;
  Generator init(1);
  const auto model = std::make_shared<Bert>(Slot{}, options, init);
  const auto noise = std::make_shared<Generator>(2);
  const Tensor ids = integers({batch, sizes.length}, 1, options.vocabulary, *noise);
  const Tensor types = Tensor::zeros({batch, sizes.length}, DType::i64);
  const Tensor mask = Tensor::full({batch, sizes.length}, 1, DType::boolean);
  const Tensor labels = integers({batch}, 0, 2, *noise);
  const auto step = step_of(model, noise, {.weight_decay = 0.01}, [=](Context& context) {
    const Variable x = model->forward({ids, mask, types}, context);
    return cross_entropy(model->class_scores(model->pool(x), context), labels);
  });
  return {step, model->parameter_count(), flops_of_blocks(sizes, batch)};
}

Training encoder(EncoderOptions options, int64_t features, int64_t batch) {
  options.vocabulary = 257;
  options.classes = 10;
  options.dropout = 0;
  const std::string name = options.attention.mechanism.name();
  options.attention.mechanism.set_known({{"features", features}, {"redraw", name.starts_with("gmm") ? 1 : 0}});
  Generator init(1);
  const auto model = std::make_shared<SequenceClassifier>(options, init);
  const auto noise = std::make_shared<Generator>(2);
  const Tensor ids = integers({batch, options.length}, 0, options.vocabulary, *noise);
  const Tensor labels = integers({batch}, 0, options.classes, *noise);
  const auto step = step_of(model, noise, {},
                            [=](Context& context) { return cross_entropy(model->forward(ids, {}, context), labels); });
  const auto m = static_cast<double>(features);
  const double d = static_cast<double>(options.dim);
  const double dim_of_head = d / static_cast<double>(options.attention.heads);
  double flops = passes() * (8 * d * d + 4 * d * static_cast<double>(options.hidden));
  if (name == "softmax") flops += passes() * 4 * static_cast<double>(options.length) * d;
  if (name == "linear-elu") flops += passes() * 4 * dim_of_head * d;
  if (name == "performer") flops += (passes() * 8 - (forward_alone ? 0 : 4)) * d * m;  // Omega has no gradient
  if (name.starts_with("gmm")) flops += passes() * 8 * d * m;
  return {step, model->parameter_count(), flops * static_cast<double>(options.layers * batch * options.length)};
}

Training mlp(int64_t batch) {
  struct Table {
    Table(TableSplit from, int64_t size) : rows(std::move(from)), loader(rows, size, 3) {}
    TableSplit rows;
    TableLoader loader;
  };
  Generator generator(1);
  TableSplit split;
  split.features = normal({20 * batch, 54}, generator);
  split.labels = integers({20 * batch}, 0, 7, generator);
  const auto table = std::make_shared<Table>(std::move(split), batch);
  const auto model =
      std::make_shared<Mlp>(Slot{}, MlpOptions{.inputs = 54, .hidden = {512, 512}, .outputs = 7}, generator);
  const auto noise = std::make_shared<Generator>(2);
  const auto step = step_of(model, noise, {.weight_decay = 0.01}, [=](Context& context) {
    const TableBatch here = table->loader.next();
    return cross_entropy(model->forward(here.x, context), here.labels);
  });
  const double of_inputs = passes() - (forward_alone ? 0 : 1);  // they have no gradient
  return {step, model->parameter_count(),
          2.0 * static_cast<double>(batch) * (of_inputs * 54 * 512 + passes() * (512 * 512 + 512 * 7))};
}

}  // namespace

int main(int argc, char** argv) try {
  EncoderOptions options;
  std::string name;
  std::string precision_name;
  int64_t features = 0;
  int64_t batch = 16;
  int count = 2;
  double budget = 6;
  double dropout = 0;
  bool is_bert = false;
  bool composed = false;
  po::options_description described("training_step");
  described.add_options()("help", "this text")                          //
      ("attention", po::value(&name)->default_value("performer"))       //
      ("features", po::value(&features)->default_value(128))            //
      ("length", po::value(&options.length)->default_value(1024))       //
      ("batch", po::value(&batch)->default_value(16))                   //
      ("layers", po::value(&options.layers)->default_value(2))          //
      ("dim", po::value(&options.dim)->default_value(64))               //
      ("heads", po::value(&options.attention.heads)->default_value(2))  //
      ("hidden", po::value(&options.hidden)->default_value(128))        //
      ("threads", po::value(&count)->default_value(2))                  //
      ("seconds", po::value(&budget)->default_value(6))                 //
      ("composed", po::bool_switch(&composed))                          //
      ("bert", po::bool_switch(&is_bert))                               //
      ("dropout", po::value(&dropout)->default_value(0))                //
      ("precision", po::value(&precision_name)->default_value("f32"))   //
      ("forward", po::bool_switch(&forward_alone))                      //
      ("recompute", po::bool_switch(&options.recompute));
  po::variables_map given;
  po::store(po::parse_command_line(argc, argv, described), given);
  if (given.count("help") > 0) {
    std::cout << described << "\n";
    return 0;
  }
  po::notify(given);
  set_threads(count);
  set_precision(precision_named(precision_name));
  const int64_t base = resident_megabytes();
  options.attention.mechanism = name;
  options.attention.mechanism.set_known({{"streaming", !composed}});
  const Training training = is_bert          ? bert(options, dropout, batch)
                            : name == "none" ? mlp(batch)
                                             : encoder(options, features, batch);
  training.step();
  training.step();
  Allocator& allocator = Allocator::of(Device::cpu());
  const int64_t allocations = allocator.stats().system_allocations;
  rusage before{};
  getrusage(RUSAGE_SELF, &before);
  std::vector<double> times;
  double loss = 0;
  const Stopwatch whole;
  while (times.size() < 3 || whole.seconds() < budget) {
    const Stopwatch watch;
    loss = training.step();
    times.push_back(watch.seconds());
  }
  rusage after{};
  getrusage(RUSAGE_SELF, &after);
  const auto spent = [&](auto which) {
    const timeval &from = before.*which, &to = after.*which;
    return static_cast<double>(to.tv_sec - from.tv_sec) + 1e-6 * static_cast<double>(to.tv_usec - from.tv_usec);
  };
  const double cpu_seconds = spent(&rusage::ru_utime) + spent(&rusage::ru_stime);  // of all threads
  const int64_t system = allocator.stats().system_allocations - allocations;
  const int64_t resident = resident_megabytes();
  const double tensors = static_cast<double>(allocator.stats().peak_bytes) / (1 << 20);
  std::sort(times.begin(), times.end());
  const double median = times[times.size() / 2];
  std::cout
      << fmt::format(
             R"({{"attention": "{}", "features": {}, "length": {}, "batch": {}, "dim": {}, "layers": {}, "threads": {}, "parameters": {}, )"
             R"("step_ms": {:.2f}, "min_ms": {:.2f}, "cpu_ms": {:.2f}, "steps": {}, "gflops": {:.1f}, "peak_gflops": {:.1f}, "peak_mb": {}, "base_mb": {}, )"
             R"("tensor_peak_mb": {:.1f}, "system_allocations": {}, "page_faults_per_step": {:.1f}, "blas_core": "{}", "loss": {:.5f}}})",
             name, features, options.length, batch, options.dim, options.layers, count, training.parameters,
             1e3 * median, 1e3 * times[0], 1e3 * cpu_seconds / static_cast<double>(times.size()), times.size(),
             training.flops / median / 1e9, cpu::product_peak() / 1e9, resident, base, tensors, system,
             static_cast<double>(after.ru_minflt - before.ru_minflt) / static_cast<double>(times.size()),
             cpu::blas_core(), loss)
      << "\n";
  return 0;
} catch (const std::exception& error) {
  std::cerr << "training_step: " << error.what() << "\n";
  return 2;
}
