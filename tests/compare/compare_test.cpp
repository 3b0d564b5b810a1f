// What a comparison does from end to end: fairness, noise, continuation, and its files.
#include "lithe/compare/compare.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <set>
#include <thread>

#include "lithe/base/stop.h"
#include "lithe/data/synthetic.h"
#include "lithe/model/model.h"
#include "tests/compare/compare_kit.h"
#include "tests/support/text.h"

namespace lithe::compare {
namespace {

using kit::contains;

TEST(Compare, IdenticalVariantsHaveNoWinner) {
  const kit::CompareKit kit;
  const Comparison c = kit.run(kit::kTwins + "seeds: [1, 2, 3]\n" + kit::kSmallTiming);
  EXPECT_FALSE(c.winner);
  ASSERT_EQ(c.losses.size(), 1u);
  EXPECT_EQ(c.losses[0].both.value, 0);  // to the bit: same data, same order, same start
  EXPECT_EQ(c.losses[0].p, 1);
  EXPECT_FALSE(c.losses[0].beyond);
  EXPECT_TRUE(c.crossovers.empty());
  EXPECT_TRUE(contains(c.sentences[0], "No winner")) << c.sentences[0];
  EXPECT_TRUE(kit.json().at("winner").is_null());
}

// The largest quality differences name no winner when there is one seed: its noise is unknown.
TEST(Compare, OneSeedNamesNoWinner) {
  const kit::CompareKit kit;
  const Comparison c = kit.run("baseline: a\nvariants: {a: {}, b: {train.learning_rate: 1.0e-6}}\n" + kit::kNoTiming);
  EXPECT_FALSE(c.winner);
  ASSERT_EQ(c.losses.size(), 1u);
  EXPECT_FALSE(c.losses[0].beyond);
  EXPECT_TRUE(c.losses[0].beyond_text);
}

TEST(Compare, AClearDifferenceIsFound) {
  const kit::CompareKit kit;
  const Comparison c =
      kit.run("baseline: a\nvariants: {a: {}, b: {train.learning_rate: 1.0e-6}}\nseeds: [1, 2, 3]\n" + kit::kNoTiming);
  ASSERT_TRUE(c.winner);
  EXPECT_EQ(c.name(*c.winner), "a");
  EXPECT_LT(c.variants[1].prr, 100);
  EXPECT_EQ(c.variants[0].prr, 100);
  EXPECT_TRUE(std::isnan(c.variants[1].peop));  // equal parameters
  EXPECT_TRUE(std::any_of(c.sentences.begin(), c.sentences.end(), [](const std::string& s) {
    return contains(s, "degrees of freedom, after Holm's correction for 1 pair (3 seeds)");
  })) << c.sentences.back();
}

TEST(Compare, RefusesWhatDiffersUndeclared) {
  const kit::CompareKit kit;
  kit.recipe("other.yaml", ", norm: {type: layer}");
  const std::string keys = "baseline: a\nvariants: {a: {}, b: {recipe: other.yaml}}\n";
  const std::string why = kit.refusal(keys);
  EXPECT_TRUE(contains(why, "what differs must be declared, and this is not: model.norm.")) << why;
  EXPECT_TRUE(contains(why, "model.norm.type ('layer' in 'b', 'rms' in 'a')")) << why;
  EXPECT_EQ(kit.plan(keys + "declare: [model.norm]\n").variants.size(), 2u);
  EXPECT_TRUE(contains(kit.refusal(keys + "declare: [model.norm, model.hed]\n"), "declare names 'model.hed'"));
}

TEST(Compare, CountsAndTimesTheCacheOfAVariant) {
  const kit::CompareKit kit;
  const Comparison c = kit.run("baseline: a\nvariants: {a: {}, b: {generate.cache_dtype: int4}}\n" + kit::kSmallTiming);
  ASSERT_EQ(c.speed.cells.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    // A token has 2 * 4 heads of 4 numbers: of 4 bytes, or of 4 bits with two bf16 for each head.
    EXPECT_EQ(c.speed.costs[0][i].state_bytes % 128, 0);
    EXPECT_EQ(c.speed.costs[1][i].state_bytes * 128, c.speed.costs[0][i].state_bytes * 48);
    EXPECT_EQ(c.speed.costs[2][i].state_bytes, c.speed.costs[0][i].state_bytes);
  }
  for (size_t i = 0; i < c.cache_lengths.size(); ++i)
    EXPECT_EQ(c.variants[1].cache_bytes[i] * 128, c.variants[0].cache_bytes[i] * 48);
  // It is a difference, to be declared as others.
  ASSERT_EQ(c.variants[1].variant.changes.size(), 1u);
  EXPECT_EQ(c.variants[1].variant.changes[0].key, "generate.cache_dtype");
  write_file(kit.directory / "other.yaml",
             read_file(kit.directory / "base.yaml") + "generate: {cache_dtype: int8, max_new_tokens: 3}\n");
  const std::string keys = "baseline: a\nvariants: {a: {}, b: {recipe: other.yaml}}\n", why = kit.refusal(keys);
  EXPECT_TRUE(contains(why, "this is not: generate.cache_dtype ('int8' in 'b', unset in 'a');")) << why;
  EXPECT_NO_THROW(kit.plan(keys + "declare: [generate.cache_dtype]\n"));
}

TEST(Compare, RefusesOtherDataSeedsAndLimitsHoweverDeclared) {
  const kit::CompareKit kit;
  const auto with = [&](const std::string& change) {
    return kit.refusal("baseline: a\nvariants: {a: {}, b: {" + change + "}}\n");
  };
  EXPECT_TRUE(contains(with("data.sequence_length: 8"), "data.sequence_length must be the same"));
  EXPECT_TRUE(contains(with("train.seed: 7"), "name them as seeds: [1, 2]"));
  EXPECT_TRUE(contains(with("train.batch_tokens: 32"), "train.batch_tokens must be the same"));
  EXPECT_TRUE(contains(with("eval.stride: 4"), "eval.stride must be the same"));
  EXPECT_TRUE(contains(with("train.max_steps: 5"), "train.max_steps is given by the budget"));
  EXPECT_TRUE(contains(with("train.max_time: 5"), "ends a run by the clock"));
  EXPECT_TRUE(contains(with("model.hiden_size: 8"), "variant 'b'"));
  // Where something is written is no difference.
  EXPECT_NO_THROW(kit.plan("baseline: a\nvariants: {a: {}, b: {train.save_steps: 5}}\n"));
}

TEST(Compare, SharesInitialValuesWhereNamesAndShapesAgree) {
  const kit::CompareKit kit;
  const Comparison c = kit.plan(kit::kHeads);
  EXPECT_EQ(c.variants[0].start.shared, c.variants[0].start.all);
  EXPECT_GT(c.variants[1].start.shared, 0);
  EXPECT_LT(c.variants[1].start.shared, c.variants[1].start.all);
  std::vector<std::unique_ptr<Model>> models;
  for (const VariantResult& r : c.variants) {
    ModelConfig config = r.variant.recipe.model;
    config.vocab_size = 257;
    config.max_position_embeddings = 16;
    models.push_back(std::make_unique<Model>(config, ModelOptions{.seed = 9}));
  }
  for (size_t v = 1; v < models.size(); ++v) {
    int64_t same = 0;
    for (const Parameter& p : models[v]->parameters().all()) {
      const Parameter* base = models[0]->parameters().find(p.name);
      if (!base || base->master.value().shape() != p.master.value().shape()) continue;
      const Tensor &x = base->master.value(), &y = p.master.value();
      EXPECT_EQ(std::memcmp(x.data<float>(), y.data<float>(), size_t(x.bytes())), 0) << p.name;
      same += y.numel();
    }
    EXPECT_EQ(same, c.variants[v].start.shared);
  }
}

TEST(Compare, InterruptedAndContinuedHasTheSameNumbers) {
  const kit::CompareKit kit;
  const std::string keys = kit::kHeads + "seeds: [1, 2]\nset: {train.max_steps: 60}\n" + kit::kNoTiming;
  const Comparison whole = kit.run(keys, "whole");
  const Path watched = run_directory(kit.directory / "parts", "sha", 1) / "metrics.jsonl";
  std::atomic<bool> over = false;
  std::thread interrupter([&] {
    while (!over && !std::filesystem::exists(watched)) std::this_thread::yield();
    set_stop_signal(SIGINT);
  });
  const Comparison part = kit.run(keys, "parts");
  over = true;
  interrupter.join();
  set_stop_signal(0);
  EXPECT_EQ(part.status, Progress::stopped);
  EXPECT_FALSE(part.winner);
  EXPECT_EQ(kit.json("parts").at("status"), "stopped");
  const auto written = [&] {
    return std::filesystem::last_write_time(run_directory(kit.directory / "parts", "mha", 1) / "model.safetensors");
  };
  const auto before = written();
  const Comparison continued = kit.run(keys, "parts");
  EXPECT_EQ(continued.status, Progress::complete);
  EXPECT_EQ(written(), before);  // what was finished is not repeated
  for (size_t v = 0; v < whole.variants.size(); ++v) {
    ASSERT_EQ(continued.variants[v].runs.size(), 2u);
    for (size_t s = 0; s < 2; ++s) {
      EXPECT_EQ(continued.variants[v].runs[s].quality.nll, whole.variants[v].runs[s].quality.nll);
      EXPECT_EQ(continued.variants[v].runs[s].steps, 60);
    }
  }
  EXPECT_EQ(continued.sentences, whole.sentences);
}

TEST(Compare, MoreSeedsAndVariantsContinueWhatIsThere) {
  const kit::CompareKit kit;
  const Comparison first = kit.run(kit::kTwins + kit::kNoTiming);
  const Comparison more =
      kit.run("baseline: a\nvariants: {a: {}, b: {}, c: {model.mixer.heads: sha}}\nseeds: [1, 2]\n" + kit::kNoTiming);
  EXPECT_EQ(more.variants[0].runs[0].quality.nll, first.variants[0].runs[0].quality.nll);
  EXPECT_EQ(more.variants[2].runs.size(), 2u);
  // Another recipe below the same directory is refused, with the key.
  try {
    kit.run(kit::kTwins + "set: {train.learning_rate: 0.02}\n" + kit::kNoTiming);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_TRUE(contains(error.what(), "train.learning_rate")) << error.what();
  }
}

TEST(Compare, ADivergingVariantIsAResult) {
  const kit::CompareKit kit;
  const Comparison c = kit.run(
      "baseline: a\nvariants: {a: {}, wild: {train.learning_rate: 1.0e30, train.max_grad_norm: 0}}\n"
      "seeds: [1, 2]\n" +
      kit::kSmallTiming);
  EXPECT_EQ(c.variants[1].diverged(), 2);
  ASSERT_TRUE(c.winner);
  EXPECT_EQ(c.name(*c.winner), "a");
  EXPECT_TRUE(contains(c.sentences[0], "wild diverged with 2 of 2 seeds")) << c.sentences[0];
  EXPECT_TRUE(kit.json().at("variants")[1].at("loss").is_null());
}

TEST(Compare, TheFilesHoldEverything) {
  const kit::CompareKit kit;
  const Comparison c = kit.run(kit::kHeads + "seeds: [1, 2]\n" + kit::kSmallTiming);
  const Json json = kit.json();
  for (const Json& v : json.at("variants")) {
    for (const char* key : {"parameters", "mixer_parameters", "steps", "tokens", "training_flops", "step_flops",
                            "planned_peak_bytes", "loss", "loss_deviation", "score", "prr"})
      EXPECT_TRUE(v.at(key).is_number()) << key;
    EXPECT_EQ(v.at("runs").size(), 2u);
    for (const Json& run : v.at("runs")) EXPECT_EQ(run.at("measured_peak_bytes"), run.at("planned_peak_bytes"));
    EXPECT_GT(v.at("speed").at("training_step").at("tokens_per_second"), 0);
    ASSERT_EQ(v.at("speed").at("cells").size(), 4u);
    for (const Json& cell : v.at("speed").at("cells")) {
      EXPECT_GT(cell.at("prefill").at("seconds"), 0);
      EXPECT_GT(cell.at("decode_token").at("tokens_per_second"), 0);
      EXPECT_GT(cell.at("decode_flops"), 0);
      EXPECT_GT(cell.at("peak_bytes"), cell.at("state_bytes"));
    }
  }
  EXPECT_EQ(json.at("peop_baseline"), "sha");
  EXPECT_TRUE(json.at("variants")[1].at("peop").is_null());
  EXPECT_TRUE(json.at("variants")[2].at("peop_mixer").is_number());
  EXPECT_EQ(json.at("loss_differences").size(), 3u);
  EXPECT_EQ(json.at("speed_differences").size(), 2u * (1 + 4 + 4));
  EXPECT_EQ(json.at("speed_rounds"), 3);
  // State bytes as measured are those of the formula: MHE keeps one value and, under
  // rotary positions, a key of two turned rows.
  const auto state = [&](size_t v) {
    return json.at("variants")[v].at("speed").at("cells")[0].at("state_bytes").get<int64_t>();
  };
  EXPECT_EQ(state(0), 4 * state(1));
  EXPECT_EQ(3 * state(1), 2 * state(2));
  const std::string markdown = read_file(kit.directory / "out/comparison.md"),
                    page = read_file(kit.directory / "out/comparison.html");
  for (const std::string& text : {markdown, page})
    for (const char* word : {"mha", "sha", "mhe", "PRR", "PEoP", "model.mixer.heads.type", "declared"})
      EXPECT_TRUE(contains(text, word)) << word;
  for (const char* chart :
       {"Quality against parameters", "Quality against memory of training", "Quality against time of training"})
    EXPECT_TRUE(contains(page, chart)) << chart;
  std::set<std::string> costs;
  for (const Json& front : json.at("fronts")) {
    costs.insert(front.at("cost").get<std::string>());
    EXPECT_FALSE(front.at("variants").empty()) << front.at("cost");
  }
  EXPECT_TRUE(costs.contains("parameters"));
  EXPECT_FALSE(contains(page, "http://")) << "a page asks for nothing outside itself";
}

TEST(Compare, RefusesADirectoryOfSomethingElse) {
  const kit::CompareKit kit;
  make_directory(kit.directory / "run");
  write_file(kit.directory / "run/resolved_recipe.yaml", "model: {}\n");
  make_directory(kit.directory / "other");
  write_file(kit.directory / "other/experiment.yaml", "variants: {x: {}, y: {}}\n");
  const auto why = [&](const std::string& out) -> std::string {
    try {
      kit.run(kit::kTwins, out);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      return error.what();
    }
    return "not refused";
  };
  EXPECT_TRUE(contains(why("run"), "holds a training run; give another --out"));
  EXPECT_TRUE(contains(why("other"), "holds another comparison, of x, y; give another --out"));
}

TEST(Compare, WhatIsRefusedLeavesNothing) {
  const kit::CompareKit kit;
  for (const std::string refused : {"budget: {match: steps, steps: 0}\n", "score: bleu\n",
                                    // Only the training refuses it.
                                    "set: {train.average_checkpoints: 2}\n"}) {
    EXPECT_THROW(kit.run(kit::kTwins + refused, "outer/out"), Error) << refused;
    EXPECT_FALSE(std::filesystem::exists(kit.directory / "outer")) << refused;
  }
}

TEST(Compare, TimingContinuesWithMoreRounds) {
  const kit::CompareKit kit;
  const Comparison first = kit.run(kit::kTwins + kit::kSmallTiming);
  std::string more = kit::kSmallTiming;
  more.replace(more.find("repeats: 3"), 10, "repeats: 4");
  const Comparison second = kit.run(kit::kTwins + more);
  ASSERT_EQ(second.speed.rounds.size(), 4u);
  EXPECT_EQ(second.speed.rounds[0][0].train_step, first.speed.rounds[0][0].train_step);
}

// Models of a task are compared by its first metric, over the words that have a label.
TEST(Compare, TasksAreComparedByTheirMetric) {
  const kit::CompareKit kit;
  write_synthetic({.task = "copy", .length = 8, .items = 2, .symbols = 3, .train = 200, .test = 40},
                  kit.directory / "copy");
  write_file(
      kit.directory / "base.yaml",
      cat("model: {hidden_size: 16, num_hidden_layers: 1, mixer: {type: attention, num_attention_heads: 4}, "
          "head: tag, tie_word_embeddings: false}\ntask: {type: tagging, train: [",
          (kit.directory / "copy/train.jsonl").string(), "], test: [", (kit.directory / "copy/test.jsonl").string(),
          "]}\ndata: {tokenizer: {type: file, file: ", (kit.directory / "copy/vocab.txt").string(),
          "}, sequence_length: 8}\ntrain: {objective: task, max_steps: 12, batch_tokens: 64, learning_rate: "
          "0.01, eval_steps: 0}\n"));
  const Comparison c = kit.run("baseline: a\nvariants: {a: {}, b: {model.mixer: {type: gru}}}\n" + kit::kSmallTiming);
  EXPECT_EQ(c.experiment.score, "task_metric");
  for (const VariantResult& v : c.variants) {
    ASSERT_EQ(v.finished(), 1);
    EXPECT_EQ(v.runs[0].quality.tokens, 80);  // two answers of each of 40 examples
    EXPECT_GE(v.score, 0);
    EXPECT_LE(v.score, 1);
    EXPECT_NEAR(std::round(v.score * 80), v.score * 80, 1e-9);
  }
  EXPECT_TRUE(contains(kit.refusal("baseline: a\nvariants: {a: {}, b: {model.mixer: {type: gru}}}\nscore: bleu\n"),
                       "labelled examples"));
}

}  // namespace
}  // namespace lithe::compare
