// Texts as documents, and as tokens on disk: what is read from files, folders and archives, what is held out, and that
// the cache is complete or absent, made only once, and refused if damaged.
#include "datasets/corpora/token_cache.h"

#include <gtest/gtest.h>

#include <map>

#include "datasets/corpora/documents.h"
#include "datasets/tokenizers/wordpiece_training.h"
#include "engine/io/data_log.h"
#include "engine/io/file.h"
#include "engine/io/gzip.h"
#include "tests/files.h"
#include "tests/message_of.h"
#include "tests/tar.h"

namespace bochner::text {
namespace {

using test::contents;
using test::message_of;
using test::put;
using test::TemporaryFolder;

std::vector<std::vector<std::string>> documents(const std::vector<std::string>& paths) {
  std::vector<std::vector<std::string>> all(1);
  read_documents(
      text_files(paths), [&](std::string_view line) { all.back().emplace_back(line); }, [&] { all.emplace_back(); });
  EXPECT_TRUE(all.back().empty());
  all.pop_back();
  return all;
}

TEST(Documents, AreFilesOfAFolderInTheOrderOfTheirPaths) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "texts/a");
  put(folder / "texts/b.txt", "of b<br />more\r\nand\xff");
  put(folder / "texts/a/z.txt", "of z\n");
  put(folder / "texts/a/other.json", "{}");
  put(folder / "texts/empty.txt", "");
  for (const char* left_out : {"urls_pos.txt", "imdbEr.txt", "._b.txt", ".c.txt"}) {
    put(folder / "texts" / left_out, "no text to learn from\n");
  }
  put(folder / "texts/b.txt.gz", "the same, packed");
  const auto found = documents({(folder / "texts").string()});
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0], (std::vector<std::string>{"of z"}));
  EXPECT_EQ(found[1], (std::vector<std::string>{"of b more", "and\xff"}));
  EXPECT_THROW(text_files({(folder / "none").string()}), Error);
  std::filesystem::create_directories(folder / "void");
  EXPECT_THROW(text_files({(folder / "void").string()}), Error);
}

TEST(Documents, OfAnArchiveAreItsTextsAndNotItsLists) {
  const TemporaryFolder folder;
  std::map<std::string, std::string> files = {{"aclImdb/train/1_7.txt", "of one<br />more"},
                                              {"aclImdb/train/2_8.txt", "of two"}};
  for (const char* left_out : {"urls_pos.txt", "imdbEr.txt", "._1_7.txt", "README", "labeledBow.feat"}) {
    files[std::string("aclImdb/train/") + left_out] = "no text to learn from\n";
  }
  write_file_atomically(folder / "aclImdb_v1.tar.gz", format_gzip(bytes_of(test::tar_of(files))));
  EXPECT_EQ(documents({(folder / "aclImdb_v1.tar.gz").string()}),
            (std::vector<std::vector<std::string>>{{"of one more"}, {"of two"}}));
}

TEST(Documents, OfRawWikiTextAreItsArticlesAsTheyStand) {
  const TemporaryFolder folder;
  put(folder / "wiki.test.raw", " = One = \n \n 3 @,@ 000 well-known Ω \n");
  const auto found = documents({(folder / "wiki.test.raw").string()});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0], (std::vector<std::string>{" = One = ", " ", " 3 @,@ 000 well-known Ω "}));
}

TEST(Documents, OfWikiTextAreItsArticlesWithoutMarks) {
  const TemporaryFolder folder;
  put(folder / "wiki.test.tokens",
      " \n = One = \n \n 3 @,@ 000 well @-@ known <unk> \n = = Part = = \n x \n = Two = \n y \n");
  const auto found = documents({(folder / "wiki.test.tokens").string()});
  ASSERT_EQ(found.size(), 3U);  // what comes before the first article is one too
  EXPECT_EQ(found[1],
            (std::vector<std::string>{" = One = ", " ", " 3,000 well-known <unk> ", " = = Part = = ", " x "}));
  EXPECT_EQ(found[2], (std::vector<std::string>{" = Two = ", " y "}));
}

