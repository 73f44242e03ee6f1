#include "experiments/lra/analysis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "datasets/subset.h"
#include "engine/io/file.h"
#include "experiments/common/process/build_info.h"
#include "experiments/common/process/progress.h"
#include "experiments/common/report/chart.h"
#include "experiments/common/report/report.h"
#include "experiments/common/report/table.h"
#include "experiments/common/run/answer.h"
#include "experiments/common/run/run_folder.h"
#include "experiments/learners/analysis/covariances.h"
#include "experiments/learners/analysis/instability.h"
#include "experiments/learners/analysis/noise.h"
#include "experiments/learners/analysis/singular_values.h"
#include "experiments/learners/sequence/problem.h"
#include "experiments/lra/config.h"
#include "layers/models/pair_classifier.h"

namespace bochner::lra {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kNoiseStream = 1;  // a fork of the stream of evaluations

/// What the analyses found, as text and as numbers.
struct Findings {
  Json numbers;
  std::vector<std::pair<std::string, Table>> tables;
  std::vector<ReportFigure> figures;

  void add(const std::string& title, Table table, const std::string& note, const std::string& chart = "") {
    figures.push_back({title, "<p>" + html_escaped(note) + "</p>\n<div class=\"wide\">" + table.html() + "</div>\n" +
                                  (chart.empty() ? "" : "<div class=\"charts\">" + chart + "</div>\n")});
    tables.emplace_back(title, std::move(table));
  }
};

/// JSON has no NaN.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
std::string shown(double value) { return std::isfinite(value) ? fmt::format("{:.4g}", value) : kNoNumber; }
std::string percent(double share) { return fmt::format("{:.2f}", 100 * share); }

class Analysis {
 public:
  Analysis(const Config& config, Session& session)
      : config_(config),
        session_(session),
        task_(task_of(config)),
        data_(data_of(config, task_, session.log)),
        device_(Device::named(config.run.device)) {
    config_.model.mechanism.set({"redraw-in-evaluation", true});  // each evaluation has noise of its own
  }

  Findings run(const State& checkpoint) {
    Findings findings;
    EncoderOptions options = encoder_options(config_.model, config_.run.attention, data_.task);
    std::map<std::string, Tensor> outputs;
    bool watches = false;
    options.attention.watch = [&](const std::string& path, const Tensor& O) {
      if (watches) outputs[path] = O;
    };
    const Problem problem = problem_with(options);
    problem.model->to(device_, DType::f32);
    load_module(*problem.model, checkpoint);
    add_noise(problem, findings);
    add_covariances(problem, findings);
    watches = true;
    add_outputs(problem, outputs, findings);
    add_instability(findings);
    return findings;
  }

 private:
  /// Uses a sample of the test set in its own order, so that the first examples are not the shortest; or training
  /// batches as the run had them.
  Problem problem_with(const EncoderOptions& options, bool as_trained = false) const {
    RunOptions run = config_.run;
    run.group_by_length = run.group_by_length && as_trained;
    TaskData sampled = data_;
    sampled.test = spread_sample(data_.test, config_.analysis.examples);
    return sequence::classification(run, options, sampled, task_);
  }

