#include "lithe/report/run_report.h"

#include <cmath>

#include <gtest/gtest.h>

#include "lithe/base/error.h"
#include "lithe/report/run_record.h"
#include "tests/support/process.h"
#include "tests/support/text.h"

namespace lithe {
namespace {

using kit::contains;

std::string tile(const std::string& label, const std::string& value, const std::string& detail) {
  return "<dt>" + label + "</dt><dd class=\"number\">" + value + "</dd>" +
         (detail.empty() ? "" : "<dd class=\"more\">" + detail + "</dd>");
}

class RunReport : public testing::Test {
 protected:
  void put(const std::string& name, const std::string& text) { append_file(directory_ / name, text); }
  report::RunRecord record() { return report::read_run_record(directory_); }
  const kit::Scratch scratch_;
  const Path& directory_ = scratch_.path();
};

TEST_F(RunReport, LossByPositionIsAChartAndDamagedOnesAreNamed) {
  put("metrics.jsonl", "{\"step\":1,\"loss\":2.0}\n");
  EXPECT_FALSE(contains(run_report(directory_), "Loss by position"));
  put("loss_by_position.json",
      R"({"trained_length":1024,"context_length":16384,"positions":[{"from":0,"to":8,"tokens":9,"loss":3.5},{"from":8,"to":12,"tokens":9,"loss":3.0}]})");
  const std::string html = run_report(directory_);
  EXPECT_TRUE(contains(html, "Loss by position"));
  EXPECT_TRUE(contains(html, "measured in windows of 16,384"));
  const report::RunRecord good = record();
  ASSERT_TRUE(good.by_position);
  EXPECT_EQ(good.by_position->position, (std::vector<double>{4, 10}));
  EXPECT_TRUE(good.damaged.empty());
  put("loss_by_position.json", "x");
  EXPECT_EQ(record().damaged.size(), 1u);
}

TEST_F(RunReport, ATasksScoresStandBesideTrivialMethods) {
  put("metrics.jsonl", "{\"step\":1,\"loss\":2.0}\n");
  EXPECT_FALSE(contains(run_report(directory_), "Test examples"));
  put("task_report.json",
      R"({"part":"test","weights":"best","examples":3,"metrics":["accuracy","f1"],"accuracy":0.6667,"f1":null,
          "baselines":{"majority":{"accuracy":0.5,"f1":0.1}},
          "classes":[{"class":"<no>","precision":1,"recall":0.5,"f1":0.6667,"examples":2},
                     {"class":"yes","precision":0.5,"recall":1,"f1":0.6667,"examples":1}],
          "confusion":[[1,1],[0,1]],"warnings":["the model is worse than chance"],
          "errors":[{"text":"a <b> film","label":"<no>","predicted":"yes","probability":0.75}]})");
  const std::string html = run_report(directory_);
  for (const char* text : {"Test examples", "majority", "0.6667", "&lt;no&gt;", "a &lt;b&gt; film", "Confusion",
                           "the model is worse than chance", "Wrong answers"})
    EXPECT_TRUE(contains(html, text)) << text;
  EXPECT_TRUE(record().damaged.empty());
  put("task_report.json", "x");
  EXPECT_EQ(record().damaged.size(), 1u);
  EXPECT_FALSE(record().task);
}

TEST_F(RunReport, AWholeRunHasItsNumbersInTheTiles) {
  for (int step = 1; step <= 100; ++step) {
    put("metrics.jsonl", cat("{\"step\":", step, ",\"tokens\":", step * 8192, ",\"epoch\":", step / 50.0,
                             ",\"loss\":", 9.0 - step * 0.05, ",\"learning_rate\":0.0006,\"grad_norm\":0.5}\n"));
    put("speed.jsonl", cat("{\"step\":", step, ",\"tokens_per_second\":", 20000 + step,
                           ",\"step_seconds\":0.4,\"elapsed_seconds\":", step * 0.4, "}\n"));
  }
  put("metrics.jsonl",
      "{\"step\":50,\"eval_loss\":4.0,\"eval_perplexity\":54.6,\"eval_bits_per_byte\":1.5,\"best\":true}\n"
      "{\"step\":100,\"eval_loss\":4.25,\"eval_perplexity\":70.1,\"eval_bits_per_byte\":1.6,\"best\":false}\n");
  put("samples.jsonl",
      "{\"step\":50,\"prompt\":\"Once\",\"text\":\" the the\"}\n{\"step\":100,\"prompt\":\"Once\",\"text\":\"Once upon "
      "a time\"}\n");
  put("memory.json",
      R"({"planned":{"weights":1048576,"gradients":1048576,"optimizer":2097152,"activations":4194304,"decode":0,"workspace":0,"peak":8388608},
                         "measured":{"weights":1048576,"gradients":1048576,"optimizer":2097152,"activations":4194304,"decode":0,"workspace":1024,"peak":8389632}})");
  put("plan.json",
      R"({"parameters":262144,"parts":[{"part":"embedding","parameters":65536,"forward_flops":0,"activation_bytes":1024},
                       {"part":"layers.ffn","parameters":196608,"forward_flops":4e9,"activation_bytes":3072}]})");
  put("environment.json", R"({"version":"0.1.0","cpu":"a <fast> one","threads":"2"})");
  put("resolved_recipe.yaml", "model:\n  hidden_size: 64\n");
  put("result.json",
      R"({"status":"finished","steps":100,"final_loss":4.0,"best_eval_loss":4.0,"best_step":50,"seconds":252,"message":""})");
  const std::string html = run_report(directory_);
  const std::string space = "\xC2\xA0";
  EXPECT_TRUE(contains(html, tile("Status", "finished", "step 100")));
  EXPECT_TRUE(contains(html, tile("Best validation loss", "4", "step 50")));
  EXPECT_TRUE(contains(html, tile("Best perplexity", "54.6", "1.5 bits per byte")));
  EXPECT_TRUE(contains(html, tile("Final validation loss", "4.25", "perplexity 70.1")));
  EXPECT_TRUE(contains(html, tile("Parameters", "262" + space + "k", "262,144")));
  EXPECT_TRUE(contains(html, tile("Tokens seen", "819" + space + "k", "2 epochs")));
  EXPECT_TRUE(contains(html, tile("Tokens per second", "20,051", "median; 400" + space + "ms a step")));
  EXPECT_TRUE(contains(html, tile("Peak memory", "8" + space + "MiB", "measured")));
  EXPECT_TRUE(contains(html, tile("Duration", "4" + space + "min 12" + space + "s", "")));
  EXPECT_TRUE(contains(html,
                       "<td class=\"text\">layers.ffn</td><td class=\"n\" data-sort=\"196608\">196,608</td><td "
                       "class=\"n share bar\" data-sort=\"0.75\""));
  EXPECT_TRUE(contains(html, "a &lt;fast&gt; one"));
  EXPECT_TRUE(contains(html, "hidden_size: 64"));
  EXPECT_TRUE(contains(html, "<span class=\"prompt\">Once</span> upon a time"));  // the prompt is not shown twice
  EXPECT_LT(html.find("Step 100, validation loss 4.25"), html.find("Step 50, validation loss 4<"));
  EXPECT_FALSE(contains(html, "damaged"));
  EXPECT_FALSE(contains(html, "Not recorded"));
  EXPECT_EQ(html, run_report(directory_));
}