TEST(Documents, LongFilesAreCutAtEmptyLines) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 3000; ++i) text += i % 10 == 9 ? "\n" : "nine more bytes\n";
  put(folder / "play.txt", text);
  const auto found = documents({(folder / "play.txt").string()});
  ASSERT_EQ(found.size(), 3U);
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(found[i].back(), "");
}

TEST(Documents, LongFilesWithoutEmptyLinesAreCutAtAnyLine) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 150; ++i) text += std::string(1023, 'a') + "\n";
  put(folder / "log.txt", text);
  std::vector<size_t> lines;
  for (const auto& document : documents({(folder / "log.txt").string()})) lines.push_back(document.size());
  EXPECT_EQ(lines, (std::vector<size_t>{64, 64, 22}));  // 64 KiB and the rest
}

/// Forty documents, each of two lines.
class Cache : public ::testing::Test {
 protected:
  Cache() {
    std::filesystem::create_directories(folder_ / "texts");
    for (int i = 0; i < 40; ++i) {
      put(folder_ / fmt::format("texts/{:02}.txt", i), fmt::format("word number {0} here\n<unk> and w{0}\n", i));
    }
  }
  TokenCache make(TokenCacheOptions options = {}) {
    if (options.texts.empty()) options.texts = {(folder_ / "texts").string()};
    said_.clear();
    return token_cache(folder_ / "tokens", options, [&](const std::string& line) { said_ += line + "\n"; });
  }
  static std::string text_of(const TokenCache& cache, const TokenCache::Part& part) {
    const TokenStream stream(cache, part, part.tokens);
    std::vector<int64_t> ids(static_cast<size_t>(part.tokens));
    stream.copy_tokens(0, 0, ids);
    std::string text;
    for (const int64_t id : ids) text += std::string(cache.tokenizer->token(id)) + " ";
    return text;
  }

  TemporaryFolder folder_;
  std::string said_;
};

TEST_F(Cache, HoldsOutTwoOfTwentyDocumentsAndEndsEachWithSep) {
  put(folder_ / "vocab.txt",
      "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nword\nnumber\nhere\nand\nw\n##1\n##8\n##9\n18\n19\n38\n39\n");
  const TokenCache cache = make({.texts = {}, .vocabulary = folder_ / "vocab.txt"});
  EXPECT_EQ(text_of(cache, cache.valid),
            "word number 18 here [UNK] and w ##1 ##8 [SEP] word number 38 here [UNK] and [UNK] [SEP] ");
  EXPECT_EQ(text_of(cache, cache.test),
            "word number 19 here [UNK] and w ##1 ##9 [SEP] word number 39 here [UNK] and [UNK] [SEP] ");
  const std::string train = text_of(cache, cache.train);
  EXPECT_EQ(train.find("18"), std::string::npos);
  EXPECT_EQ(token_counts(cache, cache.train)[3], 36);  // [SEP], one for each document
  EXPECT_TRUE(cache.held_out_valid && cache.held_out_test);
}

