#include "experiments/learners/rows/config.h"

namespace bochner::rows {

void ModelConfig::fields(Fields& f) {
  f("first", first, "hidden units of the first layer, or of several layers one after the other").at_least(1);
  f("hidden", hidden, "hidden units of the last hidden layer, which SNNK replaces").at_least(1);
  f("dropout", dropout, "dropout after each hidden layer").at_least(0).below(1);
  const size_t before = f.all().size();
  SnnkInPlaceConfig::fields(f);
  f("bias", bias, "take ReLU features of (x, 1) and (w, b) instead of x and w")
      .only("with --attention=snnk-relu", snnk_layer(f, [](const std::string& name) { return name == "relu"; }));
  only_with_snnk(f, before);
}

std::vector<std::string> layer_names() {
  std::vector<std::string> names = {"linear"};
  for (const std::string& activation : snnk_activations()) names.push_back("snnk-" + activation);
  return names;
}

MlpOptions mlp_options(const ModelConfig& model, const std::string& layer, int64_t inputs, int64_t classes) {
  if (model.first.empty()) fail("model.first: no layer in front of the one that SNNK stands in for; name its units");
  MlpOptions options{.inputs = inputs, .hidden = model.first, .outputs = classes};
  options.hidden.push_back(model.hidden);
  options.snnk_layer = static_cast<int>(model.first.size());
  options.dropout = model.dropout;
  if (layer == "linear") return options;
  options.snnk = model.snnk(layer.substr(5));
  options.snnk->bias_coordinate = model.bias;
  options.snnk_start = model.start;
  return options;
}

std::vector<std::string> doubts(const RunOptions& run, const TableSplits& data) {
  constexpr int64_t kRowsOfAClass = 10;
  std::vector<std::string> lines;
  if (run.batch > data.train.rows()) {
    lines.push_back(fmt::format("--batch={} is more than the {} training rows: every step takes these {}", run.batch,
                                data.train.rows(), data.train.rows()));
  }
  if (data.train.rows() < kRowsOfAClass * data.classes) {
    lines.push_back(
        fmt::format("{} classes in {} training rows, less than {} rows a class: does the label's column hold "
                    "classes, or measurements?",
                    data.classes, data.train.rows(), kRowsOfAClass));
  }
  return lines;
}

}  // namespace bochner::rows
