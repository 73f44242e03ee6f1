// The readers of GLUE: on tables written here, and on the published ones, compared with Python code that splits lines
// at tabs (tests/golden/glue.py).
#include "datasets/glue/tables.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/io/file.h"
#include "engine/io/gzip.h"
#include "engine/io/sha256.h"
#include "tests/files.h"
#include "tests/message_of.h"
#include "tests/shared_data.h"

namespace bochner {
namespace {

using glue::Corpus;
using glue::corpus_named;
using glue::FileLayout;
using glue::Table;

Table parsed(const char* corpus, std::string_view text) {
  const Corpus& known = corpus_named(corpus);
  return glue::parse(bytes_of(text), "train.tsv", known, known.train);
}

std::string refusal(const char* corpus, std::string_view text) {
  return test::message_of([&] { parsed(corpus, text); });
}

std::string refusal_of_test(const char* corpus, std::string_view text) {
  const Corpus& known = corpus_named(corpus);
  return test::message_of([&] { glue::parse(bytes_of(text), "test.tsv", known, known.test[0].file); });
}

TEST(GlueTables, EachTaskHasItsColumns) {
  const Table cola = parsed("cola", "gj04\t1\t\tThe sailors rode.\ngj04\t0\t*\tThe the.\n");
  EXPECT_EQ(cola.size(), 2);
  EXPECT_EQ(cola.sentence(1), "The the.");
  EXPECT_EQ(cola.labels, (std::vector<int32_t>{1, 0}));

  const Table sst = parsed("sst-2", "sentence\tlabel\nhide new secretions \t0\n");
  EXPECT_EQ(sst.sentence(0), "hide new secretions ");

  const Table mrpc = parsed("mrpc", "\xef\xbb\xbfQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\t\" A\tB \"\n");
  EXPECT_EQ(mrpc.sentences, 2);
  EXPECT_EQ(mrpc.sentence(0, 0), "\" A");
  EXPECT_EQ(mrpc.sentence(0, 1), "B \"");
  EXPECT_EQ(mrpc.labels, std::vector<int32_t>{1});

  const Table sts = parsed("sts-b",
                           "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
                           "0\tx\tx\tx\tx\tx\tx\tA plane.\tAn air plane.\t3.800\n");
  EXPECT_EQ(sts.scores, std::vector<float>{3.8F});
  EXPECT_EQ(sts.sentence(0, 1), "An air plane.");
  EXPECT_TRUE(sts.labels.empty());

  const Table mnli = parsed("mnli",
                            "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\t"
                            "sentence1_parse\tsentence2_parse\tsentence1\tsentence2\tlabel1\tgold_label\n"
                            "0\t1\t1n\tgovernment\t( a )\t( b )\t(A)\t(B)\ta\tb\tentailment\tneutral\n");
  EXPECT_EQ(mnli.sentence(0, 0), "a");
  EXPECT_EQ(mnli.labels, std::vector<int32_t>{1});

  EXPECT_EQ(parsed("qnli", "index\tquestion\tsentence\tlabel\n0\tq?\ts.\tnot_entailment\n").labels[0], 1);
  EXPECT_EQ(parsed("rte", "index\tsentence1\tsentence2\tlabel\n0\ta\tb\tentailment\n").labels[0], 0);
  EXPECT_EQ(parsed("wnli", "index\tsentence1\tsentence2\tlabel\n0\ta\tb\t1\n").labels[0], 1);
}

TEST(GlueTables, ColumnsAreFoundByTheirNames) {
  const Table table = parsed("rte", "label\tsentence2\tmore\tsentence1\nentailment\tb\tx\ta\n");
  EXPECT_EQ(table.sentence(0, 0), "a");
  EXPECT_EQ(table.sentence(0, 1), "b");
}

TEST(GlueTables, TestSetsHaveNoLabels) {
  const Corpus& qqp = corpus_named("qqp");
  const Table table =
      glue::parse(bytes_of("id\tquestion1\tquestion2\n0\ta\tb\n1\tc\td\n"), "test.tsv", qqp, qqp.test[0].file);
  EXPECT_EQ(table.labels, (std::vector<int32_t>{glue::kUnlabelled, glue::kUnlabelled}));
  EXPECT_EQ(table.sentence(1, 0), "c");
  EXPECT_EQ(refusal_of_test("qqp", "id\tquestion1\tquestion2\n0\ta\tb\n2\tc\td\n"),
            "test.tsv: row 3 column 1 ('id'): the row has the index '2', not 1; rows are missing, or in another order");
  EXPECT_EQ(refusal_of_test("cola", "index\tsentence\nx\ta\n"),
            "test.tsv: row 2 column 1 ('index'): 'x' is not an integer");
}

TEST(GlueTables, LineEndsAndPackingChangeNothing) {
  const std::string text = "sentence\tlabel\na \"b\t0\nc\t1\n";
  std::string with_returns;
  for (const char c : text) with_returns += c == '\n' ? "\r\n" : std::string(1, c);
  const std::vector<std::byte> gz = format_gzip(bytes_of(text));
  const std::string_view packed = text_of(gz);
  for (const std::string_view bytes : {std::string_view(text), std::string_view(with_returns), packed,
                                       std::string_view(text).substr(0, text.size() - 1)}) {
    const Table table = parsed("sst-2", bytes);
    EXPECT_EQ(table.size(), 2);
    EXPECT_EQ(table.sentence(0), "a \"b");
    EXPECT_EQ(table.labels, (std::vector<int32_t>{0, 1}));
  }
}

TEST(GlueTables, EmptySentencesAreKeptAndCounted) {
  const Table table = parsed("rte", "index\tsentence1\tsentence2\tlabel\n0\t\t\tentailment\n1\ta\t\tentailment\n");
  EXPECT_EQ(table.size(), 2);
  EXPECT_EQ(table.empty, 3);
}

TEST(GlueTables, OfQqpBrokenRowsAreLeftOut) {
  const Table table = parsed("qqp",
                             "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n1\t1\t2\ta\tb\t0\n2\t3\t4\tWhere\n"
                             "is it?\tc\t1\n3\t5\t6\td\te\t1\n");
  EXPECT_EQ(table.size(), 2);
  EXPECT_EQ(table.left_out, 2);
  EXPECT_EQ(table.sentence(1, 1), "e");
}

TEST(GlueTables, RefusalsNameRowColumnAndValue) {
  EXPECT_EQ(refusal("sst-2", "sentence\tlabel\na\t0\nb\t2\n"),
            "train.tsv: row 3 column 2 ('label'): the label '2' is none of 0, 1");
  EXPECT_EQ(refusal("rte", "index\tsentence1\tsentence2\tlabel\n0\ta\tb\tneutral\n"),
            "train.tsv: row 2 column 4 ('label'): the label 'neutral' is none of entailment, not_entailment");
  EXPECT_EQ(refusal("mrpc", "Quality\t#1 ID\t#2 ID\t#1 String\n1\t7\t8\ta\n"),
            "train.tsv: row 1 column 1: no column is named '#2 String'; the names are 'Quality', '#1 ID', '#2 ID', "
            "'#1 String'");
  EXPECT_EQ(refusal("sst-2", "sentence\tlabel\na\tb\t1\n"),
            "train.tsv: row 2 column 2 ('label'): the row has 3 fields, not 2");
  EXPECT_EQ(refusal("sst-2", "sentence\tlabel\n\na\t1\n"),
            "train.tsv: row 2 column 1 ('sentence'): the row has 1 fields, not 2");
  EXPECT_EQ(refusal("cola", "sentence\tlabel\na\t1\n"),
            "train.tsv: row 1 column 2: the row has 2 fields, not 4: source, label, star, sentence");
  EXPECT_EQ(refusal("sst-2", "sentence\tlabel\n"), "train.tsv: row 2: the file holds no sentences");
  EXPECT_EQ(refusal("sst-2", ""),
            "train.tsv: row 1 column 1: the file is empty, the names of its columns should stand here");
  for (const char* score : {"5.1", "-0.1", "nan", "inf"}) {
    const std::string told = refusal("sts-b", fmt::format("sentence1\tsentence2\tscore\na\tb\t{}\n", score));
    EXPECT_EQ(told, fmt::format("train.tsv: row 2 column 3 ('score'): the score '{}' is not one of 0 to 5", score));
  }
  EXPECT_NE(refusal("sts-b", "sentence1\tsentence2\tscore\na\tb\t\n").find("is not a number"), std::string::npos);
  EXPECT_EQ(test::message_of([] { corpus_named("snli"); }),
            "glue: 'snli' is none of cola, sst-2, mrpc, qqp, sts-b, mnli, qnli, rte, wnli, ax");
}

TEST(GlueTables, AFileOfFewerRowsIsTakenOnlyWhereItIsAllowed) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directory(folder / "WNLI");
  const Corpus& wnli = corpus_named("wnli");
  std::vector<std::string> said;
  const auto say = [&](const std::string& line) { said.push_back(line); };
  const auto read = [&](bool partial) { return glue::read(folder.path(), wnli, wnli.train, {partial}, say); };
  const std::string path = (folder / "WNLI").string();
  EXPECT_EQ(test::message_of([&] { read(true); }),
            path + "/train.tsv: is missing; put it there, from gluebenchmark.com/tasks");
  const std::string text = "index\tsentence1\tsentence2\tlabel\n0\ta\t\t1\n";
  folder.put("WNLI/train.part1.tsv.gz", text_of(format_gzip(bytes_of(text))));
  EXPECT_EQ(test::message_of([&] { read(false); }),
            path + "/train.tsv: is missing, but train.part1.tsv.gz is there; to take it, give the option partial");
  EXPECT_EQ(read(true).size(), 1);
  EXPECT_EQ(said, std::vector<std::string>{path + "/train.part1.tsv.gz: 1 rows of the 635 that are published; "
                                                  "1 sentences are empty"});
  folder.put("WNLI/train.tsv", text);
  EXPECT_EQ(test::message_of([&] { read(false); }),
            path + "/train.tsv: 1 rows, the published file has 635; to take it as it is, give the option partial");
}

/// As tests/golden/glue.py describes a table.
std::string digest(const Table& table) {
  Sha256 hash;
  for (int64_t row = 0; row < table.size(); ++row) {
    const auto i = static_cast<size_t>(row);
    if (table.labels.empty()) {
      hash.update(std::as_bytes(std::span(&table.scores[i], 1)));
    } else {
      hash.update(std::as_bytes(std::span(&table.labels[i], 1)));
    }
    for (int s = 0; s < table.sentences; ++s) {
      hash.update(bytes_of(table.sentence(row, s)));
      hash.update(bytes_of(std::string_view("", 1)));
    }
  }
  return hash.hex();
}

TEST(GlueTables, OfPublishedFilesEveryRowIsThatOfPlainSplitting) {
  const std::filesystem::path folder = test::shared_data("glue");
  if (folder.empty()) GTEST_SKIP() << "no real data beside the sources";
  const std::vector<std::byte> bytes = read_file(BOCHNER_SOURCE_DIR "/tests/golden/glue.json");
  std::map<std::string, nlohmann::json> golden;
  for (const auto& file : nlohmann::json::parse(text_of(bytes))) golden[file.at("file").get<std::string>()] = file;
  size_t compared = 0;
  for (const Corpus& corpus : glue::corpora()) {
    std::vector<FileLayout> files = corpus.dev;
    for (const glue::TestSet& test : corpus.test) files.push_back(test.file);
    if (!corpus.train.name.empty()) files.push_back(corpus.train);
    for (const FileLayout& layout : files) {
      if (!glue::is_there(folder, corpus, layout, {.partial = true})) continue;
      std::string said;
      const Table table =
          glue::read(folder, corpus, layout, {.partial = true}, [&](const std::string& line) { said = line; });
      // The part of the file's name before `.tsv`.
      const std::string name = std::filesystem::path(said.substr(0, said.find(".tsv"))).filename().string();
      const nlohmann::json& expected = golden.at(corpus.folder + "/" + name);
      EXPECT_EQ(table.size(), expected.at("rows").get<int64_t>()) << said;
      const bool is_whole = name == layout.name;
      EXPECT_TRUE(!is_whole || table.size() == layout.rows) << said;
      EXPECT_EQ(table.empty, expected.at("empty").get<int64_t>()) << said;
      EXPECT_EQ(table.left_out, 0) << said;
      EXPECT_EQ(digest(table), expected.at("sha256").get<std::string>()) << said;
      ++compared;
    }
  }
  EXPECT_GT(compared, 0U);
  EXPECT_TRUE(test::chosen_data.has_value() || compared == golden.size());
}

}  // namespace
}  // namespace bochner
