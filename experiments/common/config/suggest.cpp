#include "experiments/common/config/suggest.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "engine/nearest.h"

namespace bochner {
namespace {

struct Alias {
  std::string_view theirs;  ///< names in other programs, between blanks
  std::string_view ours;    ///< last parts of the option's name here, the likeliest first
  std::string_view word;    ///< on how to say it here
};

constexpr std::array kAliases = {
    Alias{" lr learning-rate learningrate step-size eta alpha peak-lr base-lr ", "rate", ""},
    Alias{" epochs epoch num-epochs n-epochs max-epochs train-epochs num-train-epochs ", "steps",
          "training is counted in steps; an epoch is the number of training examples divided by --batch"},
    Alias{" iterations iters iter num-steps n-steps max-steps train-steps total-steps num-iterations ", "steps", ""},
    Alias{" bs batch-size batchsize minibatch train-batch-size per-device-train-batch-size ", "batch", ""},
    Alias{" wd l2 decay ", "weight-decay", ""},
    Alias{" optim opt ", "optimizer", ""},
    Alias{" scheduler lr-scheduler lr-schedule decay-schedule ", "schedule", ""},
    Alias{" warmup-steps num-warmup-steps warm-up warm-up-steps ", "warmup", ""},
    Alias{" warmup-ratio warmup-epochs ", "warmup", "it is a number of steps or, below 1, a share of them"},
    Alias{" eval-every eval-steps eval-interval validate-every val-interval ", "evaluate-every", ""},
    Alias{" embed-dim embedding-dim d-model emb-dim dim-model ", "dim", ""},
    Alias{" hidden-size hidden-dim ffn-dim dim-feedforward d-ff mlp-dim width units ", "hidden width", ""},
    Alias{" num-layers n-layers n-layer num-hidden-layers ", "layers", ""},
    Alias{" depth ", "layers", ""},
    Alias{" num-heads n-heads n-head nhead ", "heads", ""},
    Alias{" nb-features num-features n-features random-features rank landmarks num-landmarks ", "features", ""},
    Alias{" dropout-rate drop p-dropout ", "dropout", ""},
    Alias{" seq-len sequence-length seqlen max-seq-len max-length max-len ", "length", ""},
    Alias{" model arch mechanism attn attention-type kernel ", "attention", ""},
    Alias{" dataset ", "task data", ""},
    Alias{" data-dir data-path data-folder datadir input-file file csv path ", "data", ""},
    Alias{" output output-dir out-dir outdir o save-dir save logdir log-dir run-dir ", "out", ""},
    Alias{" gpu cuda gpus ", "device", "say --device=cuda, or cuda:N for the card N"},
    Alias{" workers num-workers jobs j num-threads n-threads cores cpus ", "threads", ""},
    Alias{" random-seed manual-seed rng ", "seed", ""},
    Alias{" fp16 bf16 amp mixed-precision dtype half ", "precision", ""},
    Alias{" continue checkpoint ckpt resume-from-checkpoint restore ", "resume",
          "say --resume --out=FOLDER, the folder of the run"},
    Alias{" verbose v debug verbosity loglevel ", "log-level", ""},
    Alias{" silent q ", "quiet", ""},
    Alias{" cfg configuration settings ", "config", ""},
    Alias{" target target-column label-column class y ", "label", ""},
    Alias{" sep delimiter delim ", "separator", ""},
    Alias{" no-header skip-header ", "header", "say --csv.header=on or off"},
    Alias{" val-split val-share validation-split ", "valid-share", ""},
    Alias{" test-split test-size ", "test-share", ""},
    Alias{" profile ", "trace", ""},
    Alias{" benchmark ", "bench", ""},
};

std::string_view last_part(std::string_view name) { return name.substr(name.rfind('.') + 1); }

/// In lower case, with words joined by hyphens, like names here.
std::string normalised(std::string_view name) {
  std::string result;
  for (const char c : name) result += c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

/// `--steps`, or `'steps'` if the mark is a quote.
std::string marked(std::string_view name, std::string_view mark) {
  return fmt::format("{}{}{}", mark, name, mark == "--" ? "" : mark);
}

/// `--optim.rate or --model.rate`: the options whose names end this way; empty if there are none.
std::string options_ending_in(std::string_view ours, const Fields& fields, std::string_view mark) {
  std::string text;
  while (!ours.empty()) {
    const std::string_view part = ours.substr(0, ours.find(' '));
    ours.remove_prefix(std::min(ours.size(), part.size() + 1));
    for (const Field& field : fields.all()) {
      if (last_part(field.name()) == part) text += (text.empty() ? "" : " or ") + marked(field.name(), mark);
    }
  }
  return text;
}

}  // namespace

std::string suggestion(std::string_view name, const Fields& fields, std::string_view mark) {
  const std::string typed = normalised(name);
  const std::string_view part = last_part(typed);
  if (const std::string same = options_ending_in(part, fields, mark); !same.empty()) {
    const Field* const whole = fields.find(typed);
    return fmt::format("; did you mean {}?", whole != nullptr ? marked(typed, mark) : same);
  }
  for (const Alias& alias : kAliases) {
    if (alias.theirs.find(fmt::format(" {} ", part)) == std::string_view::npos) continue;
    const std::string here = options_ending_in(alias.ours, fields, mark);
    if (here.empty()) continue;
    return fmt::format("; it is called {} here{}{}", here, alias.word.empty() ? "" : ": ", alias.word);
  }
  if (typed.starts_with("no-")) {
    const Field* const flag = fields.find(typed.substr(3));
    if (flag != nullptr && flag->is_flag()) return fmt::format("; say {}=false", marked(flag->name(), mark));
  }
  const std::string near = near_name(typed, fields.names());
  return near.empty() ? "; --help lists the options" : fmt::format("; did you mean {}?", marked(near, mark));
}

std::string suggestion_for_word(std::string_view word, const Fields& fields) {
  const std::string_view bare = word.substr(std::min(word.find_first_not_of('-'), word.size()));
  const std::string_view name = bare.substr(0, bare.find('='));
  if (fields.find(normalised(name)) == nullptr) {
    return word.starts_with('-') ? suggestion(name, fields) : "; options begin with --";
  }
  return fmt::format("; options begin with two dashes: --{}{}", normalised(name), bare.substr(name.size()));
}

}  // namespace bochner
