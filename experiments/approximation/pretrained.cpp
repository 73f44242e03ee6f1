#include "experiments/approximation/pretrained.h"

#include <cmath>
#include <map>

#include "datasets/corpora/documents.h"
#include "datasets/tokenizers/wordpiece.h"
#include "engine/ops/binary.h"
#include "engine/ops/matmul.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "experiments/learners/pretrained.h"
#include "layers/models/hugging_face.h"

namespace bochner {
namespace {

/// Errors of one method with one number of features, block by block.
using ByBlock = std::vector<std::vector<double>>;

std::vector<double> joined(const ByBlock& blocks) {
  std::vector<double> all;
  for (const std::vector<double>& block : blocks) all.insert(all.end(), block.begin(), block.end());
  return all;
}

AttentionInputs head_of(const AttentionInputs& inputs, int64_t head) {
  const auto one = [&](const Tensor& x) { return x.slice(1, head, head + 1).contiguous(); };
  return {one(inputs.Q), one(inputs.K), one(inputs.V)};
}

struct Errors {
  std::map<std::pair<std::string, int64_t>, ByBlock> of;  ///< by method and number of features
  ByBlock scores;                                         ///< deviations of scores
};

Errors measure(Bert& bert, const std::vector<Tensor>& pieces, const TrainedHeads& asked) {
  const auto blocks = static_cast<size_t>(bert.options().layers);
  Errors errors;
  errors.scores.resize(blocks);
  for (size_t piece = 0; piece < pieces.size(); ++piece) {
    const std::vector<AttentionInputs> inputs = attention_inputs(bert, pieces[piece]);
    for (size_t block = 0; block < blocks; ++block) {
      for (int64_t head = 0; head < inputs[block].Q.size(1); ++head) {
        const AttentionInputs x = head_of(inputs[block], head);
        errors.scores[block].push_back(deviation_of_scores(x));
        for (const std::string& method : asked.methods) {
          for (const int64_t M : asked.features) {
            ByBlock& found = errors.of[{method, M}];
            found.resize(blocks);
            Generator draws = Generator(asked.seed).fork(piece).fork(block).fork(static_cast<uint64_t>(head));
            found[block].push_back(spectral_error(method, M, x, draws));
          }
        }
      }
    }
  }
  return errors;
}

/// The lengths for which the model has positions, or else its maximum length.
std::vector<int64_t> lengths_of(const TrainedHeads& asked, int64_t positions, Log& log) {
  std::vector<int64_t> lengths = asked.lengths;
  for (const int64_t length : lengths) {
    if (length > positions) log.warning("--lengths: {} is left out, as the model has {} positions", length, positions);
  }
  std::erase_if(lengths, [&](int64_t length) { return length > positions; });
  if (!lengths.empty()) return lengths;
  log.warning("--lengths: {} is taken, as no length is left", positions);
  return {positions};
}

void add(const Errors& errors, const std::string& what, const std::string& note, const TrainedHeads& asked,
         Measured& measured) {
  Figure figure{fmt::format("Spectral norm of the error (SKY Fig. 1): {}", what),
                "features or landmarks",
                "log10 of the median of |O~ - O| / |O|",
                {},
                note};
  Table table{{"median (quarter to three quarters)"}, {}};
  for (const int64_t M : asked.features) table.head.push_back(std::to_string(M));
  const int64_t last = asked.features.back();
  Table by_block{{"block", "deviation of scores"}, {}};
  for (const std::vector<double>& scores : errors.scores) {
    by_block.rows.push_back({std::to_string(by_block.rows.size()), fmt::format("{:.2f}", quantile(scores, 0.5))});
  }
  for (const std::string& method : asked.methods) {
    Curve curve{method, 0, false, {}};
    std::vector<std::string> row = {method};
    for (const int64_t M : asked.features) {
      const std::vector<double> all = joined(errors.of.at({method, M}));
      const double median = quantile(all, 0.5);
      curve.points.emplace_back(M, std::log10(median));
      row.push_back(fmt::format("{:.3g} ({:.3g} to {:.3g})", median, quantile(all, 0.25), quantile(all, 0.75)));
    }
    figure.curves.push_back(curve);
    table.rows.push_back(row);
    by_block.head.push_back(method);
    for (size_t block = 0; block < by_block.rows.size(); ++block) {
      const std::vector<double>& of_block = errors.of.at({method, last})[block];
      by_block.rows[block].push_back(fmt::format("{:.3g}", quantile(of_block, 0.5)));
    }
  }
  measured.figures.push_back(figure);
  measured.tables.push_back({figure.title, table});
  measured.tables.push_back({fmt::format("Median by block, {} features or landmarks: {}", last, what), by_block});
}

}  // namespace

std::vector<Tensor> pieces_of(const std::vector<std::string>& texts, const std::filesystem::path& folder,
                              int64_t length, int64_t count) {
  if (length < 3) fail("--lengths: {} tokens leave no room for text between [CLS] and [SEP]; at least 3", length);
  const Wordpiece tokenizer(read_pretrained_vocabulary(folder));
  const WordpieceVocabulary& vocabulary = tokenizer.vocabulary();
  Wordpiece::Encoder encoder(tokenizer);
  std::vector<Tensor> pieces;
  std::vector<int32_t> ids;
  const auto end = [&] {
    if (std::ssize(ids) >= length - 2 && std::ssize(pieces) < count) {
      ids.resize(static_cast<size_t>(length - 2));
      ids.insert(ids.begin(), vocabulary.begin);
      ids.push_back(vocabulary.end);
      pieces.push_back(Tensor::from(ids, {1, length}).cast(DType::i64));
    }
    ids.clear();
  };
  text::read_documents(
      text::text_files(texts), [&](std::string_view line) { encoder.append(line, ids); }, end);
  if (std::ssize(pieces) < count) {
    fail("--text: {} documents of at least {} tokens, but {} are asked for; give more texts, or fewer --repeats",
         pieces.size(), length - 2, count);
  }
  return pieces;
}

std::vector<AttentionInputs> attention_inputs(Bert& bert, const Tensor& ids) {
  const NoTape constant;
  Generator none(0);  // nothing is drawn outside training
  Context context{none, false};
  std::vector<Variable> states;
  bert.forward({ids}, context, &states);
  std::vector<AttentionInputs> inputs;
  for (size_t block = 0; block < bert.blocks().size(); ++block) {
    const std::vector<Variable> heads = bert.blocks()[block].attention().heads_of(states[block], {}, context);
    const auto part = [&](size_t i) { return heads[i].value().cast(DType::f64).contiguous(); };
    inputs.push_back({part(0), part(1), part(2)});
  }
  return inputs;
}

double deviation_of_scores(const AttentionInputs& inputs) {
  const Tensor scores = matmul(inputs.Q, inputs.K.transpose(-2, -1)) * (1 / std::sqrt(inputs.Q.size(3)));
  return std::sqrt(mean(square(scores - mean(scores, {-1}, true))).item());
}

Measured errors_of_heads(const TrainedHeads& asked, Log& log) {
  const BertOptions options = pretrained_bert(asked.folder);
  if (const std::string& own = options.attention.mechanism.name(); own != "softmax") {
    fail("--pretrained={}: the model has the attention {}; errors are those against softmax", asked.folder.string(),
         own);
  }
  Generator init(asked.seed);
  Bert bert({}, options, init);
  const std::vector<int64_t> lengths = lengths_of(asked, options.length, log);
  Measured measured;
  for (const bool trained : {false, true}) {
    if (trained) load_pretrained(bert, asked.folder);
    for (const int64_t length : lengths) {
      const std::vector<Tensor> pieces = pieces_of(asked.texts, asked.folder, length, asked.pieces);
      const std::string what = fmt::format("L = {}, {} weights", length, trained ? "pretrained" : "initial");
      const std::string note =
          fmt::format("Outputs against those of softmax attention: {} blocks of {} heads on {} texts.", options.layers,
                      options.attention.heads, asked.pieces);
      add(measure(bert, pieces, asked), what, note, asked, measured);
      log.info("{}: done", what);
    }
  }
  return measured;
}

}  // namespace bochner
