// `tokenize`: see README.md.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "datasets/tokenizers/wordpiece_training.h"
#include "engine/error.h"
#include "engine/io/file.h"
#include "engine/io/lines.h"
#include "engine/io/paths.h"
#include "experiments/common/config/command_line.h"
#include "experiments/common/process/output.h"
#include "experiments/common/program/program.h"
#include "experiments/common/program/settings.h"

namespace {

using namespace bochner;  // NOLINT: a program, not a header

struct Options {
  std::string pretrained;
  std::string vocab;
  std::string lower_case = "auto";
  std::string strip_accents = "auto";
  bool special = true;
  bool special_in_text = true;
  int64_t longest = 0;
  std::string print = "ids";
  std::vector<std::string> train;
  std::string to;
  int64_t size = 30522;
  int64_t least_count = 2;
  int64_t characters = 1000;
  bool help = false;
  bool version = false;

  void fields(Fields& f) {
    const std::vector<std::string> choices = {"auto", "yes", "no"};
    const auto trains = [this] { return !train.empty(); };
    const auto reads = [this] { return train.empty(); };
    const std::string with = "with --train", without = "without --train";
    f("pretrained", pretrained, "folder of a model, with tokenizer.json or vocab.txt").only(without, reads);
    f("vocab", vocab, "a vocab.txt instead, which may be packed with gzip or Zstandard").only(without, reads);
    f("lower-case", lower_case, "auto: as the files say, else yes").one_of(choices);
    f("strip-accents", strip_accents, "auto: as the files say, else where letters become lower-case").one_of(choices);
    f("special", special, "puts [CLS] and [SEP] around each text").only(without, reads);
    f("special-in-text", special_in_text, "[MASK] within a text is that token; false: a bracket, a word, a bracket")
        .only(without, reads);
    f("longest", longest, "ids of a line at most, the longer text of a pair being cut first; 0: no limit")
        .at_least(0)
        .only(without, reads);
    f("print", print, "what is printed").one_of({"ids", "tokens"}).only(without, reads);
    f("train", train, "text files, from which a vocabulary is made instead; may be packed with gzip or Zstandard");
    f("to", to, "new file for that vocabulary, a vocab.txt").only(with, trains);
    f("size", size, "tokens of that vocabulary at most").at_least(6).at_most(2e6).only(with, trains);
    f("least-count", least_count, "pieces that follow each other less often are not joined")
        .at_least(1)
        .only(with, trains);
    f("characters", characters, "different characters at most; words with others are left out")
        .at_least(1)
        .only(with, trains);
    f("help", help, "print this, and stop").command_line_only();
    f("version", version, "print what this program was built from, and stop").command_line_only();
  }
};

void tell_replaced(int64_t count) {
  if (count > 0) fmt::print(stderr, "{}\n", told_of_replaced(count));
}

void assign(WordpieceOptions& options, const Options& chosen) {
  if (chosen.lower_case != "auto") options.lower_case = chosen.lower_case == "yes";
  if (chosen.strip_accents != "auto") options.strip_accents = chosen.strip_accents == "yes";
}

void train(const Options& options) {
  if (options.to.empty()) fail("--train: say with --to=FILE where the vocabulary goes");
  require_unused(options.to, "to");
  WordpieceTrainingOptions training_options{options.size, options.least_count, options.characters, {}};
  assign(training_options.text, options);
  WordpieceTraining training(training_options);
  for (const std::string& path : options.train) {
    const auto source = open_unpacked(path);
    Lines lines(*source);
    while (const auto line = lines.next()) training.add(*line);
  }
  if (training.words() == 0) {
    fail("--train={}: no word to make a vocabulary of; name files that hold text", fmt::join(options.train, ","));
  }
  const std::vector<std::string> tokens = training.tokens();
  write_vocabulary(options.to, tokens);
  fmt::print("{}: {} tokens, from {} words\n", options.to, tokens.size(), training.words());
  tell_replaced(training.replaced());
}

void tokenize(const Options& options) {
  if (!options.pretrained.empty() && !options.vocab.empty())
    fail("tokenize: --pretrained and --vocab both name a vocabulary; name one of them");
  if (options.pretrained.empty() && options.vocab.empty()) {
    fail("tokenize: say --pretrained=FOLDER or --vocab=FILE (or --train=FILES to make a vocabulary)");
  }
  WordpieceVocabulary vocabulary =
      options.vocab.empty() ? read_pretrained_vocabulary(options.pretrained) : read_vocabulary(options.vocab);
  assign(vocabulary.options, options);
  const Wordpiece tokenizer(std::move(vocabulary), options.special_in_text);
  Wordpiece::Encoder encoder(tokenizer);
  const EncodeOptions encode{options.special, options.longest};
  InputFile input("/dev/stdin");
  Lines lines(input);
  std::string out;
  while (const auto line = lines.next()) {
    const size_t tab = line->find('\t');
    const Encoding encoding = tab == std::string_view::npos
                                  ? encoder.encode(*line, encode)
                                  : encoder.encode_pair(line->substr(0, tab), line->substr(tab + 1), encode);
    out.clear();
    for (const int32_t id : encoding.ids) {
      if (!out.empty()) out += ' ';
      if (options.print == "ids") {
        fmt::format_to(std::back_inserter(out), "{}", id);
      } else {
        out += tokenizer.token(id);
      }
    }
    out += '\n';
    write_output(out);
  }
  flush_output();
  tell_replaced(encoder.replaced());
}

void run(const std::vector<std::string>& arguments) {
  Options options;
  Fields fields = Fields::of(options);
  assign_arguments(fields, arguments);
  if (answered(fields,
               "Usage: ./run tokenize --pretrained=FOLDER|--vocab=FILE [--OPTION=VALUE ...] < TEXT\n"
               "       ./run tokenize --train=FILE,... --to=FILE [--OPTION=VALUE ...]\n"))
    return;
  if (!options.train.empty()) {
    train(options);
  } else {
    tokenize(options);
  }
}

}  // namespace

int main(int argc, char** argv) {
  bochner::Log log;
  return bochner::exit_code_of(log, [&] { run(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc)); });
}