TEST_F(RunReport, LossSpikesAreMarkedWhereTheyWereAndWhereTheRunWentBackTo) {
  for (int step = 1; step <= 40; ++step) put("metrics.jsonl", cat("{\"step\":", step, ",\"loss\":", 2.0, "}\n"));
  EXPECT_FALSE(contains(run_report(directory_), "spike"));
  put("metrics.jsonl",
      "{\"step\":40,\"spike\":{\"step\":47,\"loss\":9.5,\"limit\":2.75,\"first_micro_batch\":92,"
      "\"last_micro_batch\":93}}\n");
  for (int step = 41; step <= 50; ++step) put("metrics.jsonl", cat("{\"step\":", step, ",\"loss\":", 1.5, "}\n"));
  const report::RunRecord run = record();
  ASSERT_EQ(run.spikes.size(), 1u);
  EXPECT_EQ(run.spikes[0].step, 47);
  EXPECT_EQ(run.spikes[0].limit, 2.75);
  EXPECT_EQ(run.spikes[0].back_to, 40);
  EXPECT_EQ(run.training.step.size(), 50u);
  EXPECT_TRUE(run.damaged.empty());
  const std::string html = run_report(directory_);
  EXPECT_TRUE(contains(html, tile("Loss spikes", "1", "taken back, their batches left out")));
  EXPECT_TRUE(contains(html, "<title>loss spike at step 47: 9.5, above 2.75; back to step 40</title>"));
  EXPECT_TRUE(contains(html, "loss spike, taken back</text>"));
  EXPECT_TRUE(contains(html, "92–93"));
}