TEST_F(Cache, TokensOfLongTextsAreAllCounted) {
  const TokenCache cache = make();
  std::vector<int32_t> ids(size_t{1} << 17U, 5);
  ids.insert(ids.begin() + 70'000, 3, 6);
  ids.push_back(7);
  const std::filesystem::path file = folder_ / "long.i32";
  put(file, std::string(bochner::text_of(std::as_bytes(std::span(ids)))));
  const std::vector<int64_t> counts = token_counts(cache, {file, std::ssize(ids)});
  EXPECT_EQ(std::vector<int64_t>(counts.begin() + 5, counts.begin() + 8), (std::vector<int64_t>{1 << 17, 3, 1}));
}

TEST_F(Cache, IsMadeOnceAndReadAlikeEachTime) {
  const DataLog first_log;
  const TokenCache first = make();
  EXPECT_NE(said_.find("40 documents"), std::string::npos) << said_;
  EXPECT_NE(said_.find("vocabulary of"), std::string::npos) << said_;
  const auto first_reads = first_log.reads();
  const DataLog second_log;
  const TokenCache second = make();
  EXPECT_EQ(said_.find("documents"), std::string::npos) << said_;
  EXPECT_EQ(second.folder, first.folder);
  EXPECT_EQ(text_of(second, second.train), text_of(first, first.train));
  EXPECT_EQ(std::count(first_reads.begin(), first_reads.end(), second_log.reads().front()), 1);
  const std::string sources = contents(first.folder / "sources.txt");
  EXPECT_EQ(std::count(sources.begin(), sources.end(), '\n'), 40);
  EXPECT_NE(make({.texts = {}, .vocabulary_size = 100}).folder, first.folder);
  put(folder_ / "texts/00.txt", "another text\n");
  EXPECT_NE(make().folder, first.folder);
}

TEST_F(Cache, AVocabularyOfPiecesStaysWhateverTheTextsBecome) {
  const TokenCache before = make();
  const std::vector<std::string> pieces = before.tokenizer->vocabulary().pieces;
  EXPECT_EQ(make({.texts = {}, .pieces = pieces}).folder, before.folder);  // nothing is made twice
  put(folder_ / "texts/000.txt", "zebras zigzag zestfully\n");
  EXPECT_NE(make().tokenizer->vocabulary().pieces, pieces);
  const TokenCache after = make({.texts = {}, .pieces = pieces});
  EXPECT_EQ(after.tokenizer->vocabulary().pieces, pieces);
  EXPECT_EQ(said_.find("a vocabulary of"), std::string::npos) << said_;
  EXPECT_NE(text_of(after, after.train).find("[UNK] [UNK] [UNK] [SEP]"), std::string::npos);
}

TEST_F(Cache, OfModelsWithOtherPackedVocabulariesAreTwo) {
  const std::string special = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  const auto folder_of = [&](const std::string& model, const std::string& tokens) {
    std::filesystem::create_directories(folder_ / model);
    put(folder_ / (model + "/vocab.txt.gz"), bochner::text_of(format_gzip(bytes_of(special + tokens))));
    return make({.texts = {}, .vocabulary = folder_ / model}).folder;
  };
  EXPECT_NE(folder_of("one", "word\nnumber\n"), folder_of("other", "number\nword\n"));
}

TEST_F(Cache, TakesOtherTextsForValidationAndTest) {
  put(folder_ / "valid.txt", "number word\n");
  put(folder_ / "test.txt", "here\n");
  const TokenCache cache =
      make({.texts = {}, .valid = {(folder_ / "valid.txt").string()}, .test = {(folder_ / "test.txt").string()}});
  EXPECT_EQ(text_of(cache, cache.valid), "number word [SEP] ");
  EXPECT_EQ(text_of(cache, cache.test), "here [SEP] ");
  EXPECT_EQ(token_counts(cache, cache.train)[3], 40);
  EXPECT_FALSE(cache.held_out_valid || cache.held_out_test);
}

TEST_F(Cache, DoesNotLearnFromWhatIsNamedForValidationOrTheTest) {
  const TokenCache cache = make(
      {.texts = {}, .valid = {(folder_ / "texts/03.txt").string()}, .test = {(folder_ / "texts/04.txt").string()}});
  EXPECT_EQ(token_counts(cache, cache.train)[3], 38);
  EXPECT_NE(said_.find("2 files for validation or the test are not learnt from"), std::string::npos) << said_;
  EXPECT_THROW(make({.texts = {(folder_ / "texts/03.txt").string()}, .valid = {(folder_ / "texts/03.txt").string()}}),
               Error);
}

TEST_F(Cache, CountsWhatIsNotUtf8) {
  put(folder_ / "texts/00.txt", "a\xff b \xe2\x82 c\n");
  make();
  EXPECT_NE(said_.find("2 places were not UTF-8"), std::string::npos) << said_;
}

TEST_F(Cache, NamesOfFilesMayHoldAnyBytes) {
  put(folder_ / "texts/\xff.txt", "more of them\n");
  const TokenCache made = make();
  EXPECT_NE(said_.find("41 documents"), std::string::npos) << said_;
  EXPECT_EQ(make().folder, made.folder);
  EXPECT_EQ(said_.find("documents"), std::string::npos) << said_;
}

TEST_F(Cache, ADamagedFileIsRefusedAndAMissingOneMadeAgain) {
  const TokenCache cache = make();
  const std::string right = contents(cache.train.path);
  std::string wrong = right;
  wrong[5] = '\x7f';
  put(cache.train.path, wrong);
  EXPECT_TRUE(test::message_of([&] { make(); }).ends_with("remove the file to have it made again"));
  const std::string manifest = contents(cache.folder / "manifest.json");
  std::filesystem::remove(cache.folder / "manifest.json");
  EXPECT_NE(test::message_of([&] { make(); }).find("holds tokens without a manifest; remove the folder"),
            std::string::npos);
  put(cache.folder / "manifest.json", manifest);
  EXPECT_THROW(token_counts(cache, cache.train), Error);  // an id past the vocabulary
  std::vector<int64_t> ids(2);
  EXPECT_THROW(TokenStream(cache, cache.train, 2).copy_tokens(0, 0, ids), Error);
  std::filesystem::remove(cache.train.path);
  make();
  EXPECT_EQ(contents(cache.train.path), right);
}

TEST_F(Cache, APartThatIsAFolderInTheManifestIsRefused) {
  const TokenCache cache = make();
  Manifest manifest = read_manifest(cache.folder);
  for (ManifestFile& file : manifest.files) {
    if (file.name != "train.i32") continue;
    std::filesystem::rename(cache.train.path, cache.folder / "x");
    std::filesystem::create_directory(cache.train.path);
    std::filesystem::rename(cache.folder / "x", cache.train.path / "x");
    file.name = "train.i32/x";
  }
  write_manifest(cache.folder, manifest);
  EXPECT_EQ(test::message_of([&] { make(); }),
            cache.folder.string() + ": train.i32 is no file in its manifest; remove the folder to have it made again");
}

TEST_F(Cache, NothingIsLeftWhereTextsCannotBeRead) {
  put(folder_ / "texts/cut.tar", std::string(700, 'x'));
  EXPECT_NE(message_of([&] { make(); }).find("cut.tar: "), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "tokens"));
  std::filesystem::create_directory(folder_ / "tokens");
  EXPECT_THROW(make(), Error);
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "tokens"));  // which was there before
}