  void add_noise(const Problem& problem, Findings& findings) const {
    const std::unique_ptr<Feed> feed = problem.split(Split::test);
    Generator noise = stream_of(config_.run.seed, Stream::evaluation).fork(kNoiseStream);
    const int64_t examples = feed->examples();
    Progress progress(session_.log);
    const NoiseStatistics found =
        noise_statistics(*feed, problem, device_, examples, config_.analysis.evaluations, noise,
                         [&](int64_t done) { progress.update_evaluation("test", done, examples); });
    progress.finish();
    findings.numbers["noise"] = {{"examples", found.examples},
                                 {"evaluations", found.evaluations},
                                 {"accuracy", found.accuracy},
                                 {"accuracy_deviation", found.accuracy_deviation},
                                 {"VA", found.voting_accuracy},
                                 {"AGV", number(found.gain)},
                                 {"PI", found.inconsistency},
                                 {"RSD", number(found.relative_deviation)},
                                 {"RSD_median", number(found.relative_deviation_median)},
                                 {"r2_RSD_PI", number(found.r2)},
                                 {"r2_RSD_accuracy", number(found.r2_deviation_accuracy)},
                                 {"r2_PI_accuracy", number(found.r2_inconsistency_accuracy)}};
    findings.add(
        "Noise of the random features",
        {{"", "value"},
         {{"accuracy, mean %", percent(found.accuracy)},
          {"its deviation %", percent(found.accuracy_deviation)},
          {"accuracy by vote (VA) %", percent(found.voting_accuracy)},
          {"gain by voting (AGV)", shown(found.gain)},
          {"inconsistent answers (PI) of 100", shown(found.inconsistency)},
          {"relative deviation (RSD), mean", shown(found.relative_deviation)},
          {"relative deviation, median", shown(found.relative_deviation_median)},
          {"r² of RSD and PI over examples", shown(found.r2)},
          {"r² of RSD and accuracy", shown(found.r2_deviation_accuracy)},
          {"r² of PI and accuracy", shown(found.r2_inconsistency_accuracy)}}},
        fmt::format(
            "KL §4.1, Figs. 5, 9 and 10: {} evaluations of {} test examples, each with new noise. RSD is "
            "of the score of two classes. In the pictures each example is a point; VA and AGV are of the model.",
            found.evaluations, found.examples),
        noise_charts(found.each));
  }

  /// What KL's figures plot against each other for several models, here for examples.
  static std::string noise_charts(const std::vector<ExampleNoise>& each) {
    Curve deviations{"test examples", 0, false, {}, false};
    Curve accuracies = deviations;
    for (const ExampleNoise& one : each) {
      if (one.relative_deviation > 0) {
        deviations.points.emplace_back(std::log10(one.relative_deviation), one.inconsistency);
      }
      accuracies.points.emplace_back(100 * one.accuracy, one.inconsistency);
    }
    const auto finite = [](const auto& point) { return std::isfinite(point.first); };
    std::string charts;
    if (std::any_of(deviations.points.begin(), deviations.points.end(), finite)) {
      charts += line_chart("PI against RSD", "log10 of the relative deviation", {deviations});
    }
    return charts + line_chart("PI against accuracy", "evaluations that were right, %", {accuracies});
  }

  static void add_covariances(const Problem& problem, Findings& findings) {
    const std::vector<CovarianceSpectrum> spectra = covariance_spectra(problem.model->state());
    Json all = Json::array();
    Table table{{"mixture", "mean", "least", "largest", "mean of the parameter", "its largest"}, {}};
    struct Sums {
      double sum = 0, least = INFINITY, most = 0, raw = 0, most_raw = 0, count = 0;
      std::vector<double> values;
    };
    std::map<std::string, Sums> modules;
    for (const CovarianceSpectrum& one : spectra) {
      all.push_back({{"mixture", one.module},
                     {"head", one.head},
                     {"component", one.component},
                     {"covariance", one.covariance},
                     {"parameter", one.parameter}});
      Sums& sums = modules[one.module];
      for (const double value : one.covariance) sums.sum += value;
      for (const double value : one.parameter) sums.raw += value;
      sums.values.insert(sums.values.end(), one.covariance.begin(), one.covariance.end());
      sums.count += static_cast<double>(one.covariance.size());
      sums.least = std::min(sums.least, one.covariance.front());
      sums.most = std::max(sums.most, one.covariance.back());
      sums.most_raw = std::max(sums.most_raw, one.parameter.back());
    }
    findings.numbers["covariances"] = all;
    if (spectra.empty()) return;
    std::vector<Curve> curves;
    for (auto& [module, sums] : modules) {
      Curve curve{module, static_cast<int>(curves.size()), false, {}};
      std::sort(sums.values.begin(), sums.values.end());
      for (size_t k = 0; k < sums.values.size(); ++k) {
        curve.points.emplace_back(static_cast<double>(k + 1), sums.values[k]);
      }
      curves.push_back(std::move(curve));
      table.rows.push_back({module, shown(sums.sum / sums.count), shown(sums.least), shown(sums.most),
                            shown(sums.raw / sums.count), shown(sums.most_raw)});
    }
    findings.add("Eigenvalues of learnt covariances", std::move(table),
                 "KL Tables 4 and 9 to 12, over all heads of a layer. The paper's numbers are those of the parameter's "
                 "square, which is the covariance but for the released gmm-prf. At first all are 1, but for mixtures "
                 "as released.",
                 line_chart("eigenvalue of the covariance", "number, from the smallest", curves));
  }