TEST_F(RunReport, PartsThatShowThemselvesHaveChartsAndNumbers) {
  for (int step = 1; step <= 3; ++step)
    put("metrics.jsonl",
        cat("{\"step\":", step * 10, ",\"loss\":2.0,\"statistics\":{\"expert_load\":{\"1\":[0.5,0.3,0.2],",
            "\"10\":[0.6,0.2,0.2],\"2\":[0.125,0.375,0.5]},\"router_entropy\":{\"1\":[1.0625]}}}\n"));
  // A resumed run writes its steps again.
  put("metrics.jsonl",
      "{\"step\":30,\"loss\":2.0,\"statistics\":{\"router_entropy\":{\"1\":[0.75],\"x\":[1],\"2\":3}}}\n");
  const report::RunRecord run = record();
  ASSERT_EQ(run.statistics.size(), 4u);
  EXPECT_EQ(run.statistics[1].layer, 2);  // not in the order of the text
  EXPECT_EQ(run.statistics[2].layer, 10);
  EXPECT_EQ(run.statistics[3].name, "router_entropy");
  EXPECT_EQ(run.statistics[3].step, (std::vector<double>{10, 20, 30}));
  EXPECT_EQ(run.statistics[3].values[2], (std::vector<double>{0.75}));
  const std::string html = run_report(directory_);
  EXPECT_TRUE(contains(html, "Inside the parts"));
  EXPECT_TRUE(contains(html, "Expert load, highest"));
  EXPECT_TRUE(contains(html, "Expert load, layer 10"));
  EXPECT_TRUE(contains(html, "Router entropy at the last logged step"));
  EXPECT_TRUE(contains(html, ">0.375<"));
  EXPECT_TRUE(contains(html, ">0.75<"));
}

TEST_F(RunReport, ASmoothedLossEndsAtOneValueOnAllCharts) {
  for (int step = 1; step <= 600; ++step)
    put("metrics.jsonl", cat("{\"step\":", step, ",\"loss\":", 7.0 - step * 0.0051 + (step * 7 % 11) * 0.1037, "}\n"));
  const std::string html = run_report(directory_), mark = "class=\"value s0\"";
  std::vector<std::string> ends;
  for (size_t at = html.find(mark); at != std::string::npos; at = html.find(mark, at + 1)) {
    const size_t from = html.find('>', at) + 1;
    ends.push_back(html.substr(from, html.find('<', from) - from));
  }
  ASSERT_EQ(ends.size(), 4u);  // of all steps and of the second half, in two widths
  for (const std::string& end : ends) EXPECT_EQ(end, ends[0]);
}

TEST_F(RunReport, WritesReportHtml) {
  put("metrics.jsonl", "{\"step\":1,\"loss\":2.5}\n");
  write_run_report(directory_);
  EXPECT_EQ(read_file(directory_ / "report.html"), run_report(directory_));
}

TEST_F(RunReport, EmptyMetricsAndOnePoint) {
  put("metrics.jsonl", "");
  EXPECT_TRUE(contains(run_report(directory_), "There are no losses yet."));
  EXPECT_TRUE(contains(run_report(directory_), "Not recorded in this directory"));
  put("metrics.jsonl", "{\"step\":1,\"tokens\":8,\"epoch\":0,\"loss\":2.5,\"learning_rate\":0,\"grad_norm\":1}\n");
  const std::string html = run_report(directory_);
  EXPECT_TRUE(contains(html, tile("Final training loss", "2.5", "no validation in this run")));
  EXPECT_TRUE(contains(html, "h0\""));
}

