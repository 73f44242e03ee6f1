#include "layers/models/hugging_face.h"

#include <algorithm>
#include <cctype>
#include <memory>
#include <optional>
#include <set>

#include "engine/io/archive.h"
#include "engine/io/bytes.h"
#include "engine/io/elements.h"
#include "engine/io/file.h"
#include "engine/io/finite.h"
#include "engine/io/safetensors.h"
#include "engine/io/stream.h"
#include "engine/nearest.h"
#include "engine/ops/index.h"

namespace bochner {
namespace {

constexpr int64_t kLargestVocabulary = int64_t{64} << 20;  // no larger one is read

// ---- names

/// A module or parameter here, and its name in files. `#` stands for the number of a block; `%` for query, key and
/// value, which are stacked in the rows here.
struct Row {
  enum class Part : unsigned char {
    trunk,    ///< must be in a file
    pooler,   ///< of the trunk, but may be missing
    learned,  ///< of an attention mechanism; may be missing, too
    added,    ///< to a pretrained model; transformers knows no such part
    head      ///< may be missing, and has no prefix
  };
  std::string_view ours, theirs;
  Part part = Part::trunk;
};

struct Naming {
  std::string prefix;  ///< of the trunk in files with heads
  std::vector<Row> rows;
};

Naming bert_naming() {
  using Part = Row::Part;
  return {"bert.",
          {{"embeddings.tokens", "embeddings.word_embeddings"},
           {"embeddings.positions", "embeddings.position_embeddings"},
           {"embeddings.types", "embeddings.token_type_embeddings"},
           {"embeddings.norm", "embeddings.LayerNorm"},
           {"blocks.#.attention.qkv.query", "encoder.layer.#.attention.self.query"},
           {"blocks.#.attention.qkv.key", "encoder.layer.#.attention.self.key"},
           {"blocks.#.attention.qkv.value", "encoder.layer.#.attention.self.value"},
           {"blocks.#.attention.qkv", "encoder.layer.#.attention.self.%"},
           {"blocks.#.norm1", "encoder.layer.#.attention.output.LayerNorm"},
           {"blocks.#.norm2", "encoder.layer.#.output.LayerNorm"},
           {"masked_tokens.dense", "cls.predictions.transform.dense", Part::head},
           {"masked_tokens.norm", "cls.predictions.transform.LayerNorm", Part::head},
           {"masked_tokens.bias", "cls.predictions.bias", Part::head},
           {"next_sentence", "cls.seq_relationship", Part::head}}};
}

Naming vit_naming() {
  return {"vit.",
          {{"embeddings.cls", "embeddings.cls_token"},
           {"embeddings.patches", "embeddings.patch_embeddings.projection"},
           {"embeddings.positions", "embeddings.position_embeddings"},
           {"blocks.#.norm1", "encoder.layer.#.layernorm_before"},
           {"blocks.#.attention.qkv.query", "encoder.layer.#.attention.attention.query"},
           {"blocks.#.attention.qkv.key", "encoder.layer.#.attention.attention.key"},
           {"blocks.#.attention.qkv.value", "encoder.layer.#.attention.attention.value"},
           {"blocks.#.attention.qkv", "encoder.layer.#.attention.attention.%"},
           {"blocks.#.norm2", "encoder.layer.#.layernorm_after"},
           {"norm", "layernorm"}}};
}

/// What both have, after their own rows.
Naming with_common(Naming naming) {
  using Part = Row::Part;
  const std::initializer_list<Row> common = {
      {"blocks.#.attention.out", "encoder.layer.#.attention.output.dense"},
      {"blocks.#.attention.mechanism", "encoder.layer.#.attention.mechanism", Part::learned},
      {"blocks.#.feed_forward.in", "encoder.layer.#.intermediate.dense"},
      {"blocks.#.feed_forward.out", "encoder.layer.#.output.dense"},
      {"blocks.#.attention_adapter", "encoder.layer.#.attention.output.adapter", Part::added},
      {"blocks.#.feed_forward_adapter", "encoder.layer.#.output.adapter", Part::added},
      {"blocks.#.snnk_feed_forward", "encoder.layer.#.snnk", Part::added},
      {"blocks.#.bundle", "encoder.layer.#.bundle", Part::added},
      {"snnk_pooler", "snnk_pooler", Part::added},
      {"bundle", "bundle", Part::added},
      {"pooler", "pooler.dense", Part::pooler},
      {"classifier", "classifier", Part::head}};
  naming.rows.insert(naming.rows.end(), common);
  return naming;
}

const Naming& naming_of(const PretrainedModel& model) {
  static const Naming bert = with_common(bert_naming());
  static const Naming vit = with_common(vit_naming());
  return model.type() == "vit" ? vit : bert;
}

/// Shapes in files, where they differ from those here.
Shape shape_in_file(const PretrainedModel& model, const std::string& ours, const Shape& shape) {
  const auto* vit = dynamic_cast<const Vit*>(&model);
  if (vit == nullptr) return shape;
  const VitOptions& options = vit->options();
  if (ours == "embeddings.patches.weight") return {options.dim, options.channels, options.patch, options.patch};
  if (ours == "embeddings.positions") return {1, shape[0], shape[1]};
  return shape;
}

/// What stands for `#` in a name, and what follows the pattern; nothing if the pattern does not match.
struct Match {
  std::string number, rest;
};
std::optional<Match> match(std::string_view pattern, std::string_view name) {
  Match found;
  const size_t hash = pattern.find('#');
  const std::string_view head = pattern.substr(0, hash);
  if (!name.starts_with(head)) return std::nullopt;
  name.remove_prefix(head.size());
  if (hash != std::string_view::npos) {
    const size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
    found.number = name.substr(0, digits);
    name.remove_prefix(digits);
    const std::string_view tail = pattern.substr(hash + 1);
    if (digits == 0 || !name.starts_with(tail)) return std::nullopt;
    name.remove_prefix(tail.size());
  }
  if (!name.empty() && name.front() != '.') return std::nullopt;
  found.rest = name;
  return found;
}

void replace(std::string& text, std::string_view what, std::string_view with) {
  if (const size_t at = text.find(what); at != std::string::npos) text.replace(at, what.size(), with);
}

/// A tensor as in files: a view of the model's.
struct FileTensor {
  std::string ours;
  std::string name;  ///< without prefix
  Row::Part part;
  bool is_head;  ///< or an update of one: its name has no prefix
  Tensor view;
};

std::vector<FileTensor> file_tensors(const PretrainedModel& model, const std::string& ours, const Tensor& value) {
  for (const Row& row : naming_of(model).rows) {
    const std::optional<Match> found = match(row.ours, ours);
    if (!found) continue;
    std::string name(row.theirs);
    replace(name, "#", found->number);
    name += found->rest;
    const bool is_head = row.part == Row::Part::head;
    const Row::Part part = found->rest.starts_with(".lora_") ? Row::Part::added : row.part;
    if (name.find('%') == std::string::npos)
      return {{ours, name, part, is_head, value.view(shape_in_file(model, ours, value.shape()))}};
    std::vector<FileTensor> parts;
    const int64_t rows = value.size(0) / 3;
    for (const char* which : {"query", "key", "value"}) {
      std::string named = name;
      replace(named, "%", which);
      const auto i = static_cast<int64_t>(parts.size());
      parts.push_back({ours, named, part, is_head, value.slice(0, i * rows, (i + 1) * rows)});
    }
    return parts;
  }
  internal_failure("a name in files for every parameter", __FILE__, __LINE__);
}

std::vector<FileTensor> file_tensors(const PretrainedModel& model, const std::map<std::string, Tensor>& named) {
  std::vector<FileTensor> all;
  for (const auto& [name, value] : named) {
    for (FileTensor& each : file_tensors(model, name, value)) all.push_back(std::move(each));
  }
  return all;
}

/// As transformers writes them: the trunk has a prefix if there are heads.
TensorMap with_prefix(const PretrainedModel& model, const std::vector<FileTensor>& tensors) {
  TensorMap named;
  for (const FileTensor& each : tensors) {
    const bool prefixed = model.has_heads() && !each.is_head;
    named[(prefixed ? naming_of(model).prefix : "") + each.name] = each.view;
  }
  return named;
}

constexpr const char* kMaskedBias = "cls.predictions.bias";
constexpr const char* kDecoderBias = "cls.predictions.decoder.bias";  ///< another name of the same
constexpr const char* kDecoder = "cls.predictions.decoder.weight";    ///< another name of the token embeddings

/// The name of a tensor in this file, or nothing: with or without prefix, in the new or the old spelling.
std::optional<std::string> spelled(const SafetensorsFile& file, const FileTensor& tensor, const std::string& prefix) {
  std::string old = tensor.name;
  replace(old, "LayerNorm.weight", "LayerNorm.gamma");
  replace(old, "LayerNorm.bias", "LayerNorm.beta");
  std::vector<std::string> names = {tensor.name, old};
  if (tensor.name == kMaskedBias) names.emplace_back(kDecoderBias);
  if (!tensor.is_head) names = {prefix + tensor.name, prefix + old, tensor.name, old};
  for (const std::string& name : names) {
    if (file.contains(name)) return name;
  }
  return std::nullopt;
}

/// The head of masked tokens multiplies by the token embeddings. Refuses a file whose decoder has other values, or
/// which has a second, different bias.
void require_tied(const SafetensorsFile& file, const std::vector<std::string>& read, const std::string& prefix) {
  const auto is_read = [&](const std::string& name) { return std::find(read.begin(), read.end(), name) != read.end(); };
  const std::string words = "embeddings.word_embeddings.weight";
  for (const auto& [other, tied] :
       {std::pair<std::string, std::string>{kDecoder, is_read(words) ? words : prefix + words},
        {kDecoderBias, kMaskedBias}}) {
    if (is_read(other) || !file.contains(other) || !is_read(tied)) continue;
    const Tensor a = file.read(other);
    const Tensor b = file.read(tied);
    if (a.dtype() == b.dtype() && a.shape() == b.shape() && std::ranges::equal(bytes_of(a), bytes_of(b))) continue;
    fail("{}: {} and {} differ; a head of masked tokens is known here whose decoder is tied to the embeddings",
         file.name(), other, tied);
  }
}

bool differ_in_rows(const Shape& a, const Shape& b) {
  return a.rank() == b.rank() && a.rank() > 0 && a[0] != b[0] && std::equal(a.begin() + 1, a.end(), b.begin() + 1);
}

/// The name of a class, ignoring case; a class that is named by its number is called `0`, `1`, ...
std::string plain(std::string name) {
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name.starts_with("label_") ? name.substr(6) : name;
}

bool are_numbers(const std::vector<std::string>& names) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (plain(names[i]) != std::to_string(i)) return false;
  }
  return true;
}