  void add_outputs(const Problem& problem, std::map<std::string, Tensor>& outputs, Findings& findings) const {
    const std::unique_ptr<Feed> feed = problem.split(Split::test);
    const Examples batch = feed->next().to(device_);
    Generator noise = stream_of(config_.run.seed, Stream::evaluation);
    Context context{noise, false};
    problem.forward(batch, context);
    Json all = Json::array();
    Table table{{"attention", "effective rank", "of", "sequences"}, {}};
    std::vector<Curve> curves;
    for (const auto& [path, O] : outputs) {
      const SingularValues found = singular_values(O, mask_beside(batch, O));
      all.push_back({{"attention", path},
                     {"effective_rank", found.effective_rank},
                     {"sequences", found.sequences},
                     {"values", found.values}});
      table.rows.push_back({path, shown(found.effective_rank), fmt::format("{}", found.values.size()),
                            fmt::format("{}", found.sequences)});
      Curve curve{path, static_cast<int>(curves.size()), false, {}};
      for (size_t k = 0; k < found.values.size(); ++k) {
        curve.points.emplace_back(static_cast<double>(k + 1), found.values[k]);
      }
      curves.push_back(std::move(curve));
    }
    findings.numbers["attention_output"] = all;
    if (curves.empty()) return;
    findings.add("Singular values of attention's output", std::move(table),
                 "SKY Fig. 4: of the output of each attention for the first test batch, real tokens alone, all heads "
                 "side by side; the largest of each sequence is 1, mean over sequences. The slower they fall, the "
                 "harder the task, as the paper has it.",
                 line_chart("singular value", "number", curves));
  }

  /// The mask for the tokens of O: for both sequences of a pair, and true at the CLS vector in front, if there is one.
  static Tensor mask_beside(const Examples& batch, const Tensor& O) {
    Tensor mask = batch.at("mask");
    if (!mask.defined()) return mask;
    mask = mask.view({O.size(0), -1});
    const int64_t in_front = O.size(2) - mask.size(1);
    if (in_front == 0) return mask;
    Tensor longer = Tensor::full({O.size(0), O.size(2)}, 1, DType::boolean, mask.device());
    longer.slice(1, in_front, O.size(2)).copy_(mask);
    return longer;
  }

  /// tau of the first updates of a new model with this run's settings and the given attention.
  std::vector<double> scores_with(const std::string& attention) const {
    Problem problem = problem_with(encoder_options(config_.model, attention, data_.task), true);
    const Problem again = problem_with(encoder_options(config_.model, attention, data_.task), true);  // for its feed
    const std::shared_ptr<Module> model = problem.model;
    Learner learner(config_.run, config_.optim, std::move(problem));
    const TokenVectors f = [&](const Examples& x, Context& context) {
      const Tensor& ids = x.at("ids");
      const Tensor& mask = x.at("mask");
      const auto* const pairs = dynamic_cast<const PairClassifier*>(model.get());
      const Encoder::States states =
          pairs != nullptr ? pairs->states(ids, mask, context)
                           : dynamic_cast<const SequenceClassifier&>(*model).trunk().forward(ids, mask, context);
      return zero_padding(states.x.value(), states.mask);
    };
    return instability_scores(learner, *model, *again.train, f, device_, config_.analysis.updates, config_.run.seed,
                              share_of_a_step());
  }