TEST_F(RunReport, ValuesThatAreNotFiniteAreReadInEverySpelling) {
  put("metrics.jsonl",
      "{\"step\":1,\"loss\":2}\n{\"step\":2,\"loss\":null}\n{\"step\":3,\"loss\":NaN}\n{\"step\":4,\"loss\":"
      "\"Infinity\"}\n{\"step\":5,\"loss\":-Infinity}\n"
      "{\"step\":6,\"eval_loss\":NaN,\"eval_perplexity\":Infinity,\"best\":false}\n");
  const report::RunRecord run = record();
  ASSERT_EQ(run.training.loss.size(), 5u);
  EXPECT_EQ(run.training.loss[0], 2);
  EXPECT_TRUE(std::isnan(run.training.loss[1]) && std::isnan(run.training.loss[2]));
  EXPECT_TRUE(std::isinf(run.training.loss[3]) && run.training.loss[4] < 0);
  EXPECT_TRUE(run.damaged.empty());
  EXPECT_TRUE(contains(run_report(directory_), "5 values not finite"));
}

TEST_F(RunReport, DamagedLinesAreCountedAndLeftOut) {
  put("metrics.jsonl",
      "{\"step\":1,\"loss\":2}\n\n[1,2]\n{\"step\":\"two\",\"loss\":1}\n{\"loss\":1}\n{\"step\":3}\n{\"step\":4,"
      "\"loss\":[1]}\n\xFF\xFE\n"
      "{\"step\":5,\"loss\":1,\"extra\":{\"a\":[1,{}]}}\n{\"step\":6,\"lo");
  const report::RunRecord run = record();
  EXPECT_EQ(run.training.step, (std::vector<double>{1, 5}));
  ASSERT_EQ(run.damaged.size(), 1u);
  EXPECT_EQ(run.damaged[0], "metrics.jsonl: 7 of 10 lines cannot be read and are left out, the first is line 3");
  EXPECT_TRUE(contains(run_report(directory_), "7 of 10 lines"));
}

TEST_F(RunReport, ATornLastLineIsNamedAsSuch) {
  put("metrics.jsonl", "{\"step\":1,\"loss\":2}\n{\"step\":2,\"lo");
  ASSERT_EQ(record().damaged.size(), 1u);
  EXPECT_EQ(record().damaged[0],
            "metrics.jsonl: the last line is incomplete, as a run in progress or a kill leaves it");
}

