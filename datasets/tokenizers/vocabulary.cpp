#include "datasets/tokenizers/vocabulary.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "datasets/tokenizers/utf8.h"
#include "engine/error.h"
#include "engine/io/archive.h"
#include "engine/io/file.h"
#include "engine/io/json_file.h"
#include "engine/io/lines.h"
#include "engine/io/stream.h"

namespace bochner {
namespace {

using nlohmann::json;

constexpr const char* kConfig = "tokenizer_config.json";
constexpr const char* kSpecialMap = "special_tokens_map.json";
constexpr int64_t kLargestFile = int64_t{64} << 20;
constexpr size_t kMostTokens = 2'000'000;
constexpr size_t kLongestToken = 1000;  ///< bytes

std::string text_of_file(const std::filesystem::path& path) {
  const auto source = open_unpacked(path);
  const std::vector<std::byte> bytes = read_all(*source, kLargestFile);
  return std::string(text_of(bytes));
}

void check_token(std::string_view token, const std::string& where) {
  if (token.empty()) fail("{}: an empty token", where);
  if (token.size() > kLongestToken) {
    fail("{}: a token of {} bytes; the longest allowed has {}", where, token.size(), kLongestToken);
  }
  for (std::string_view rest = token; !rest.empty();) {
    const unicode::Decoded next = unicode::decode(rest);
    if (!next.valid) fail("{}: the token is not valid UTF-8", where);
    rest.remove_prefix(next.bytes);
  }
}

int32_t id_of(const WordpieceVocabulary& vocabulary, std::string_view token) {
  const auto found = std::find(vocabulary.pieces.begin(), vocabulary.pieces.end(), token);
  if (found != vocabulary.pieces.end()) return static_cast<int32_t>(found - vocabulary.pieces.begin());
  for (const AddedToken& added : vocabulary.added) {
    if (added.text == token) return added.id;
  }
  fail("{}: there is no {} among its {} tokens; a BERT vocabulary holds [PAD], [UNK], [CLS], [SEP] and [MASK]",
       vocabulary.file, shown(token), vocabulary.pieces.size());
}

/// Names of the five special tokens.
struct SpecialNames {
  std::string unknown = "[UNK]", begin = "[CLS]", end = "[SEP]", padding = "[PAD]", mask = "[MASK]";
};

void find_special(WordpieceVocabulary& vocabulary, const SpecialNames& names) {
  vocabulary.unknown = id_of(vocabulary, names.unknown);
  vocabulary.begin = id_of(vocabulary, names.begin);
  vocabulary.end = id_of(vocabulary, names.end);
  vocabulary.padding = id_of(vocabulary, names.padding);
  vocabulary.mask = id_of(vocabulary, names.mask);
}

WordpieceVocabulary read_lines(const std::filesystem::path& path) {
  WordpieceVocabulary vocabulary;
  vocabulary.file = path.string();
  const std::string file = text_of_file(path);
  std::string_view text = file;
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  std::unordered_map<std::string_view, size_t> line_of;
  for (const std::string_view token : lines_of(text)) {
    const size_t line = vocabulary.pieces.size() + 1;
    const std::string where = fmt::format("{}:{}", vocabulary.file, line);
    if (line > kMostTokens) fail("{}: more than {} tokens", where, kMostTokens);
    check_token(token, where);
    const auto [first, is_new] = line_of.emplace(token, line);
    if (!is_new) fail("{}: the token {} stands in line {} already", where, shown(token), first->second);
    vocabulary.pieces.emplace_back(token);
  }
  return vocabulary;
}

void place(WordpieceVocabulary& vocabulary, const std::string& token, int64_t id) {
  if (vocabulary.pieces.size() <= static_cast<size_t>(id)) vocabulary.pieces.resize(static_cast<size_t>(id) + 1);
  std::string& at = vocabulary.pieces[static_cast<size_t>(id)];
  if (!at.empty()) fail("{}: the id {} stands for {} and for {}", vocabulary.file, id, shown(at), shown(token));
  at = token;
}

void read_added(WordpieceVocabulary& vocabulary, const json& list) {
  if (!list.is_array()) fail("{}: added_tokens is no list", vocabulary.file);
  for (const json& item : list) {
    const std::string where = fmt::format("{}: added_tokens[{}]", vocabulary.file, vocabulary.added.size());
    const JsonMembers members(item, where);
    AddedToken added;
    added.text = members.text("content", "");
    check_token(added.text, where);
    members.at("id");
    added.id = static_cast<int32_t>(members.number("id", 0, kMostTokens, 0));
    added.special = members.flag("special", false);
    // lstrip and rstrip take white space into the token, but white space never makes a piece.
    if (members.flag("single_word", false))
      fail("{}: {} has single_word, which is not known here", where, shown(added.text));
    if (members.flag("normalized", !added.special)) {
      fail("{}: {} has normalized, that is, it is looked for in text that was changed, which is not known here", where,
           shown(added.text));
    }
    vocabulary.added.push_back(std::move(added));
  }
}

/// What is put around one text and around a pair: the ids, and A and B for the texts, each with its type.
struct Around {
  std::string one, pair;
};

/// `[2]:0 A:0 [3]:0` for [CLS] A [SEP].
std::string text_of_template(const JsonMembers& processor, const char* which, const std::string& where) {
  const json& pieces = processor.at(which);
  if (!pieces.is_array()) fail("{}: {} is no list", where, which);
  std::string text;
  for (const json& piece : pieces) {
    const JsonMembers members(piece, where + ": " + which);
    const json* sequence = members.find("Sequence");
    const JsonMembers found(sequence != nullptr ? *sequence : members.at("SpecialToken"), where + ": " + which);
    std::string name = found.text("id", "");
    if (sequence == nullptr) {
      const JsonMembers tokens(processor.at("special_tokens"), where + ": special_tokens");
      name = brief(JsonMembers(tokens.at(name.c_str()), where + ": special_tokens").at("ids"));
    }
    text += fmt::format("{}{}:{}", text.empty() ? "" : " ", name, found.number("type_id", 0, 255, 0));
  }
  return text;
}

Around around(const std::string& begin, const std::string& end) {
  const std::string one = fmt::format("[{}]:0 A:0 [{}]:0", begin, end);
  return {one, fmt::format("{} B:1 [{}]:1", one, end)};
}

/// Nothing if the file has no post_processor: BertTokenizer of transformers then makes its own.
std::optional<Around> read_post_processor(const JsonMembers& root, const std::string& file) {
  const json* found = root.find("post_processor");
  if (found == nullptr) return std::nullopt;
  const std::string where = file + ": post_processor";
  const JsonMembers processor(*found, where);
  const std::string type = processor.text("type", "");
  if (type == "TemplateProcessing")
    return Around{text_of_template(processor, "single", where), text_of_template(processor, "pair", where)};
  if (type != "BertProcessing")
    fail("{}: type is {}; known here are BertProcessing and TemplateProcessing", where, shown(type));
  const auto id = [&](const char* name) {  // a token and its id
    const json& token = processor.at(name);
    if (!token.is_array() || token.size() != 2) fail("{}: {} is {}, no token with its id", where, name, brief(token));
    return brief(token[1]);
  };
  return around(id("cls"), id("sep"));
}

/// Refuses ids around texts other than those that are put there.
void check_around(const WordpieceVocabulary& vocabulary, const Around& theirs) {
  const Around ours = around(std::to_string(vocabulary.begin), std::to_string(vocabulary.end));
  for (const auto& [their, our] : {std::pair(theirs.one, ours.one), {theirs.pair, ours.pair}}) {
    if (their == our) continue;
    fail(
        "{}: post_processor makes {}, each with its type, where here are {}, with the ids of cls_token and sep_token; "
        "save the tokenizer with transformers, or mend one of them",
        vocabulary.file, shown(their), shown(our));
  }
}

WordpieceVocabulary read_tokenizer_json(const std::filesystem::path& path, SpecialNames& names,
                                        std::optional<Around>& post_processor) {
  WordpieceVocabulary vocabulary;
  vocabulary.file = path.string();
  const json root = read_json_object(path, kLargestFile);
  const JsonMembers all(root, vocabulary.file);
  const JsonMembers model(all.at("model"), vocabulary.file + ": model");
  model.require("type", "WordPiece");
  vocabulary.options.prefix = model.text("continuing_subword_prefix", "##");
  if (vocabulary.options.prefix.empty() || vocabulary.options.prefix.size() > 100) {
    fail("{}: model.continuing_subword_prefix must have 1 to 100 bytes", vocabulary.file);
  }
  vocabulary.options.longest_word = static_cast<int32_t>(model.number("max_input_chars_per_word", 1, 10000, 100));
  names.unknown = model.text("unk_token", names.unknown);
  check_token(names.unknown, vocabulary.file + ": model.unk_token");
  const json& pieces = model.at("vocab");
  if (!pieces.is_object() || pieces.size() > kMostTokens) {
    fail("{}: model.vocab is no object of at most {} tokens", vocabulary.file, kMostTokens);
  }
  for (const auto& [token, id] : pieces.items()) {
    const std::string where = fmt::format("{}: model.vocab[{}]", vocabulary.file, shown(token));
    check_token(token, where);
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= kMostTokens) {
      fail("{}: {} is no id from 0 to {}", where, brief(id), kMostTokens - 1);
    }
    place(vocabulary, token, id.get<int64_t>());
  }
  if (const json* normalizer = all.find("normalizer")) {
    const JsonMembers members(*normalizer, vocabulary.file + ": normalizer");
    members.require("type", "BertNormalizer");
    WordpieceOptions& options = vocabulary.options;
    options.clean_text = members.flag("clean_text", true);
    options.split_chinese = members.flag("handle_chinese_chars", true);
    options.lower_case = members.flag("lowercase", true);
    if (members.find("strip_accents") != nullptr) options.strip_accents = members.flag("strip_accents", true);
  } else {
    fail("{}: there is no normalizer; only BertNormalizer is known here", vocabulary.file);
  }
  JsonMembers(all.at("pre_tokenizer"), vocabulary.file + ": pre_tokenizer").require("type", "BertPreTokenizer");
  post_processor = read_post_processor(all, vocabulary.file);
  if (const json* added = all.find("added_tokens")) read_added(vocabulary, *added);
  return vocabulary;
}

/// The names that a file gives. Each is a text, or an object with the text as its content.
void read_names(const JsonMembers& config, const std::string& where, SpecialNames& names) {
  for (const auto& [key, name] : {std::pair("unk_token", &names.unknown),
                                  {"cls_token", &names.begin},
                                  {"sep_token", &names.end},
                                  {"pad_token", &names.padding},
                                  {"mask_token", &names.mask}}) {
    const json* value = config.find(key);
    if (value == nullptr) continue;
    const bool is_object = value->is_object();
    *name = is_object ? JsonMembers(*value, where + ": " + key).text("content", *name) : config.text(key, *name);
    check_token(*name, where + ": " + key);  // an empty one would match a gap in the ids
  }
}

/// Refuses a token that another file adds to the vocabulary: only tokenizer.json says in which texts it is found.
void refuse_added(const std::filesystem::path& file, const std::string& token, const WordpieceVocabulary& vocabulary) {
  const auto is_it = [&](const AddedToken& added) { return added.text == token; };
  if (std::any_of(vocabulary.added.begin(), vocabulary.added.end(), is_it)) return;
  fail(
      "{}: adds the token {}, which is none of the added_tokens of a tokenizer.json beside it; save the tokenizer with "
      "transformers, which writes that file",
      file.string(), shown(token));
}

/// The same for the lists of tokenizer_config.json or special_tokens_map.json, whose tokens are texts or objects.
void refuse_added(const std::filesystem::path& file, const json& root, const WordpieceVocabulary& vocabulary) {
  for (const char* list : {"added_tokens_decoder", "additional_special_tokens", "extra_special_tokens"}) {
    const auto found = root.find(list);
    if (found == root.end()) continue;
    for (const auto& [key, token] : found->items()) {
      if (token.is_string()) refuse_added(file, token.get<std::string>(), vocabulary);
      if (token.is_object() && token.contains("content") && token["content"].is_string())
        refuse_added(file, token["content"].get<std::string>(), vocabulary);
    }
  }
}

/// Whether `config` names a class for tokenizers of all kinds, with which transformers does what tokenizer.json says
/// and nothing else. The other classes here are BertTokenizer and similar ones.
bool is_of_any_kind(const JsonMembers& config) {
  const std::string name = config.text("tokenizer_class", "");
  return name == "PreTrainedTokenizerFast" || name == "PreTrainedTokenizer" || name == "TokenizersBackend";
}

/// What BertTokenizer takes from `root`, the object that `config` reads, instead of what tokenizer.json says.
void read_options(const json& root, const JsonMembers& config, WordpieceOptions& options) {
  options.lower_case = config.flag("do_lower_case", options.lower_case);
  if (root.contains("strip_accents")) options.strip_accents.reset();  // null counts as given: the same as lower_case
  if (config.find("strip_accents") != nullptr) options.strip_accents = config.flag("strip_accents", true);
  options.split_chinese = config.flag("tokenize_chinese_chars", options.split_chinese);
}

/// The object in a file; an empty one if there is no such file.
json object_in(const std::filesystem::path& path) {
  return std::filesystem::exists(path) ? read_json_object(path, kLargestFile) : json::object();
}

}  // namespace