/// For each class of the model, its row in the order of a folder; empty if the order is the same. Other names are an
/// Error if there is a classifier that they name.
std::vector<int64_t> rows_of_classes(const std::vector<std::string>& ours, const std::vector<std::string>& theirs,
                                     bool has_classifier, const std::filesystem::path& folder) {
  if (ours == theirs) return {};
  std::vector<int64_t> rows;
  std::vector<bool> taken(theirs.size());  // two classes may share a name: each then gets its own row
  for (const std::string& our : ours) {
    for (size_t i = 0; i < theirs.size(); ++i) {
      if (taken[i] || plain(theirs[i]) != plain(our)) continue;
      taken[i] = true;
      rows.push_back(static_cast<int64_t>(i));
      break;
    }
  }
  const bool all = ours.size() == theirs.size() && ours.size() == rows.size();
  if (!all && has_classifier && !are_numbers(ours) && !are_numbers(theirs)) {
    fail(
        "{}: config.json has the classes {}, asked for are {}; rename them in its id2label, or take id2label out to "
        "read them in this order",
        folder.string(), shown_names(theirs), shown_names(ours));
  }
  return all && !std::is_sorted(rows.begin(), rows.end()) ? rows : std::vector<int64_t>{};
}

void save(PretrainedModel& model, const std::string& config, const std::filesystem::path& folder,
          const std::filesystem::path& from) {
  const std::vector<FileTensor> all = file_tensors(model, model.state());
  for (const FileTensor& each : all) {
    if (each.part == Row::Part::added)
      fail(
          "save_pretrained: the model has {}, which transformers does not know; what a method adds to a "
          "frozen model is in the folder adapter of its run",
          each.name);
  }
  const TensorMap tensors = with_prefix(model, all);
  std::filesystem::create_directories(folder);
  write_safetensors(folder / "model.safetensors", tensors, {{"format", "pt"}});  // without it transformers refuses
  write_file_atomically(folder / "config.json", config);
  if (from.empty() || std::filesystem::equivalent(from, folder)) return;
  // If it were packed, other programs would not find it.
  if (const std::optional<std::filesystem::path> vocabulary = find_packed(from / "vocab.txt")) {
    const auto source = unpacked(std::make_unique<InputFile>(*vocabulary));
    write_file_atomically(folder / "vocab.txt", read_all(*source, kLargestVocabulary));
  }
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
                           "preprocessor_config.json"}) {
    if (std::filesystem::exists(from / name)) write_file_atomically(folder / name, read_file(from / name));
  }
}

}  // namespace