TEST_F(Cache, RefusesWhatItCannotUse) {
  EXPECT_THROW(token_cache(folder_ / "tokens", {.texts = {}}, [](const std::string&) {}), Error);
  put(folder_ / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nword\n");
  try {
    make({.texts = {}, .vocabulary = folder_ / "vocab.txt"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("[MASK]"), std::string::npos) << error.what();
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "tokens"));
  TokenCache cache = make();
  const auto refused = [&](const TokenCache::Part& part) {
    return message_of([&] { TokenStream(cache, part, 1000); });
  };
  EXPECT_NE(refused(cache.valid).find("fewer than the 1000 of one example; it holds one of each twenty documents"),
            std::string::npos)
      << refused(cache.valid);
  EXPECT_NE(refused(cache.train).find("example; give more text"), std::string::npos) << refused(cache.train);
  cache.held_out_valid = false;
  EXPECT_NE(refused(cache.valid).find("example; give more text"), std::string::npos) << refused(cache.valid);
}

TEST_F(Cache, PiecesAreThoseOfTheStream) {
  const TokenCache cache = make();
  const TokenStream whole(cache, cache.train, cache.train.tokens);
  std::vector<int64_t> all(static_cast<size_t>(cache.train.tokens));
  whole.copy_tokens(0, 0, all);
  const TokenStream pieces(cache, cache.train, 7);
  EXPECT_EQ(pieces.size(), cache.train.tokens / 7);
  std::vector<int64_t> piece(7);
  pieces.copy_tokens(3, 0, piece);
  EXPECT_TRUE(std::equal(piece.begin(), piece.end(), all.begin() + 21));
}

}  // namespace
}  // namespace bochner::text
