// The page that shows runs: its sentence, tables and curves.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <regex>
#include <set>

#include "engine/error.h"
#include "experiments/common/report/chart.h"
#include "experiments/common/report/headline.h"
#include "experiments/common/report/learning_curves.h"
#include "experiments/common/report/report.h"
#include "experiments/common/report/results_table.h"
#include "experiments/common/report/runs_shown.h"
#include "experiments/common/report/spread.h"
#include "experiments/common/run/paper.h"

namespace bochner {
namespace {

/// Runs of one mechanism with the seeds 1, 2, ... and these test accuracies, after 600 steps.
void add_runs(std::vector<RunRecord>& runs, const std::string& attention, const std::vector<double>& accuracies) {
  uint64_t seed = 0;
  for (const double accuracy : accuracies) {
    RunRecord& run = runs.emplace_back();
    run.experiment = "lra";
    run.task = "listops";
    run.attention = attention;
    run.seed = ++seed;
    run.result.steps = 600;
    run.result.test = run.result.test_last = {{"loss", 1.5}, {"accuracy", accuracy}};
    run.result.baselines = {{"majority class", {{"accuracy", 0.147}}}, {"a coin", {{"accuracy", 0.1}}}};
  }
}

TEST(Papers, NoNumberIsThatOfAnotherProtocol) {
  const PaperTable table = PaperTable::parse(
      "source,protocol,task,attention,metric,value,deviation\n\"A, Table 1\",a,text,softmax,accuracy,65.0,\n"
      "B,b,text,softmax,accuracy,61.0,0.5\n");
  ASSERT_EQ(table.numbers().size(), 2U);
  EXPECT_EQ(table.find("b", "text", "softmax")->value, 61.0);
  EXPECT_EQ(table.find("b", "text", "softmax")->deviation, 0.5);
  EXPECT_EQ(table.find("a", "text", "softmax")->source, "A, Table 1");
  EXPECT_EQ(table.find("c", "text", "softmax"), nullptr);
  EXPECT_EQ(table.find("a", "listops", "softmax"), nullptr);
  EXPECT_THROW(PaperTable::parse("source,protocol\n"), Error);
  EXPECT_TRUE(PaperTable::parse("").numbers().empty());
}

TEST(Chart, TicksAreRound) {
  EXPECT_EQ(round_ticks(0, 1, 5), (std::vector<double>{0, 0.2, 0.4, 0.6000000000000001, 0.8, 1}));
  EXPECT_EQ(round_ticks(3, 47, 5), (std::vector<double>{10, 20, 30, 40}));
  EXPECT_EQ(round_ticks(2, 2, 5), (std::vector<double>{2}));
  EXPECT_EQ(round_ticks(0.1, std::nextafter(0.1, 1), 5), (std::vector<double>{0.1}));
  const std::string flat = line_chart("flat", "step", {{"a", 0, false, {{0, 65.3}, {1, std::nextafter(65.3, 70)}}}});
  EXPECT_LT(flat.size(), 10000U);
}

TEST(Chart, LeavesOutWhatIsNotFiniteAndStaysSmall) {
  Curve curve{"a<b", 0, false, {}};
  for (int i = 0; i < 100000; ++i) curve.points.emplace_back(i, i % 10 == 0 ? NAN : 1.0);
  const std::string svg = line_chart("loss & more", "step", {curve});
  EXPECT_LT(svg.size(), 60000U);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_NE(svg.find("a&lt;b"), std::string::npos);
  EXPECT_NE(svg.find("loss &amp; more"), std::string::npos);
  EXPECT_EQ(line_chart("empty", "step", {{"none", 0, false, {}}}).find("polyline"), std::string::npos);
}

TEST(Report, ShowsRunsSideBySideFromNothingOutside) {
  std::vector<RunRecord> runs(2);
  for (size_t i = 0; i < 2; ++i) {
    runs[i].task = "text";
    runs[i].protocol = "paper";
    runs[i].attention = i == 0 ? "softmax" : "performer";
    runs[i].config = "task = <script>\n";
    runs[i].result.test = {{"accuracy", 0.5 + 0.1 * static_cast<double>(i)}};
    runs[i].result.test_last = {{"accuracy", 0.4}};
    runs[i].curves = {
        {1, "train", {{"loss", 2}}}, {2, "train", {{"loss", 1}}}, {2, "valid", {{"loss", 1.5}, {"accuracy", 0.4}}}};
  }
  runs[1].overrides = {{"steps", "7"}};
  const PaperTable papers = PaperTable::parse(
      "source,protocol,task,attention,metric,value,deviation\nA paper,paper,text,softmax,accuracy,65.2,0.3\n");
  const std::string html = report_html("Two runs", runs, papers);
  for (const char* part :
       {"50.00", "60.00", "40.00", "<td>65.2 ± 0.3</td><td class=\"words\">A paper</td>", "performer, valid",
        "softmax, train", "paper with steps = 7", "&lt;script&gt;", "prefers-color-scheme: dark"}) {
    EXPECT_NE(html.find(part), std::string::npos) << part;
  }
  for (const char* part : {"http:", "https:", "<script", "src=", "url("}) EXPECT_EQ(html.find(part), std::string::npos);
}

TEST(Spread, OfOneValueHasNoDeviation) {
  EXPECT_DOUBLE_EQ(spread_of({1, 2, 3, 4}).deviation, std::sqrt(5.0 / 3));
  EXPECT_EQ(spread_of({7}).deviation, 0);
  EXPECT_EQ(mean_text({1, 2, 3}), "2 ± 1 (3 runs)");
  EXPECT_EQ(mean_text({0.5}), "0.5 ± 0 (1 run)");
}

TEST(Spread, QuantilesLieBetweenTheValuesInProportion) {
  EXPECT_EQ(quantile({3, 1, 2}, 0.5), 2);
  EXPECT_DOUBLE_EQ(quantile({4, 1, 2, 3}, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile({10, 20}, 0.25), 12.5);
  EXPECT_EQ(quantile({5, 7, std::numeric_limits<double>::infinity()}, 0.5), 7);
  EXPECT_EQ(quantile({1, 5}, 1), 5);
  EXPECT_TRUE(std::isnan(quantile({}, 0.5)));
}

TEST(Headline, SaysWhatWasReachedAndWhatAGuessReaches) {
  std::vector<RunRecord> runs;
  add_runs(runs, "performer", {0.517});
  ASSERT_EQ(headlines(runs).size(), 1U);
  EXPECT_EQ(headlines(runs)[0].result, "performer 51.7 %; 14.7 % without learning (majority class)");
  EXPECT_EQ(headlines(runs)[0].meaning, "Test accuracy on listops after 600 steps, one seed.");
  add_runs(runs, "softmax", {0.571});
  EXPECT_EQ(headlines(runs)[0].result, "softmax 57.1 %, performer 51.7 %; 14.7 % without learning (majority class)");
  EXPECT_NE(headlines(runs)[0].meaning.find("one seed each. With a single seed"), std::string::npos);
}

TEST(Headline, CallsLevelWhatDiffersByLessThanOneDeviation) {
  std::vector<RunRecord> runs;
  add_runs(runs, "a", {0.50, 0.52});  // 51.0 ± 1.4
  add_runs(runs, "b", {0.50, 0.50});
  EXPECT_EQ(headlines(runs)[0].meaning,
            "Test accuracy on listops after 600 steps, mean ± deviation of 2 seeds. a and b are level: they differ by "
            "less than one deviation.");
  add_runs(runs, "c", {0.40, 0.42});
  EXPECT_NE(headlines(runs)[0].meaning.find(" a is ahead of c by at least one deviation; b is level with it."),
            std::string::npos)
      << headlines(runs)[0].meaning;
}

TEST(Headline, CallsEqualsLevelAndOrdersNumbersAlone) {
  std::vector<RunRecord> runs;
  add_runs(runs, "a", {0.5, 0.5});
  add_runs(runs, "b", {0.5, 0.5});
  EXPECT_NE(headlines(runs)[0].meaning.find(" a and b are level"), std::string::npos) << headlines(runs)[0].meaning;
  std::vector<RunRecord> with_nan;
  add_runs(with_nan, "a", {NAN, NAN});
  add_runs(with_nan, "b", {0.5, 0.5});
  EXPECT_TRUE(headlines(with_nan)[0].result.starts_with("b 50.0 ± 0.0 %, a nan")) << headlines(with_nan)[0].result;
  EXPECT_NE(headlines(with_nan)[0].meaning.find(" Not all results are numbers"), std::string::npos);
  std::vector<RunRecord> nothing;
  add_runs(nothing, "a", {NAN});
  EXPECT_NE(headlines(nothing)[0].meaning.find(" Nothing here is better"), std::string::npos);
}

TEST(Headline, SaysThatNothingWasLearnt) {
  std::vector<RunRecord> runs;
  add_runs(runs, "a", {0.147});
  EXPECT_NE(headlines(runs)[0].meaning.find("Nothing here is better"), std::string::npos);
}

TEST(Headline, WhatNeedsNoLearningIsAMeanOverSeedsToo) {
  std::vector<RunRecord> runs;
  add_runs(runs, "a", {0.13, 0.14, 0.15});
  for (size_t i = 0; i < 3; ++i)
    runs[i].result.baselines = {{"unigram", {{"accuracy", 0.11 + 0.02 * static_cast<double>(i)}}}};
  EXPECT_EQ(headlines(runs)[0].result, "a 14.0 ± 1.0 %; 13.0 % without learning (unigram)");
  EXPECT_EQ(headlines(runs)[0].meaning.find("Nothing here is better"), std::string::npos);
  const Table table = results_table(runs, {});
  ASSERT_EQ(table.rows.size(), 5U);  // three seeds, their mean, and what needs no learning
  EXPECT_EQ(table.rows[4][1], "13.00");
  runs[2].result.baselines = runs[1].result.baselines = runs[0].result.baselines;
  EXPECT_EQ(baselines_of(runs)[0].test, runs[0].result.baselines[0].test);  // for equal values, exactly the same
}

TEST(Headline, OfALossTheSmallestIsBestAndEachTaskHasItsOwn) {
  std::vector<RunRecord> runs(3);
  for (size_t i = 0; i < 3; ++i) {
    runs[i].task = i == 2 ? "second" : "first";
    runs[i].attention = i == 0 ? "a" : "b";
    runs[i].result.test = {{"loss", 2 - static_cast<double>(i)}};
  }
  ASSERT_EQ(headlines(runs).size(), 2U);
  EXPECT_EQ(headlines(runs)[0].result, "b 1, a 2");
  EXPECT_EQ(headlines(runs)[1].result, "b 0");
  runs[2].result.test = {};
  EXPECT_EQ(headlines(runs).size(), 1U);
}

TEST(ResultsTable, HasThePapersNumberBesideTheAccuracyAndNoColumnWithoutNews) {
  std::vector<RunRecord> runs;
  add_runs(runs, "softmax", {0.5, 0.6});
  for (RunRecord& run : runs) run.protocol = "paper";
  const PaperTable papers = PaperTable::parse(
      "source,protocol,task,attention,metric,value,deviation\nA paper,paper,listops,softmax,accuracy,65.2,\n");
  Table table = results_table(runs, papers);
  EXPECT_EQ(table.head, (std::vector<std::string>{"", "test accuracy %", "paper", "source", "test loss"}));
  EXPECT_EQ(table.rows[2], (std::vector<std::string>{"softmax, mean of 2", "55.00 ± 7.07", "65.2", "A paper", "1.5"}));
  EXPECT_EQ(table.rows[3], (std::vector<std::string>{"majority class", "14.70", "", "", "–"}));
  runs[0].protocol = runs[1].protocol = "quick";
  EXPECT_EQ(results_table(runs, papers).head, (std::vector<std::string>{"", "test accuracy %", "test loss"}));
  runs[0].result.test_last[1].second = 0.4;
  EXPECT_EQ(results_table(runs, {}).head, (std::vector<std::string>{"", "test accuracy %", "last step", "test loss"}));
}

TEST(ResultsTable, FitsATerminal) {
  std::vector<RunRecord> runs;
  add_runs(runs, "performer", {0.5, 0.6});
  add_runs(runs, "nystromformer", {0.5, 0.6});
  std::istringstream text(results_text(runs));
  for (std::string line; std::getline(text, line) && !line.empty();) EXPECT_LE(line.size(), 84U) << line;
}

TEST(DerivedTable, HasWhatWasMeasuredBesideTheMetrics) {
  std::vector<RunRecord> runs;
  add_runs(runs, "softmax", {0.5, 0.6});
  EXPECT_TRUE(derived_table(runs).rows.empty());
  EXPECT_EQ(report_html("", runs, {}).find("Also measured"), std::string::npos);
  for (RunRecord& run : runs) run.derived = {{"bundled-bytes", 3 << 20}, {"milliseconds", run.seed == 1 ? 1.5 : 2.5}};
  const Table one = derived_table(runs);
  EXPECT_EQ(one.head, (std::vector<std::string>{"also measured", "value"}));
  EXPECT_EQ(one.rows[0], (std::vector<std::string>{"bundled-bytes", "3.0 MiB"}));
  EXPECT_EQ(one.rows[1], (std::vector<std::string>{"milliseconds", "2 ± 0.71"}));
  runs[0].derived[1].second = runs[1].derived[1].second = 52543;
  EXPECT_EQ(derived_table(runs).rows[1][1], "52543");
  add_runs(runs, "performer", {0.4});
  runs.back().derived = {{"bundled-bytes", 2048}};
  const Table two = derived_table(runs);
  EXPECT_EQ(two.head, (std::vector<std::string>{"also measured", "softmax", "performer"}));
  EXPECT_EQ(two.rows[0], (std::vector<std::string>{"bundled-bytes", "3.0 MiB", "2.0 KiB"}));
  EXPECT_EQ(two.rows[1][2], "–");
  EXPECT_NE(report_html("", runs, {}).find("<h2>Also measured</h2>"), std::string::npos);
  EXPECT_NE(results_text(runs).find("also measured"), std::string::npos);
}

TEST(ReportedTable, LeavesOutColumnsThatSayTheSame) {
  std::vector<RunRecord> runs;
  add_runs(runs, "softmax", {0.5});
  const std::string head = "source,protocol,task,attention,metric,value,deviation\n";
  const std::string one = "A,kl,listops,softmax,accuracy,65.2,0.1\n";
  EXPECT_EQ(reported_table(runs, PaperTable::parse(head + one + "B,kl,listops,local,accuracy,3,\n")).head,
            (std::vector<std::string>{"attention", "value", "source"}));
  EXPECT_EQ(reported_table(runs, PaperTable::parse(head + one + "B,sky,listops,local,accuracy,3,\n")).rows[0],
            (std::vector<std::string>{"softmax", "65.2 ± 0.1", "kl", "A"}));
  EXPECT_TRUE(reported_table(runs, PaperTable::parse(head + "A,kl,text,softmax,accuracy,65.2,\n")).rows.empty());
}

TEST(Table, AlignsWordsLeftAndNumbersRight) {
  const Table table{{"name", "n", "words"}, {{"a", "–", "±"}, {"b", "12", "two words"}, {"c", "3", ""}}};
  EXPECT_EQ(table.text(), "name   n  words\na      –  ±\nb     12  two words\nc      3\n");
}

TEST(Table, BreaksLinesOfWordsAlone) {
  const std::string html = Table{{"", "n", "words"}, {{"a", "–", "see b"}, {"c", "-1", ""}}}.html();
  EXPECT_NE(html.find("<td>a</td><td>–</td><td class=\"words\">see b</td>"), std::string::npos) << html;
}

TEST(Chart, LabelsOfTicksStayInThePicture) {
  const std::regex label("text-anchor=\"(end|middle)\" x=\"([-0-9.]+)\" y=\"[-0-9.]+\">([^<]*)<");
  for (const double scale : {1e-5, 1.0, 123456.0, 1e12}) {
    const std::string svg = line_chart("t", "step", {{"a", 0, false, {{0, scale}, {1e6, 1.001 * scale}}}});
    int labels = 0;
    for (std::sregex_iterator i(svg.begin(), svg.end(), label), end; i != end; ++i, ++labels) {
      const double x = std::stod((*i)[2]);
      const double width = 6.5 * static_cast<double>((*i)[3].length());
      const bool centred = (*i)[1] == "middle";
      EXPECT_GE(x - (centred ? width / 2 : width), 0) << (*i)[3];
      EXPECT_LE(x + (centred ? width / 2 : 0), 640) << (*i)[3];
    }
    EXPECT_GE(labels, 8);
  }
}

TEST(Chart, TicksCloseTogetherHaveLabelsOfTheirOwn) {
  const std::string svg = line_chart("t", "step", {{"a", 0, false, {{0, 1000000.1}, {1, 1000000.5}}}});
  EXPECT_NE(svg.find(">1000000.2<"), std::string::npos) << svg;
}

TEST(Chart, CurvesAreToldApartWithoutColours) {
  const std::regex colour("var\\(--c[0-7]\\)");
  const std::regex mark("<path class=\"mark\" (style=\"[^\"]*\") d=\"M[-0-9.]+ [-0-9.]+([^\"]*)\"");
  std::set<std::string> shapes;
  std::set<std::string> with_colours;
  for (int i = 0; i < 16; ++i) {
    const std::string svg = line_chart("t", "step", {{"a", i, false, {{0, 1}}}});  // a single point is also shown
    std::smatch found;
    ASSERT_TRUE(std::regex_search(svg, found, mark)) << svg;
    if (i < 8) shapes.insert(found[2]);
    with_colours.insert(found[1].str() + found[2].str());
  }
  EXPECT_EQ(shapes.size(), 8U);
  EXPECT_EQ(with_colours.size(), 16U);
}

TEST(Chart, TheLegendHasEachLabelOnce) {
  const std::string svg = line_chart("t", "step", {{"twice", 0, false, {{0, 1}}}, {"twice", 0, false, {{0, 2}}}});
  EXPECT_EQ(svg.find("twice"), svg.rfind("twice"));
}

TEST(LearningCurves, AccuracyStandsFirstAgainstStepsAndAgainstTime) {
  std::vector<RunRecord> runs;
  add_runs(runs, "softmax", {0.5, 0.6});
  for (RunRecord& run : runs) {
    run.result.train_seconds = 400;
    run.curves = {{50, "train", {{"loss", 2}, {"seconds", 100}}},
                  {75, "valid", {{"loss", 1.5}, {"accuracy", 0.4}}},
                  {100, "train", {{"loss", 1}, {"seconds", 400}}}};
  }
  EXPECT_EQ(TrainingTimes(runs[0]).at(25), 50);
  EXPECT_EQ(TrainingTimes(runs[0]).at(75), 250);
  EXPECT_EQ(TrainingTimes(runs[0]).at(100), 400);
  EXPECT_EQ(TrainingTimes(runs[0]).at(101), std::nullopt);
  const std::string html = learning_curves(runs);
  const size_t steps = html.find(">accuracy % against steps<");
  const size_t time = html.find(">accuracy % against time<");
  EXPECT_LT(steps, time);
  const size_t losses = html.find(">loss against steps<");
  EXPECT_LT(time, losses);
  EXPECT_LT(losses, html.find(">loss against time<"));
  EXPECT_NE(html.find(">loss against time<"), std::string::npos);
  EXPECT_NE(html.find("minutes of training"), std::string::npos);
  EXPECT_NE(html.find(">valid</text>"), std::string::npos);   // one mechanism needs no name, and its seeds one entry
  EXPECT_EQ(html.find("against memory"), std::string::npos);  // nothing to compare
}

/// The positions of the marks in the chart with this title, without those of its legend.
std::vector<std::pair<double, double>> marks_in(const std::string& html, const std::string& title) {
  const size_t begin = html.find(">" + title + "<");
  if (begin == std::string::npos) return {};
  const std::string svg = html.substr(begin, html.find("</svg>", begin) - begin);
  const std::regex mark("<path class=\"mark\" style=\"[^\"]*\" d=\"M([-0-9.]+) ([-0-9.]+)[^\"]*\"/>(<text)?");
  std::vector<std::pair<double, double>> marks;
  for (std::sregex_iterator i(svg.begin(), svg.end(), mark), end; i != end; ++i) {
    if (!(*i)[3].matched) marks.emplace_back(std::stod((*i)[1]), std::stod((*i)[2]));
  }
  return marks;
}

TEST(LearningCurves, TheTestStandsAgainstMemoryAndSpeedAPointForEachRun) {
  std::vector<RunRecord> runs;
  add_runs(runs, "softmax", {0.6, 0.7});
  add_runs(runs, "performer", {0.5});
  for (size_t i = 0; i < runs.size(); ++i) {
    runs[i].result.peak_memory_bytes = i < 2 ? 300 << 20 : 100 << 20;
    runs[i].result.train_seconds = 10;
    runs[i].result.samples = i < 2 ? 100 : 400;
  }
  const std::string html = learning_curves(runs);
  const auto memory = marks_in(html, "test accuracy % against memory");
  ASSERT_EQ(memory.size(), 3U) << html;
  EXPECT_EQ(memory[0].first, memory[1].first);
  EXPECT_GT(memory[0].first, memory[2].first);    // more memory to the right
  EXPECT_GT(memory[0].second, memory[1].second);  // a better one is higher
  EXPECT_GT(memory[2].second, memory[0].second);
  const auto speed = marks_in(html, "test accuracy % against speed");
  ASSERT_EQ(speed.size(), 3U);
  EXPECT_LT(speed[0].first, speed[2].first);
  EXPECT_EQ(html.find("polyline"), std::string::npos);  // points of several runs do not form a line
  EXPECT_NE(html.find(">MiB at the peak of the run<"), std::string::npos);
  runs[2].result.peak_memory_bytes = 0;  // not measured
  EXPECT_EQ(marks_in(learning_curves(runs), "test accuracy % against memory").size(), 2U);
}

}  // namespace
}  // namespace bochner