std::string LoadedTensors::text() const {
  const std::string made = made_new.empty() ? "none" : listed(made_new);
  const std::string left = left_over.empty() ? "none" : shown_names(left_over);  // names of a foreign file
  const std::string order = reordered.empty() ? "" : "; classes there in the order " + shown_names(reordered);
  return fmt::format("{} tensors read; made new: {}; left over: {}{}", read.size(), made, left, order);
}

LoadedTensors load_pretrained(PretrainedModel& model, const std::filesystem::path& folder) {
  const SafetensorsFile file(pretrained_weights(folder));
  const std::string& prefix = naming_of(model).prefix;
  LoadedTensors loaded;
  std::set<std::string> left;
  for (const std::string& name : file.tensor_names()) left.insert(name);
  std::set<std::string> made_new;
  std::vector<std::pair<Tensor, std::string>> copies;
  for (const FileTensor& tensor : file_tensors(model, model.state())) {
    std::optional<std::string> name = spelled(file, tensor, prefix);
    if (name && tensor.name.starts_with("classifier.") && differ_in_rows(file.shape(*name), tensor.view.shape())) {
      name.reset();
    }
    if (!name && tensor.part == Row::Part::trunk) {
      const std::vector<std::string> names = file.tensor_names();
      const bool prefixed =
          std::any_of(names.begin(), names.end(), [&](const auto& x) { return x.starts_with(prefix); });
      fail("{}: holds no tensor {}{}; is it another model's?", file.name(), prefixed ? prefix : "", tensor.name);
    }
    loaded.filled.insert(tensor.ours);
    if (!name) {
      loaded.made_new.push_back(tensor.name);
      made_new.insert(tensor.ours);
      continue;
    }
    if (!(file.shape(*name) == tensor.view.shape())) {
      fail("{}: tensor {} is {}, the model needs {}", file.name(), *name, file.shape(*name).str(),
           tensor.view.shape().str());
    }
    if (is_floating(tensor.view.dtype()) != is_floating(file.dtype(*name))) {
      fail("{}: tensor {} is {}, the model needs {}", file.name(), *name, name_of(file.dtype(*name)),
           name_of(tensor.view.dtype()));
    }
    left.erase(*name);
    loaded.read.push_back(*name);
    copies.emplace_back(tensor.view, *name);
  }
  if (loaded.filled.contains("masked_tokens.bias")) require_tied(file, loaded.read, prefix);
  std::vector<int64_t> rows;
  if (loaded.filled.contains("classifier.weight")) {
    const bool is_read = !made_new.contains("classifier.weight");
    const std::vector<std::string> theirs = pretrained_labels(folder);
    rows = rows_of_classes(model.labels(), theirs, is_read, folder);
    if (is_read && !rows.empty()) loaded.reordered = theirs;
  }
  std::vector<Tensor> values;  // all are read, and so verified, before the first is copied
  values.reserve(copies.size());
  const Tensor order = rows.empty() ? Tensor() : Tensor::from<int64_t>(rows, {std::ssize(rows)});
  for (const auto& [view, name] : copies) {
    const Tensor value = file.read(name);
    require_finite(value, name, file.name());
    values.push_back(order.defined() && name.starts_with("classifier.") ? take(value, order) : value);
  }
  for (size_t i = 0; i < copies.size(); ++i) {
    const Tensor& view = copies[i].first;
    view.copy_(values[i].cast(view.dtype()).to(view.device()));
  }
  model.set_rows_in_folder(rows);
  for (const std::string& name : made_new) loaded.filled.erase(name);
  if (!rows.empty())
    std::erase_if(loaded.filled, [](const std::string& name) { return name.starts_with("classifier."); });
  loaded.left_over.assign(left.begin(), left.end());
  std::sort(loaded.read.begin(), loaded.read.end());
  std::sort(loaded.made_new.begin(), loaded.made_new.end());
  return loaded;
}

std::map<std::string, Tensor> pretrained_tensors(const PretrainedModel& model,
                                                 const std::map<std::string, Tensor>& named) {
  return with_prefix(model, file_tensors(model, named));
}

void save_pretrained(Bert& model, const std::filesystem::path& folder, const std::filesystem::path& from,
                     Reader reader) {
  save(model, pretrained_config(model, reader), folder, from);
}
void save_pretrained(Vit& model, const std::filesystem::path& folder, const std::filesystem::path& from) {
  save(model, pretrained_config(model), folder, from);
}

}  // namespace bochner
