// The files of a tokenizer: what they say about special tokens, and what is refused.
#include "datasets/tokenizers/vocabulary.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "datasets/tokenizers/wordpiece.h"
#include "engine/io/file.h"
#include "tests/files.h"
#include "tests/message_of.h"

namespace bochner {
namespace {

using nlohmann::json;

using Ids = std::vector<int32_t>;

json tokenizer_json() {
  const std::vector<std::byte> file = read_file(BOCHNER_SOURCE_DIR "/tests/golden/wordpiece/tokenizer.json");
  return json::parse(text_of(file));
}

std::string refusal(const test::TemporaryFolder& folder) {
  return test::message_of([&] { read_pretrained_vocabulary(folder.path()); });
}

// Only tokenizer.json says from which texts they are cut.
TEST(Vocabulary, TokensThatAFileBesideTheVocabularyAddsAreRefused) {
  const std::vector<std::pair<std::string, std::string>> files = {
      {"added_tokens.json", R"({"[CLS]": 2, "<new>": 6})"},
      {"special_tokens_map.json", R"({"additional_special_tokens": ["[SEP]", "<new>"]})"},
      {"special_tokens_map.json", R"({"extra_special_tokens": {"cls": "[CLS]", "new": "<new>"}})"},
      {"tokenizer_config.json", R"({"extra_special_tokens": [{"content": "[PAD]"}, {"content": "<new>"}]})"},
      {"tokenizer_config.json",
       R"({"added_tokens_decoder": {"2": {"content": "[CLS]"}, "6": {"content": "<new>", "special": true}}})"}};
  for (const std::string tokenizer : {"vocab.txt", "tokenizer.json"}) {
    const test::TemporaryFolder folder;
    // Once it is added, a token of the vocabulary is also found within words.
    if (tokenizer == "vocab.txt") folder.put(tokenizer, "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n<new>\n");
    if (tokenizer == "tokenizer.json") folder.put(tokenizer, tokenizer_json().dump());
    for (const auto& [name, text] : files) {
      EXPECT_EQ(refusal(folder), "no error");
      folder.put(name, text);
      EXPECT_EQ(refusal(folder), (folder / name).string() +
                                     ": adds the token '<new>', which is none of the added_tokens of a tokenizer.json "
                                     "beside it; save the tokenizer with transformers, which writes that file");
      std::filesystem::remove(folder / name);
    }
    // Files of older versions, which transformers does not read if the newer list exists.
    folder.put("tokenizer_config.json", R"({"added_tokens_decoder": {"2": {"content": "[CLS]"}}})");
    folder.put("added_tokens.json", R"({"<new>": 6})");
    folder.put("special_tokens_map.json", R"({"cls_token": "<no>", "extra_special_tokens": ["<new>"]})");
    EXPECT_EQ(refusal(folder), "no error");
  }
}

TEST(Vocabulary, SpecialTokensMayHaveTheirNamesInTheFileOfNames) {
  const test::TemporaryFolder folder;
  folder.put("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n<s>\nx\n");
  folder.put("special_tokens_map.json", R"({"cls_token": {"content": "<s>"}, "sep_token": "[SEP]"})");
  const Wordpiece renamed(read_pretrained_vocabulary(folder.path()));
  EXPECT_EQ(Wordpiece::Encoder(renamed).encode("x <s>").ids, (Ids{5, 6, 5, 3}));
  folder.put("special_tokens_map.json", R"({"cls_token": "<e>"})");
  EXPECT_NE(refusal(folder).find("there is no '<e>' among its 7 tokens"), std::string::npos) << refusal(folder);
}

TEST(Vocabulary, ThatAccentsGoWithTheCaseMayBeSaidByNull) {
  const test::TemporaryFolder folder;
  json root = tokenizer_json();
  root["normalizer"]["strip_accents"] = false;
  folder.put("tokenizer.json", root.dump());
  EXPECT_EQ(read_pretrained_vocabulary(folder.path()).options.strip_accents, false);
  folder.put("tokenizer_config.json", R"({"strip_accents": null})");
  EXPECT_FALSE(read_pretrained_vocabulary(folder.path()).options.strip_accents.has_value());
}

// Then transformers looks only at tokenizer.json.
TEST(Vocabulary, AClassForAllKindsOfTokenizersChangesNothing) {
  const test::TemporaryFolder folder;
  json root = tokenizer_json();
  root["normalizer"] = {{"type", "BertNormalizer"}, {"lowercase", true}, {"strip_accents", false}};
  root["post_processor"] = {{"type", "BertProcessing"}, {"sep", {"[SEP]", 3}}, {"cls", {"[CLS]", 2}}};
  folder.put("tokenizer.json", root.dump());
  json config = {{"do_lower_case", false}, {"strip_accents", true}, {"tokenize_chinese_chars", false}};
  for (const std::string name : {"BertTokenizer", "PreTrainedTokenizerFast", "TokenizersBackend"}) {
    config["tokenizer_class"] = name;
    folder.put("tokenizer_config.json", config.dump());
    const WordpieceOptions options = read_pretrained_vocabulary(folder.path()).options;
    const bool is_bert = name == "BertTokenizer";
    EXPECT_EQ(options.lower_case, !is_bert) << name;
    EXPECT_EQ(options.strip_accents, is_bert) << name;
    EXPECT_EQ(options.split_chinese, !is_bert) << name;
  }
  root["post_processor"] = nullptr;
  folder.put("tokenizer.json", root.dump());
  EXPECT_NE(refusal(folder).find("tokenizer.json: there is no post_processor"), std::string::npos) << refusal(folder);
  folder.put("tokenizer_config.json", "{}");
  EXPECT_EQ(refusal(folder), "no error");
}

TEST(Vocabulary, OtherTokensAroundTextsAreRefused) {
  const test::TemporaryFolder folder;
  json root = tokenizer_json();
  const auto with = [&](const json& processor) {
    root["post_processor"] = processor;
    folder.put("tokenizer.json", root.dump());
    return refusal(folder);
  };
  const auto piece = [](const char* kind, const char* id, int type) {
    return json{{kind, {{"id", id}, {"type_id", type}}}};
  };
  const json A = piece("Sequence", "A", 0);
  const json B = piece("Sequence", "B", 1);
  const json cls = piece("SpecialToken", "[CLS]", 0);
  const json sep = piece("SpecialToken", "[SEP]", 0);
  json right = {{"type", "TemplateProcessing"},
                {"single", {cls, A, sep}},
                {"pair", {cls, A, sep, B, piece("SpecialToken", "[SEP]", 1)}},
                {"special_tokens", {{"[CLS]", {{"ids", {2}}}}, {"[SEP]", {{"ids", {3}}}}}}};
  EXPECT_EQ(with(right), "no error");
  EXPECT_EQ(with(nullptr), "no error");
  EXPECT_EQ(with({{"type", "BertProcessing"}, {"sep", {"[SEP]", 3}}, {"cls", {"[CLS]", 2}}}), "no error");
  const auto contains = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  contains(
      with({{"type", "BertProcessing"}, {"sep", {"[PAD]", 0}}, {"cls", {"[CLS]", 2}}}),
      "tokenizer.json: post_processor makes '[2]:0 A:0 [0]:0', each with its type, where here are '[2]:0 A:0 [3]:0'");
  const auto changed = [&](const char* pointer, const json& value) {
    json wrong = right;
    wrong[json::json_pointer(pointer)] = value;
    return with(wrong);
  };
  contains(changed("/single", json::array({A, sep})), "makes 'A:0 [3]:0', each");
  contains(changed("/pair/4", sep), "makes '[2]:0 A:0 [3]:0 B:1 [3]:0', each");
  contains(changed("/special_tokens/[CLS]/ids", {4}), "makes '[4]:0 A:0 [3]:0', each");
  contains(changed("/special_tokens", json::object()), "post_processor: special_tokens: there is no [CLS]");
  contains(changed("/single", 3), "post_processor: single is no list");
  contains(changed("/single/0", 3), "post_processor: single: is no object");
  contains(changed("/type", "RobertaProcessing"),
           "type is 'RobertaProcessing'; known here are BertProcessing and TemplateProcessing");
  contains(with({{"type", "BertProcessing"}, {"sep", "[SEP]"}, {"cls", {"[CLS]", 2}}}),
           "post_processor: sep is \"[SEP]\", no token with its id");
  with(right);
  folder.put("tokenizer_config.json", R"({"cls_token": "[PAD]"})");
  contains(refusal(folder), "where here are '[0]:0 A:0 [3]:0', with the ids of cls_token and sep_token");
}

TEST(Vocabulary, BrokenFilesAreRefused) {
  const test::TemporaryFolder folder;
  const std::string special = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  const auto lines = [&](const std::string& text) {
    return test::message_of([&] { read_vocabulary(folder.put("vocab.txt", text)); });
  };
  const std::string path = (folder / "vocab.txt").string();
  EXPECT_EQ(lines(special + "a\n"), "no error");
  EXPECT_EQ(lines("[PAD]\r\n[UNK]\r\n[CLS]\r\n[SEP]\r\n[MASK]\r\n"), "no error");
  EXPECT_EQ(lines("\xef\xbb\xbf" + special), "no error");
  EXPECT_EQ(read_vocabulary(folder / "vocab.txt").pieces[0], "[PAD]");
  EXPECT_EQ(
      lines("[PAD]\n[UNK]\n[CLS]\n[SEP]\n"),
      path +
          ": there is no '[MASK]' among its 4 tokens; a BERT vocabulary holds [PAD], [UNK], [CLS], [SEP] and [MASK]");
  EXPECT_EQ(lines(special + "a\nb\na\n"), path + ":8: the token 'a' stands in line 6 already");
  EXPECT_EQ(lines(special + "a\n\nb\n"), path + ":7: an empty token");
  EXPECT_EQ(lines(special + "\xFF\n"), path + ":6: the token is not valid UTF-8");
  EXPECT_EQ(lines(special + std::string(2000, 'a')), path + ":6: a token of 2000 bytes; the longest allowed has 1000");

  const auto message = [&] { return test::message_of([&] { read_pretrained_vocabulary(folder.path()); }); };
  std::filesystem::remove(folder / "vocab.txt");
  EXPECT_NE(message().find("holds neither tokenizer.json nor vocab.txt"), std::string::npos);
  const json good = tokenizer_json();
  const auto with = [&](const char* pointer, const json& value) {
    json root = good;
    root[json::json_pointer(pointer)] = value;
    folder.put("tokenizer.json", root.dump());
    return message();
  };
  EXPECT_EQ(with("/model/max_input_chars_per_word", 50), "no error");
  const auto contains = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  EXPECT_TRUE(
      contains(with("/model/type", "BPE"), "tokenizer.json: model: type is 'BPE', and only WordPiece is known here"));
  EXPECT_TRUE(contains(with("/normalizer", nullptr), "there is no normalizer"));
  EXPECT_TRUE(contains(with("/pre_tokenizer/type", "Whitespace"), "only BertPreTokenizer"));
  EXPECT_TRUE(contains(with("/model/vocab/hello", -1), "model.vocab['hello']: -1 is no id"));
  EXPECT_TRUE(contains(with("/model/vocab/hello", 4000000000U), "is no id from 0 to"));
  EXPECT_TRUE(contains(with("/model/vocab/hello", 0), "the id 0 stands for"));
  EXPECT_TRUE(contains(with("/model/max_input_chars_per_word", -5), "no number from 1 to 10000"));
  EXPECT_TRUE(contains(with("/added_tokens/0/single_word", true), "single_word"));
  EXPECT_TRUE(contains(with("/model/unk_token", ""), "tokenizer.json: model.unk_token: an empty token"));
  EXPECT_TRUE(contains(with("/model/unk_token", "\x1b[31m"), "there is no '\\x1b[31m' among"));
  // An empty name would be found at an id that stands for nothing.
  EXPECT_EQ(with("/model/vocab/hello", good["/model/vocab"_json_pointer].size() + 10), "no error");
  for (const char* config : {R"({"mask_token": ""})", R"({"mask_token": {"content": ""}})"}) {
    folder.put("tokenizer_config.json", config);
    EXPECT_TRUE(contains(message(), "tokenizer_config.json: mask_token: an empty token")) << message();
  }
  std::filesystem::remove(folder / "tokenizer_config.json");
  folder.put("tokenizer.json", R"({"model": {"vocab": {"a": 0, "a": 1}}})");
  EXPECT_TRUE(contains(message(), "'a' comes twice"));
  folder.put("tokenizer.json", "{\"model\":\n {");
  EXPECT_TRUE(contains(message(), "tokenizer.json: parse error at line 2")) << message();
  folder.put("tokenizer.json", std::string(100000, '['));
  EXPECT_TRUE(contains(message(), "nested too deep"));
}

}  // namespace
}  // namespace bochner