  /// A step's share of the seconds of the run; 0 if the run is limited by steps, or has not ended.
  double share_of_a_step() const {
    const std::filesystem::path folder = config_.analyse;
    if (config_.run.seconds == 0 || !std::filesystem::exists(folder / kResults)) return 0;
    const TrainResult result = read_run(folder).result;
    return result.steps == 0 ? 0 : result.train_seconds / static_cast<double>(result.steps) / config_.run.seconds;
  }

  void add_instability(Findings& findings) const {
    session_.log.info("{} updates of a new model with {} and with softmax", config_.analysis.updates,
                      config_.run.attention);
    const std::vector<double> scores = scores_with(config_.run.attention);
    const std::vector<double> softmax = scores_with("softmax");
    const double ratio = mean_ratio(scores, softmax);
    const PaperTable papers = PaperTable::parse(session_.experiment.resources.paper);
    const PaperNumber* const paper =
        papers.find(config_.run.preset, config_.run.task, config_.run.attention, "instability ratio");
    Json values = Json::array();
    Json others = Json::array();
    Curve mine{config_.run.attention, 0, false, {}};
    Curve theirs{"softmax", 1, true, {}};
    for (size_t i = 0; i < scores.size(); ++i) {
      values.push_back(number(scores[i]));
      others.push_back(number(softmax[i]));
      mine.points.emplace_back(static_cast<double>(i + 1), scores[i]);
      theirs.points.emplace_back(static_cast<double>(i + 1), softmax[i]);
    }
    findings.numbers["instability"] = {
        {"updates", config_.analysis.updates}, {"scores", values}, {"softmax", others}, {"ratio", number(ratio)}};
    findings.add("Instability of the first updates",
                 {{"", "value"},
                  {{"mean ratio to softmax", shown(ratio)},
                   {"paper's", paper == nullptr ? kNoNumber : fmt::format("{:g}, {}", paper->value, paper->source)}}},
                 fmt::format("SKY Appendix F, Table 3: |f(x, W_i) - f(x, W_i-1)|² / |W_i - W_i-1|² of the first {} "
                             "updates of a new model with this run's settings, and of the same with softmax. f is the "
                             "vectors of real tokens behind the last norm, without dropout, both times with the same "
                             "noise.",
                             config_.analysis.updates),
                 line_chart("instability score", "update", {mine, theirs}));
  }

  Config config_;
  Session& session_;
  ArenaTask task_;
  TaskData data_;
  Device device_;
};

}  // namespace

void AnalysisConfig::fields(Fields& f) {
  f("examples", examples, "of --analyse: test examples, spread over the set, that are asked again and again")
      .at_least(1)
      .command_line_only();
  f("evaluations", evaluations, "of --analyse: how often each example is asked").at_least(2).command_line_only();
  f("updates", updates, "of --analyse: updates of the instability score").at_least(1).command_line_only();
}

void analyse(const Config& config, Session& session) {
  const std::filesystem::path folder = config.analyse;
  if (config.learn != Goal::classes)
    fail("--analyse: {} has not learnt the classes of its task (--learn)", folder.string());
  require_writable(folder, "analyse");
  const State checkpoint = best_of(folder);
  Findings findings = Analysis(config, session).run(checkpoint);
  const BuildInfo build = build_info();
  Json json = {{"run", checkpoint.text("run.id")},
               {"step", checkpoint.integer("run.step")},
               {"date", utc_now()},
               {"git", build.commit},
               {"experiment", session.experiment.name},
               {"task", config.run.task},
               {"protocol", config.run.preset.empty() ? "custom" : config.run.preset},
               {"attention", config.run.attention},
               {"seed", config.run.seed}};
  json.update(findings.numbers);
  for (const auto& [title, table] : findings.tables) fmt::print("{}\n{}\n", title, table.text());
  const std::string title =
      fmt::format("{} with {}: analysis of {}", config.run.task, config.run.attention, folder.filename().string());
  write_file_atomically(folder / "analysis.html", report_html(title, {}, {}, findings.figures));
  write_file_atomically(folder / "analysis.json", json.dump(1) + "\n");
  fmt::print("{}\n{}\n", (folder / "analysis.json").string(), (folder / "analysis.html").string());
}

}  // namespace bochner::lra