TEST_F(RunReport, RepeatedStepsOfAResumedRunReplaceEarlierOnes) {
  put("metrics.jsonl",
      "{\"step\":1,\"loss\":5}\n{\"step\":2,\"loss\":4}\n{\"step\":2,\"eval_loss\":4.5}\n{\"step\":3,\"loss\":3}\n"
      "{\"step\":2,\"loss\":4.1}\n{\"step\":2,\"eval_loss\":4.6}\n{\"step\":3,\"loss\":3.1}\n");
  put("speed.jsonl",
      "{\"step\":1,\"elapsed_seconds\":10}\n{\"step\":2,\"elapsed_seconds\":20}\n{\"step\":3,\"elapsed_seconds\":4}\n");
  const report::RunRecord run = record();
  EXPECT_EQ(run.training.step, (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(run.training.loss, (std::vector<double>{5, 4.1, 3.1}));
  ASSERT_EQ(run.evaluations.size(), 1u);
  EXPECT_EQ(run.evaluations[0].loss, 4.6);
  EXPECT_TRUE(contains(run_report(directory_), tile("Duration", "24\xC2\xA0s", "")));  // the clock started again
}

TEST_F(RunReport, DamagedDocumentsAreNamedAndTheRestIsShown) {
  put("metrics.jsonl", "{\"step\":1,\"loss\":2.5}\n");
  put("memory.json", "{");
  put("plan.json", "[1]");
  put("environment.json", "{\"a\":" + std::string(100000, '[') + "}");
  put("result.json", "\xFF");
  make_directory(directory_ / "resolved_recipe.yaml");
  put("samples.jsonl", "{\"step\":1,\"prompt\":\"p\",\"text\":\"bro\xFFken <script>\"}\n{\"step\":1,\"text\":3}\n");
  const std::string html = run_report(directory_);
  for (const char* file :
       {"memory.json", "plan.json", "environment.json", "result.json", "resolved_recipe.yaml", "samples.jsonl"})
    EXPECT_TRUE(contains(html, file)) << file;
  EXPECT_EQ(record().damaged.size(), 6u);
  EXPECT_TRUE(contains(html, "bro\xEF\xBF\xBDken &lt;script&gt;"));
  EXPECT_TRUE(contains(html, tile("Final training loss", "2.5", "no validation in this run")));
}

TEST_F(RunReport, AMessageOfADivergedRunStandsOnThePage) {
  put("result.json",
      R"({"status":"diverged","steps":12,"message":"step 12: loss is not finite; lower train.learning_rate"})");
  const std::string html = run_report(directory_);
  EXPECT_TRUE(contains(html, "tile bad\"><dt>Status</dt><dd class=\"number\">diverged"));
  EXPECT_TRUE(contains(html, "step 12: loss is not finite; lower train.learning_rate"));
}

TEST_F(RunReport, AResultThatKnowsNothingYetDoesNotHideTheCurves) {
  put("metrics.jsonl", "{\"step\":20,\"loss\":2.5}\n");
  put("speed.jsonl", "{\"step\":20,\"tokens_per_second\":100,\"elapsed_seconds\":30}\n");
  put("result.json", R"({"status":"running","steps":0,"final_loss":0,"seconds":0})");
  const std::string html = run_report(directory_);
  EXPECT_TRUE(contains(html, tile("Status", "running", "step 20")));
  EXPECT_TRUE(contains(html, tile("Final training loss", "2.5", "no validation in this run")));
  EXPECT_TRUE(contains(html, tile("Duration", "30\xC2\xA0s", "")));
}

TEST_F(RunReport, OnlyRecordedCostsHaveColumns) {
  put("plan.json", R"({"parameters":5,"parts":[{"part":"a","parameters":5,"step_bytes":2048},{"part":"b"}]})");
  const std::string html = run_report(directory_);
  EXPECT_TRUE(contains(html, ">Step bytes</button>"));
  EXPECT_FALSE(contains(html, ">Activations</button>"));
  EXPECT_TRUE(
      contains(html, "<td class=\"text\">b</td><td class=\"n\">–</td><td class=\"n\">–</td><td class=\"n\">–</td>"));
}

TEST_F(RunReport, ThePeakIsMarkedOnlyWhereTheClassesDoNotAddUpToIt) {
  put("memory.json", R"({"planned":{"weights":1000,"activations":3000,"peak":4000}})");
  EXPECT_FALSE(contains(run_report(directory_), "<path class=\"marker\""));
  std::filesystem::remove(directory_ / "memory.json");
  put("memory.json", R"({"planned":{"weights":1000,"activations":3000,"peak":3500}})");
  EXPECT_TRUE(contains(run_report(directory_), "<path class=\"marker\""));
}

TEST_F(RunReport, ADirectoryThatIsNoRunIsAnError) {
  try {
    run_report(directory_);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_TRUE(contains(error.what(), directory_.string())) << error.what();
    EXPECT_TRUE(contains(error.what(), "metrics.jsonl")) << error.what();
  }
}

TEST_F(RunReport, ManySamplesAreThinnedWithTheLastAndTheFirstKept) {
  put("metrics.jsonl", "{\"step\":1,\"loss\":2.5}\n");
  std::string lines;
  for (int step = 1; step <= 500; ++step)
    lines += cat("{\"step\":", step, ",\"prompt\":\"p\",\"text\":\"t", step, "\"}\n");
  put("samples.jsonl", lines);
  const std::string html = run_report(directory_);
  EXPECT_TRUE(contains(html, "24 of 500 steps with samples"));
  EXPECT_TRUE(contains(html, "Step 500<") && contains(html, "Step 1<"));
}

TEST_F(RunReport, AHundredThousandLinesMakeASmallPage) {
  std::string lines;
  for (int step = 1; step <= 100000; ++step)
    lines +=
        cat("{\"step\":", step, ",\"tokens\":", step * int64_t(8192), ",\"epoch\":", step * 1e-4,
            ",\"loss\":", 3 + 1.0 / step, ",\"learning_rate\":0.0006,\"grad_norm\":", 0.5 + (step % 7) * 0.01, "}\n");
  put("metrics.jsonl", lines);
  EXPECT_LT(run_report(directory_).size(), 2000000u);
  EXPECT_EQ(record().training.step.size(), 100000u);
}

}  // namespace
}  // namespace lithe