WordpieceVocabulary read_vocabulary(const std::filesystem::path& path, const WordpieceOptions& options) {
  WordpieceVocabulary vocabulary = read_lines(path);
  vocabulary.options = options;
  find_special(vocabulary, {});
  for (const int32_t id : {vocabulary.unknown, vocabulary.begin, vocabulary.end, vocabulary.padding, vocabulary.mask}) {
    vocabulary.added.push_back({vocabulary.pieces[static_cast<size_t>(id)], id, true});
  }
  return vocabulary;
}

WordpieceVocabulary read_pretrained_vocabulary(const std::filesystem::path& folder) {
  if (!std::filesystem::is_directory(folder)) fail("{}: is no folder", folder.string());
  SpecialNames names;
  WordpieceVocabulary vocabulary;
  std::optional<Around> post_processor;
  const bool is_json = std::filesystem::exists(folder / "tokenizer.json");
  if (is_json) {
    vocabulary = read_tokenizer_json(folder / "tokenizer.json", names, post_processor);
  } else {
    const auto path = find_packed(folder / "vocab.txt");
    if (!path) fail("{}: holds neither tokenizer.json nor vocab.txt", folder.string());
    vocabulary = read_lines(*path);
  }
  const json root = object_in(folder / kConfig);
  const JsonMembers config(root, (folder / kConfig).string());
  const bool as_it_is = is_json && is_of_any_kind(config);
  if (!as_it_is) read_options(root, config, vocabulary.options);
  read_names(config, (folder / kConfig).string(), names);
  // Both are files of older versions, which transformers ignores, too, if the newer list is there.
  const bool is_newer = config.find("added_tokens_decoder") != nullptr;
  const json map = is_newer ? json::object() : object_in(folder / kSpecialMap);
  const json tokens = is_newer ? json::object() : object_in(folder / "added_tokens.json");
  read_names(JsonMembers(map, (folder / kSpecialMap).string()), (folder / kSpecialMap).string(), names);
  find_special(vocabulary, names);
  if (post_processor) check_around(vocabulary, *post_processor);
  if (as_it_is && !post_processor) {
    fail(
        "{}: there is no post_processor, so with the tokenizer_class of {} nothing is put around texts, where here are "
        "the ids of cls_token and sep_token; save the tokenizer with transformers as a BertTokenizer",
        vocabulary.file, kConfig);
  }
  for (const std::string& name : {names.unknown, names.begin, names.end, names.padding, names.mask}) {
    const auto is_it = [&](const AddedToken& added) { return added.text == name; };
    if (std::any_of(vocabulary.added.begin(), vocabulary.added.end(), is_it)) continue;
    vocabulary.added.push_back({name, id_of(vocabulary, name), true});
  }
  refuse_added(folder / kConfig, root, vocabulary);
  refuse_added(folder / kSpecialMap, map, vocabulary);
  for (const auto& [token, id] : tokens.items()) refuse_added(folder / "added_tokens.json", token, vocabulary);
  return vocabulary;
}

void write_tokenizer_config(const std::filesystem::path& folder, const WordpieceOptions& options, int64_t length) {
  constexpr const char* kLength = "model_max_length";
  json config = json::object();
  if (std::filesystem::exists(folder / kConfig)) {
    config = read_json_object((folder / kConfig).string(), kLargestFile);
    const auto most = config.find(kLength);
    if (most != config.end() && most->is_number() && most->get<double>() <= static_cast<double>(length)) return;
  } else {
    config["tokenizer_class"] = "BertTokenizer";
    config["do_lower_case"] = options.lower_case;
    config["strip_accents"] = options.strip_accents ? json(*options.strip_accents) : json();
    config["tokenize_chinese_chars"] = options.split_chinese;
  }
  config[kLength] = length;
  write_file_atomically(folder / kConfig, config.dump(2) + "\n");
}

}  // namespace bochner
