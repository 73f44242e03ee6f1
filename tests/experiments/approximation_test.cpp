// The measurements of the approximation experiment against closed forms and direct computation, then its program.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <numbers>

#include "datasets/tokenizers/wordpiece.h"
#include "engine/io/file.h"
#include "engine/io/safetensors.h"
#include "experiments/approximation/pretrained.h"
#include "tests/experiments/process.h"
#include "tests/experiments/tiny_bert.h"
#include "tests/message_of.h"

namespace bochner {
namespace {

using test::Ended;
using test::Process;
using test::TemporaryFolder;
using Rows = std::vector<std::vector<double>>;

/// Mean of f(t) over t ~ N(0, 1), by the trapezoidal rule.
double gaussian_mean(const std::function<double(double)>& f) {
  double sum = 0;
  constexpr double kStep = 1e-3;
  for (double t = -14; t <= 14; t += kStep) sum += f(t) * std::exp(-t * t / 2) * kStep;
  return sum / std::sqrt(2 * std::numbers::pi);
}

double gaussian_variance(const std::function<double(double)>& f) {
  const double mean = gaussian_mean(f);
  return gaussian_mean([&](double t) { return (f(t) - mean) * (f(t) - mean); });
}

/// (1, 1, L, D) as rows.
Rows rows_of(const Tensor& x) {
  const std::vector<double> values = x.to_vector<double>();
  Rows rows;
  for (int64_t i = 0; i < x.size(2); ++i) {
    rows.emplace_back(values.begin() + i * x.size(3), values.begin() + (i + 1) * x.size(3));
  }
  return rows;
}

/// softmax(Q K^T / sqrt D) V, number by number.
Rows attention_of(const Rows& Q, const Rows& K, const Rows& V) {
  Rows O(Q.size(), std::vector<double>(V[0].size(), 0));
  for (size_t i = 0; i < Q.size(); ++i) {
    double total = 0;
    for (size_t j = 0; j < K.size(); ++j) {
      double score = 0;
      for (size_t d = 0; d < K[j].size(); ++d) score += Q[i][d] * K[j][d];
      const double weight = std::exp(score / std::sqrt(static_cast<double>(K[j].size())));
      total += weight;
      for (size_t d = 0; d < V[j].size(); ++d) O[i][d] += weight * V[j][d];
    }
    for (double& value : O[i]) value /= total;
  }
  return O;
}

Rows product(const Rows& A, const Tensor& W) {
  const std::vector<double> w = W.to_vector<double>();
  const auto columns = static_cast<size_t>(W.size(1));
  Rows result(A.size(), std::vector<double>(columns, 0));
  for (size_t i = 0; i < A.size(); ++i) {
    for (size_t k = 0; k < A[i].size(); ++k) {
      for (size_t j = 0; j < columns; ++j) result[i][j] += A[i][k] * w[k * columns + j];
    }
  }
  return result;
}

/// LayerNorm of each row of A + B.
Rows normed_sum(const Rows& A, const Rows& B) {
  Rows result = A;
  for (size_t i = 0; i < A.size(); ++i) {
    const auto n = static_cast<double>(A[i].size());
    double mean = 0;
    double variance = 0;
    for (size_t j = 0; j < A[i].size(); ++j) mean += (result[i][j] += B[i][j]) / n;
    for (const double value : result[i]) variance += (value - mean) * (value - mean) / n;
    for (double& value : result[i]) value = (value - mean) / std::sqrt(variance + 1e-5);
  }
  return result;
}

// omega.x for x of any dimension is |x| t with t ~ N(0, 1), so both errors are integrals over a line.
TEST(Approximation, ErrorsOfOneFeatureAreTheVariancesOfTheEstimators) {
  for (const double length : {0.3, 0.8, 1.2}) {
    for (const double angle : {0.4, 1.5, 2.8}) {
      const double l2 = length * length;
      const double plus = length * std::sqrt(2 * (1 + std::cos(angle)));
      const double minus = length * std::sqrt(2 * (1 - std::cos(angle)));
      const KernelErrors errors = kernel_errors(length, angle);
      const double trigonometric = gaussian_variance([&](double t) { return std::exp(l2) * std::cos(minus * t); });
      const double positive = gaussian_variance([&](double t) { return std::exp(plus * t - l2); });
      EXPECT_NEAR(errors.trigonometric / trigonometric, 1, 1e-6) << length << " " << angle;
      EXPECT_NEAR(errors.positive / positive, 1, 1e-6) << length << " " << angle;
      EXPECT_NEAR(error_ratio(length, angle) * errors.positive / errors.trigonometric, 1, 1e-9);
    }
  }
  EXPECT_NEAR(error_ratio(1, std::numbers::pi / 2), (1 - std::exp(-2.0)) / 2, 1e-12);
  EXPECT_GT(error_ratio(1, 3.1), 100);   // PERF Fig. 2: positive features win where the kernel is small
  EXPECT_LT(error_ratio(1, 0.1), 0.01);  // and lose where it is large
}

TEST(Approximation, OutputErrorIsTheMeanSquareOfTheDifference) {
  constexpr double kScale = 1.7;
  Generator generator(5);
  const double found = output_error("none", 6, 4, kScale, generator);  // `none` returns V
  Generator again(5);
  const Tensor Q = normal({1, 1, 6, 4}, again, 0, kScale);
  const Tensor K = normal({1, 1, 6, 4}, again, 0, kScale);
  const Rows V = rows_of(normal({1, 1, 6, 4}, again));
  const Rows O = attention_of(rows_of(Q), rows_of(K), V);
  double expected = 0;
  for (size_t i = 0; i < 6; ++i) {
    for (size_t d = 0; d < 4; ++d) expected += (V[i][d] - O[i][d]) * (V[i][d] - O[i][d]) / 24;
  }
  EXPECT_NEAR(found, expected, 1e-5 * expected);
  EXPECT_LT(output_error("softmax", 6, 4, kScale, generator), 1e-12);
}

// For short vectors, the error is that of a mean of M features: with 64 times the features about 1 / 64 of it.
TEST(Approximation, OutputErrorFallsWithTheFeatures) {
  for (const char* name : {"performer", "performer-trig"}) {
    double few = 0;
    double many = 0;
    for (uint64_t seed = 0; seed < 8; ++seed) {
      Generator a(seed);
      Generator b(seed);
      few += output_error({name, {{"features", 16}}}, 64, 16, 0.5, a);
      many += output_error({name, {{"features", 1024}}}, 64, 16, 0.5, b);
    }
    EXPECT_GT(few, 16 * many) << name;
    EXPECT_LT(few, 256 * many) << name;
  }
}

TEST(Approximation, LayeredErrorsOfAttentionAlone) {
  constexpr int64_t kLength = 5;
  constexpr int64_t kDim = 3;
  Generator generator(9);
  const std::vector<double> found = layered_errors("none", {.length = kLength, .dim = kDim, .layers = 2}, generator);
  ASSERT_EQ(found.size(), 2U);
  Generator again(9);
  Rows x = rows_of(normal({1, kLength, kDim}, again).view({1, 1, kLength, kDim}));
  Rows y = x;
  for (size_t layer = 0; layer < 2; ++layer) {
    const auto weights = [&] { return normal({kDim, kDim}, again, 0, 1 / std::sqrt(3.0)); };
    const Tensor Wq = weights();
    const Tensor Wk = weights();
    const Tensor Wv = weights();
    x = normed_sum(x, product(x, Wv));
    y = normed_sum(y, attention_of(product(y, Wq), product(y, Wk), product(y, Wv)));
    double expected = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      double distance = 0;
      double norm = 0;
      for (size_t j = 0; j < x[i].size(); ++j) {
        distance += (x[i][j] - y[i][j]) * (x[i][j] - y[i][j]);
        norm += y[i][j] * y[i][j];
      }
      expected += std::sqrt(distance / norm) / kLength;
    }
    EXPECT_NEAR(found[layer], expected, 1e-4) << layer;
  }
}

TEST(Approximation, LayeredErrorsOfWholeBlocks) {
  const Stack stack{.length = 32, .dim = 4, .heads = 2, .layers = 3, .hidden = 16};
  Generator exact(1);
  for (const double error : layered_errors("softmax", stack, exact)) EXPECT_EQ(error, 0);
  Generator coarse(1);
  Generator fine(1);
  const double few = layered_errors({"performer", {{"features", 4}}}, stack, coarse).back();
  const double many = layered_errors({"performer", {{"features", 2048}}}, stack, fine).back();
  EXPECT_GT(few, 2 * many);
  EXPECT_GT(many, 0);
}

TEST(Approximation, SpectralErrorIsARatioOfLargestSingularValues) {
  Generator generator(3);
  const auto random = [&](int64_t dim) { return normal({1, 1, 7, dim}, generator, 0, 1, DType::f64); };
  const Tensor Q = random(1);
  const Tensor K = random(1);
  const Tensor V = random(1);  // of one column the singular value is the length
  const Rows O = attention_of(rows_of(Q), rows_of(K), rows_of(V));
  double distance = 0;
  double norm = 0;
  for (size_t i = 0; i < O.size(); ++i) {
    distance += std::pow(rows_of(V)[i][0] - O[i][0], 2);
    norm += O[i][0] * O[i][0];
  }
  EXPECT_NEAR(spectral_error("none", 1, {Q, K, V}, generator), std::sqrt(distance / norm), 1e-9);
}

// With every row of (Q; K) among the landmarks, Nystrom's matrix is the matrix itself.
TEST(Approximation, NystromWithAllLandmarksIsExact) {
  Generator generator(4);
  const auto random = [&] { return normal({1, 1, 6, 4}, generator, 0, 1, DType::f64); };
  const Tensor Q = random();
  const Tensor K = random();
  const Tensor V = random();
  EXPECT_LT(spectral_error("nystrom", 200, {Q, K, V}, generator), 1e-6);
  EXPECT_GT(spectral_error("nystrom", 1, {Q, K, V}, generator), 1e-3);
}

// Softmax attention of these inputs is what each block's attention computes.
TEST(Approximation, InputsOfBlocksAreThoseThatTheirAttentionReads) {
  std::vector<Tensor> outputs;  // (1, heads, L, D)
  BertOptions options{.vocabulary = 20, .length = 16, .layers = 2, .dim = 6, .hidden = 8};
  options.attention.heads = 3;
  options.attention.watch = [&](const std::string&, const Tensor& O) { outputs.push_back(O); };
  options.deviation = 0.8;
  Generator init(5);
  Bert bert({}, options, init);
  const std::vector<AttentionInputs> inputs = attention_inputs(bert, Tensor::from<int64_t>({2, 7, 1, 19, 8}, {1, 5}));
  ASSERT_EQ(inputs.size(), 2U);
  ASSERT_EQ(outputs.size(), 2U);
  for (size_t block = 0; block < 2; ++block) {
    for (int64_t head = 0; head < 3; ++head) {
      const auto of_head = [&](const Tensor& x) {
        return rows_of(x.slice(1, head, head + 1).cast(DType::f64).contiguous());
      };
      const Rows expected = attention_of(of_head(inputs[block].Q), of_head(inputs[block].K), of_head(inputs[block].V));
      const Rows found = of_head(outputs[block]);
      for (size_t i = 0; i < 5; ++i) {
        for (size_t d = 0; d < 2; ++d) EXPECT_NEAR(found[i][d], expected[i][d], 1e-5) << block << head << i << d;
      }
    }
  }
}

// Scores (1, 3) and (2, 6) of two queries: deviations 1 and 2.
TEST(Approximation, ScoresDeviateOverTheKeysOfAQuery) {
  const Tensor Q = Tensor::from<double>({1, 2}, {1, 1, 2, 1});
  const Tensor K = Tensor::from<double>({1, 3}, {1, 1, 2, 1});
  EXPECT_DOUBLE_EQ(deviation_of_scores({Q, K, K}), std::sqrt((1 + 4) / 2.0));
}

/// A BERT of 2 blocks of 2 heads in `model`, whose weights are larger than config.json says that new ones are, and
/// `texts` of 1 and of 20 words.
void put_model_and_texts(const TemporaryFolder& folder) {
  test::save_tiny_bert(folder / "model", {.deviation = 0.8});
  nlohmann::json config = nlohmann::json::parse(test::contents(folder / "model/config.json"));
  config["initializer_range"] = 0.02;
  test::put(folder / "model/config.json", config.dump());
  std::filesystem::create_directories(folder / "texts");
  std::string words;
  for (const char letter : std::string("abcdefghijklmnopqrst")) words += std::string(1, letter) + " ";
  test::put(folder / "texts/1.txt", "a\n");
  test::put(folder / "texts/2.txt", words.substr(0, 20) + "\n" + words.substr(20) + "\n");
  test::put(folder / "texts/3.txt", "b " + words);
}

TEST(Approximation, PiecesAreTheFirstTokensOfDocumentsThatAreLongEnough) {
  const TemporaryFolder folder;
  put_model_and_texts(folder);
  const std::vector<Tensor> pieces = pieces_of({folder / "texts"}, folder / "model", 8, 2);
  const Wordpiece tokenizer(read_pretrained_vocabulary(folder / "model"));
  Wordpiece::Encoder encoder(tokenizer);
  ASSERT_EQ(pieces.size(), 2U);
  const char* const begins[] = {"a b c d e f", "b a b c d e"};
  for (size_t i = 0; i < 2; ++i) {
    const std::vector<int32_t> ids = encoder.encode(begins[i]).ids;
    EXPECT_EQ(pieces[i].shape(), Shape({1, 8}));
    EXPECT_EQ(pieces[i].to_vector<int64_t>(), std::vector<int64_t>(ids.begin(), ids.end()));
  }
  EXPECT_NE(test::message_of([&] {
              pieces_of({folder / "texts"}, folder / "model", 8, 3);
            }).find("2 documents of at least 6 tokens, but 3 are asked for"),
            std::string::npos);
}

Ended approximation(const TemporaryFolder& folder, std::vector<std::string> arguments) {
  const bool draws = std::ranges::find(arguments, "--task=regions") == arguments.end();
  if (draws) arguments.insert(arguments.begin(), "--repeats=2");
  arguments.insert(arguments.begin(), {BOCHNER_APPROXIMATION, "--out=run"});
  return Process(arguments, folder.path()).wait();
}

nlohmann::json results(const TemporaryFolder& folder) {
  return nlohmann::json::parse(test::contents(folder / "run/results.json"));
}

TEST(ApproximationProgram, Regions) {
  const TemporaryFolder folder;
  const Ended ended = approximation(folder, {"--task=regions"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  const auto figures = results(folder).at("figures");
  ASSERT_EQ(figures.size(), 2U);
  for (const auto& curve : figures[0].at("curves")) {  // Fig. 2: positive features gain with the angle
    EXPECT_LT(curve.at("points").front().at(1), 0);
    EXPECT_GT(curve.at("points").back().at(1), 0);
  }
  EXPECT_NE(test::contents(folder / "run/report.html").find("Performer, Fig. 2"), std::string::npos);
}

TEST(ApproximationProgram, FeaturesForEachScale) {
  const TemporaryFolder folder;
  const Ended ended =
      approximation(folder, {"--task=features", "--length=32", "--features=8,64", "--scales=0.25,0.5", "--dim=4"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  const auto record = results(folder);
  ASSERT_EQ(record.at("figures").size(), 2U);
  for (const auto& figure : record.at("figures")) {
    ASSERT_EQ(figure.at("curves").size(), 4U);
    for (const auto& curve : figure.at("curves")) EXPECT_EQ(curve.at("points").size(), 2U);
  }
  EXPECT_EQ(record.at("tables").at(0).at("rows").size(), 7U);  // four estimators, three ratios
  EXPECT_NE(ended.out.find("Performer, Fig. 4"), std::string::npos) << ended.out;
}

TEST(ApproximationProgram, Layers) {
  const TemporaryFolder folder;
  const Ended ended = approximation(
      folder, {"--task=layers", "--length=16", "--features=8", "--layers=3", "--dim=4", "--heads=2", "--hidden=8"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  const auto figures = results(folder).at("figures");
  ASSERT_EQ(figures.size(), 2U);
  EXPECT_EQ(figures[0].at("curves").at(0).at("points").size(), 3U);
}

TEST(ApproximationProgram, SpectralOfRandomAndOfImportedTensors) {
  const TemporaryFolder folder;
  const std::vector<std::string> sizes = {"--task=spectral", "--features=4,8", "--lengths=8,16"};
  std::vector<std::string> arguments = sizes;
  arguments.insert(arguments.end(), {"--dim=4", "--scales=0.5,1"});
  Ended ended = approximation(folder, arguments);
  ASSERT_EQ(ended.code, 0) << ended.err;
  ASSERT_EQ(results(folder).at("figures").size(), 4U);
  std::filesystem::remove_all(folder / "run");

  Generator generator(1);
  TensorMap map;
  for (const char* name : {"Q", "K", "V"}) map[name] = normal({2, 3, 12, 4}, generator);
  write_safetensors(folder / "qkv.safetensors", map);
  arguments = sizes;
  arguments.emplace_back("--qkv=qkv.safetensors");
  ended = approximation(folder, arguments);
  ASSERT_EQ(ended.code, 0) << ended.err;
  const auto figures = results(folder).at("figures");
  ASSERT_EQ(figures.size(), 1U);  // 12 tokens hold the first 8, not 16
  EXPECT_NE(figures[0].at("title").get<std::string>().find("L = 8, Q and K of qkv.safetensors"), std::string::npos);
  EXPECT_EQ(figures[0].at("curves").size(), 4U);
}

TEST(ApproximationProgram, SpectralOfAPretrainedModel) {
  const TemporaryFolder folder;
  put_model_and_texts(folder);
  const std::vector<std::string> options = {"--task=spectral", "--features=2,64", "--lengths=8,1000",
                                            "--pretrained=model", "--methods=nystrom,performer"};
  std::vector<std::string> arguments = options;
  arguments.emplace_back("--text=texts");
  Ended ended = approximation(folder, arguments);
  ASSERT_EQ(ended.code, 0) << ended.err;
  const nlohmann::json record = results(folder);
  ASSERT_EQ(record.at("figures").size(), 2U);  // the model reads 32 tokens, not 1000
  EXPECT_NE(ended.err.find("--lengths: 1000 is left out, as the model has 32 positions"), std::string::npos);
  ASSERT_EQ(record.at("tables").size(), 5U);  // two of each, and what the papers print
  const auto title = [&](const char* kind, size_t i) { return record.at(kind)[i].at("title").get<std::string>(); };
  EXPECT_EQ(title("figures", 0), "Spectral norm of the error (SKY Fig. 1): L = 8, initial weights");
  EXPECT_EQ(title("tables", 3), "Median by block, 64 features or landmarks: L = 8, pretrained weights");
  for (const auto& figure : record.at("figures")) {
    const auto& nystrom = figure.at("curves")[0].at("points");
    EXPECT_LT(nystrom[1][1].get<double>(), nystrom[0][1].get<double>() - 1);  // 64 landmarks are nearly all rows
  }
  const auto scores = [&](size_t i) { return std::stod(record.at("tables")[i].at("rows")[0][1].get<std::string>()); };
  EXPECT_GT(scores(3), 10 * scores(1));

  std::filesystem::remove_all(folder / "run");
  EXPECT_NE(approximation(folder, options).err.find("name texts that it reads, with --text"), std::string::npos);
  arguments.emplace_back("--scales=2");
  EXPECT_NE(approximation(folder, arguments).err.find("its own; leave it out"), std::string::npos);
  arguments.back() = "--qkv=q.safetensors";
  EXPECT_NE(approximation(folder, arguments).err.find("give one of them"), std::string::npos);
  arguments.back() = "--task=features";
  EXPECT_NE(approximation(folder, arguments).err.find("it counts only with --task=spectral"), std::string::npos);
  arguments.back() = "--lengths=2";
  ended = approximation(folder, arguments);
  EXPECT_EQ(ended.code, 2);
  EXPECT_NE(ended.err.find("no room for text"), std::string::npos) << ended.err;
}

TEST(ApproximationProgram, NamesWhatIsWrong) {
  const TemporaryFolder folder;
  Ended ended = approximation(folder, {"--task=spectral", "--methods=nystroem"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_NE(ended.err.find("did you mean 'nystrom'"), std::string::npos) << ended.err;
  write_safetensors(folder / "q.safetensors", {{"Q", Tensor::zeros({1, 1, 4, 4})}});
  ended = approximation(folder, {"--task=spectral", "--qkv=q.safetensors"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_NE(ended.err.find("no tensor 'K'"), std::string::npos) << ended.err;
  EXPECT_EQ(approximation(folder, {"--task=features", "--scales=0"}).code, 2);
}

TEST(ApproximationProgram, RefusesWhatWouldChangeNothingOrNeverEnd) {
  const TemporaryFolder folder;
  for (const char* option : {"--steps=3", "--batch=3", "--attention=softmax"}) {
    const Ended ended = approximation(folder, {"--task=regions", option});
    EXPECT_EQ(ended.code, 2) << option;
    EXPECT_NE(ended.err.find("leave it out; approximation has no use for it"), std::string::npos) << ended.err;
  }
  EXPECT_EQ(approximation(folder, {"--help"}).out.find("--batch"), std::string::npos);
  for (const char* option : {"--repeats=1000000000", "--layers=1000000000"}) {
    const Ended ended = approximation(folder, {"--task=layers", option});
    EXPECT_EQ(ended.code, 2) << option;
    EXPECT_NE(ended.err.find("at most"), std::string::npos) << ended.err;
  }
  for (const auto& [task, options] : std::map<std::string, std::vector<std::string>>{
           {"regions", {"--length=8", "--features=8", "--repeats=1", "--dim=8"}},
           {"features", {"--lengths=8", "--heads=2", "--methods=nystrom"}},
           {"layers", {"--scales=1", "--lengths=8"}},
           {"spectral", {"--length=8", "--layers=2", "--hidden=8"}}}) {
    for (const std::string& option : options) {
      const Ended ended = approximation(folder, {"--task=" + task, option});
      EXPECT_EQ(ended.code, 2) << task << " " << option;
      EXPECT_NE(ended.err.find(": leave it out; it counts only with "), std::string::npos) << ended.err;
    }
  }
  write_file_atomically(folder / "file", "x");
  const Ended ended = approximation(folder, {"--task=regions", "--out=file"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_NE(ended.err.find("--out=file: that is a file; name a folder"), std::string::npos) << ended.err;
}

}  // namespace
}  // namespace bochner
