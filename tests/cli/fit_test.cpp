// `lithe fit`: chains that are tried, chosen, carried out and checked.
#include <csignal>
#include <set>
#include <thread>

#include "lithe/base/json.h"
#include "lithe/base/threads.h"
#include "lithe/fit/fit.h"
#include "tests/cli/run_kit.h"

namespace lithe {
namespace {

namespace fs = std::filesystem;
using kit::run_program;

class FitProgram : public kit::RunTest {
 protected:
  static std::string at(const std::string& name) { return *scratch_ / name; }
  static Json json_of(const std::string& file) { return parse_json(read_file(file), file); }
  static std::vector<std::string> words(const std::string& out, const std::vector<std::string>& more) {
    std::vector<std::string> all{"fit",           at("large"), "--out",         out,  "--trial-steps",        "2",
                                 "--batches",     "2",         "--scan-tokens", "32", "--calibration-tokens", "64",
                                 "--train-steps", "4",         "--threads",     "1"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // What `out` keeps of the trial whose file begins so is made the quickest of all, so that it is on the front; its
  // number there.
  static int number_of_quickest(const std::string& out, const std::string& file, std::vector<std::string> command) {
    Json point;
    for (const auto& entry : fs::directory_iterator(at(out + ".fit/points"))) {
      if (!entry.path().filename().string().starts_with(file)) continue;
      point = json_of(entry.path().string());
      point["latency"] = 1e-12;
      write_file(entry.path(), dump(point, 2));
      break;
    }
    command.insert(command.end(), {"--plan", "--json"});
    const kit::Finished f = run_program(command);
    EXPECT_EQ(f.code, 0) << f.err;
    int number = 0;
    double least = INFINITY;
    const Json planned = parse_json(f.out, "fit");
    for (const Json& c : planned["chains"])
      if (const double seconds = c["measured"]["latency_seconds"]; seconds < least) {
        least = seconds;
        number = c["number"];
      }
    return number;
  }
  // The recipe of a small model, in the file of that name; `rest` goes on within section data.
  static std::string small_recipe(const std::string& file, const std::string& architecture, const std::string& rest) {
    return scratch_->add(
        file, cat("model: {architecture: ", architecture,
                  ", hidden_size: 32, num_hidden_layers: 2, position: learned, mixer: {type: attention, "
                  "num_attention_heads: 2}, ffn: {type: gelu, intermediate_size: 128}}\ndata: {cache_directory: \"",
                  at("cache"), "\", ", rest));
  }
  static void SetUpTestSuite() {
    kit::RunTest::SetUpTestSuite();
    if (!kit::have_program()) return;
    ASSERT_EQ(run_program({"train", *recipe_, "--out", at("large"), "--set", "model.hidden_size=64", "--set",
                           "model.ffn.intermediate_size=256", "--set", "model.num_hidden_layers=2"})
                  .code,
              0);
  }
};

TEST_F(FitProgram, ShowsAFrontAndCarriesOutWhatFits) {
  const auto whole = int64_t(fs::file_size(at("large/model.safetensors")));
  kit::Finished f = run_program(words(at("a"), {"--plan", "--size", cat(whole / 5), "--json"}));
  ASSERT_EQ(f.code, 0) << f.err;
  EXPECT_FALSE(fs::exists(at("a")));
  const Json plan = parse_json(f.out, "fit");
  std::set<std::string> formats;
  std::vector<Json> front(plan["chains"].size() + 1);
  for (const Json& c : plan["chains"]) {
    formats.insert(c["format"]);
    const int number = c["number"];
    if (number) front[size_t(number)] = c;
    EXPECT_EQ(bool(c["fits"]), int64_t(c["measured"]["size_bytes"]) <= whole / 5) << c["chain"];
    // A prediction of bytes is exact but for what does not shrink.
    if (c.contains("predicted") && c["share"] == 1 && c["exchange"] == "" && c["options"].empty()) {
      EXPECT_EQ(c["predicted"]["size_bytes"], c["measured"]["size_bytes"]);
    }
  }
  for (const char* format : {"f32", "bf16", "int8", "int4"}) EXPECT_TRUE(formats.count(format)) << format;
  ASSERT_FALSE(front[1].is_null());
  // Along the front the loss rises, and no chain is better in all respects.
  for (size_t i = 2; i < front.size() && !front[i].is_null(); ++i)
    EXPECT_GE(double(front[i]["change"]["mean"]), double(front[i - 1]["change"]["mean"]));
  const Json matrices = plan["matrices"];
  EXPECT_GE(matrices.size(), 12u);
  EXPECT_TRUE(fs::exists(at("a.fit/fit.html")));

  f = run_program(words(at("a"), {"--size", cat(whole / 5), "--json"}));
  ASSERT_EQ(f.code, 0) << f.err;
  EXPECT_EQ(f.err.find("trying"), std::string::npos) << "tried again: " << f.err;
  EXPECT_LE(int64_t(fs::file_size(at("a/model.safetensors"))), whole / 5);
  const Json done = json_of(at("a/fit.json"));
  EXPECT_EQ(done["chosen"]["kept"], true);
  EXPECT_GT(int64_t(done["chosen"]["real_run"]["memory_bytes"]), 1 << 20);
  for (const char* name : {"fit.html", "receipt.json", "receipt.html", "resolved_recipe.yaml"})
    EXPECT_TRUE(fs::exists(at("a/") + name)) << name;
  EXPECT_EQ(run_program({"eval", at("a")}).code, 0);
  EXPECT_EQ(run_program({"generate", at("a"), "--prompt", "the", "--max-new-tokens", "4"}).code, 0);
}

TEST_F(FitProgram, PrunesAndRoundsWhereRoundingIsNotEnough) {
  const kit::Finished rounded =
      run_program({"quantize", at("large"), "--weights", "int4", "--out", at("few-bits"), "--threads", "1"});
  ASSERT_EQ(rounded.code, 0) << rounded.err;
  const auto size = int64_t(0.8 * double(fs::file_size(at("few-bits/model.safetensors"))));
  const kit::Finished f = run_program(words(at("b"), {"--size", cat(size)}));
  ASSERT_EQ(f.code, 0) << f.err;
  EXPECT_LE(int64_t(fs::file_size(at("b/model.safetensors"))), size);
  const Json receipt = json_of(at("b/receipt.json"));
  ASSERT_EQ(receipt["chain"].size(), 1u);
  EXPECT_EQ(receipt["chain"][0]["operation"], "prune");
  EXPECT_EQ(receipt["operation"], "quantize");
  EXPECT_EQ(receipt["origin"]["bytes_on_disk"], fs::file_size(at("large/model.safetensors")));
}

// Chains by name.
std::map<std::string, Json> chains_of(const Json& fitted) {
  std::map<std::string, Json> out;
  for (const Json& c : fitted["chains"]) out[c["chain"]] = c;
  return out;
}

TEST_F(FitProgram, ExchangesPartsAndDraftsTokens) {
  const std::string exchange = "model.mixer.heads.type=mqa";
  kit::Finished f = run_program(words(at("e"), {"--plan", "--exchange", exchange, "--json"}));
  ASSERT_EQ(f.code, 0) << f.err;
  const auto chains = chains_of(parse_json(f.out, "fit"));
  for (const char* name : {"exchange mixer.heads.type=mqa, distil", "exchange mixer.heads.type=mqa, distil, int8",
                           "draft by lookup", "int8, draft by lookup"})
    ASSERT_TRUE(chains.count(name)) << name;
  const Json &whole = chains.at("as it is"), &exchanged = chains.at("exchange mixer.heads.type=mqa, distil"),
             &drafts = chains.at("draft by lookup");
  EXPECT_LT(int64_t(exchanged["parameters"]), int64_t(whole["parameters"]));
  EXPECT_NEAR(double(exchanged["predicted"]["size_bytes"]), double(exchanged["measured"]["size_bytes"]),
              0.02 * double(exchanged["measured"]["size_bytes"]));
  // Drafts change no token, so no loss.
  EXPECT_EQ(drafts["loss"], whole["loss"]);
  EXPECT_EQ(drafts["options"], Json({"--draft", "lookup"}));
  EXPECT_GE(double(drafts["scores"]["tokens_a_pass"]), 1);
  EXPECT_GT(double(drafts["predicted"]["latency_seconds"]), 0);
  const Json& pruned = [&]() -> const Json& {
    for (const auto& [name, c] : chains)
      if (name.starts_with("draft by it pruned")) return c;
    return whole;
  }();
  EXPECT_GT(int64_t(pruned["measured"]["size_bytes"]), int64_t(whole["measured"]["size_bytes"]));

  EXPECT_GE(double(pruned["scores"]["agreement"]), 0);
  EXPECT_LE(double(pruned["scores"]["agreement"]), 1);

  // A budget that only the exchanged model keeps, in 4 bits.
  int64_t least = 0;
  for (const auto& [name, c] : chains)
    if (name.starts_with("exchange mixer.heads.type=mqa, distil, int4")) least = c["measured"]["size_bytes"];
  ASSERT_GT(least, 0);
  f = run_program(words(at("e"), {"--exchange", exchange, "--shares", "0.99", "--size", cat(least)}));
  ASSERT_EQ(f.code, 0) << f.err;
  const Json receipt = json_of(at("e/receipt.json"));
  EXPECT_EQ(receipt["operation"], "quantize");
  ASSERT_EQ(receipt["chain"].size(), 1u);
  EXPECT_EQ(receipt["chain"][0]["operation"], "convert");
  EXPECT_EQ(receipt["chain"][0]["settings"]["train_steps"], 4);
  EXPECT_EQ(run_program({"generate", at("e"), "--prompt", "the", "--max-new-tokens", "4"}).code, 0);
  fs::remove_all(at("e"));

  const int number =
      number_of_quickest("e", "share-1-f32-draft-pruned", words(at("e"), {"--exchange", exchange, "--size", "1MB"}));
  ASSERT_GT(number, 0);
  f = run_program(words(at("e"), {"--exchange", exchange, "--size", "1MB", "--choose", cat(number)}));
  ASSERT_EQ(f.code, 0) << f.err;
  const Json done = json_of(at("e/fit.json"));
  EXPECT_EQ(done["chosen"]["options"], Json({"--draft", at("e/drafter")}));
  EXPECT_EQ(int64_t(done["chosen"]["real_run"]["size_bytes"]),
            int64_t(fs::file_size(at("e/model.safetensors")) + fs::file_size(at("e/drafter/model.safetensors"))));
  EXPECT_EQ(json_of(at("e/receipt.json"))["settings"]["options"][0], "--draft");
  EXPECT_EQ(run_program({"generate", at("e"), "--prompt", "the", "--max-new-tokens", "4", "--greedy", "--draft",
                         at("e/drafter")})
                .code,
            0);
}

TEST_F(FitProgram, RefusesExchangesBeforeItWrites) {
  for (const auto& [exchange, why] :
       {std::pair("model.mixer.heads.type=nothing", "nothing"), std::pair("model.mixer.heads.type=mha", "so already"),
        std::pair("model.num_hidden_layers=2", "so already"), std::pair("train.seed=3", "section model"),
        std::pair("model.hidden_size=2048", "1 %")}) {
    const std::string named = cat("fit: --exchange ", exchange);
    expect_error(words(at("y"), {"--size", "1MB", "--exchange", exchange}), 2, {named, why});
    EXPECT_FALSE(fs::exists(at("y.fit"))) << exchange;
  }
  EXPECT_FALSE(fs::exists(at("y")));
}

// The request of words().
fit::Request request_of(const std::string& run, const std::string& out) {
  return {.run = run,
          .out = out,
          .trial_steps = 2,
          .train_steps = 4,
          .batches = 2,
          .scan_tokens = 32,
          .calibration_tokens = 64};
}

TEST_F(FitProgram, KeepsNoLimitOfMemoryWithoutARealRun) {
  const auto never = [](const fit::RealUse&) { return std::optional<fit::RealRun>(); };
  set_threads(1);
  fit::Request request = request_of(at("large"), at("n"));
  request.budget.memory = int64_t(1) << 30;
  try {
    fit::fit(request, never, [](const Path&) {});
    ADD_FAILURE() << "it does not know the memory";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("no process could use the model"), std::string::npos) << error.what();
  }
  EXPECT_FALSE(fs::exists(at("n")));
  // Where only the chosen model cannot be used.
  const auto others = [&](const fit::RealUse& use) {
    const bool known = use.directory == request.run || use.directory.string().find("n.fit") != std::string::npos;
    return known ? std::optional(fit::RealRun{.memory = int64_t(1) << 24}) : std::nullopt;
  };
  request.choose = 1;
  const fit::Result chosen = fit::fit(request, others, [](const Path&) {});
  EXPECT_EQ(chosen.outcome, fit::Outcome::nothing_fits);
  EXPECT_EQ(chosen.json["chosen"]["kept"], false);
  EXPECT_NE(std::string(chosen.json["chosen"]["failed"]).find("its memory is not known"), std::string::npos);
  EXPECT_EQ(chosen.json["chosen"]["by_the_program"], false);
  // The size of a file is known without.
  request.budget = {.size = 1 << 20};
  request.overwrite = true;
  const fit::Result sized = fit::fit(request, never, [](const Path&) {});
  EXPECT_EQ(sized.outcome, fit::Outcome::carried_out);
  EXPECT_EQ(sized.json["chosen"]["by_the_program"], false);
}

// All that is proposed at first takes more in a real run than was measured: smaller shares are tried then.
TEST_F(FitProgram, TriesSmallerOnesWhereARealRunTakesMore) {
  set_threads(1);
  fit::Request request = request_of(at("large"), at("m"));
  int64_t least = 0;  // bytes of the smallest file of the first proposals
  const auto real = [&](const fit::RealUse& use) {
    const auto bytes = int64_t(fs::file_size(use.directory / "model.safetensors"));
    const bool is_trial = use.directory == request.run || use.directory.string().find("m.fit") != std::string::npos;
    const bool more = !is_trial && bytes >= least;
    return std::optional(fit::RealRun{.memory = more ? request.budget.memory + (1 << 20) : (1 << 24) + 2 * bytes});
  };
  request.budget.memory = int64_t(1) << 26;
  request.plan_only = true;
  const fit::Result plan = fit::fit(request, real, [](const Path&) {});
  ASSERT_EQ(plan.outcome, fit::Outcome::planned);
  least = INT64_MAX;
  for (const Json& chain : plan.json["chains"]) least = std::min(least, int64_t(chain["measured"]["size_bytes"]));
  least = least * 97 / 100;  // files of one shape may differ by a few bytes of their header
  request.plan_only = false;
  const fit::Result found = fit::fit(request, real, [](const Path&) {});
  ASSERT_EQ(found.outcome, fit::Outcome::carried_out) << dump(found.json, 1);
  EXPECT_EQ(found.json["chosen"]["kept"], true);
  EXPECT_FALSE(found.json.contains("nearest"));
  EXPECT_NE(std::string(found.json["chosen"]["chain"]).find("prune"), std::string::npos);
  EXPECT_LT(int64_t(found.json["chosen"]["real_run"]["size_bytes"]), least);
  for (const Json& chain : found.json["chains"])
    EXPECT_EQ(chain.contains("failed"), int64_t(chain["measured"]["size_bytes"]) >= least) << chain["chain"];
}

TEST_F(FitProgram, MeasuresEarlyExits) {
  ASSERT_EQ(run_program({"train", *recipe_, "--out", at("exits"), "--set", "model.num_hidden_layers=3", "--set",
                         "model.stack={type: early_exit, layers: [1, 2]}"})
                .code,
            0);
  std::vector<std::string> all = words(at("f"), {"--plan", "--json", "--latency", "1s"});
  all[1] = at("exits");
  const kit::Finished f = run_program(all);
  ASSERT_EQ(f.code, 0) << f.err;
  const auto chains = chains_of(parse_json(f.out, "fit"));
  for (const char* name : {"exit layer:1", "exit layer:2", "exit entropy:0.3", "int8, exit layer:1", "draft by exit:1"})
    ASSERT_TRUE(chains.count(name)) << name;
  const Json &whole = chains.at("as it is"), &first = chains.at("exit layer:1");
  EXPECT_EQ(first["scores"]["mean_layers"], 1);
  EXPECT_NE(first["loss"], whole["loss"]);
  EXPECT_LT(double(first["predicted"]["latency_seconds"]), double(whole["predicted"]["latency_seconds"]));
  const Json& drafts = chains.at("draft by exit:1");
  EXPECT_EQ(drafts["loss"], whole["loss"]);
  EXPECT_GE(double(drafts["scores"]["agreement"]), 0);
  EXPECT_LE(double(drafts["scores"]["agreement"]), 1);
}

// A state that cannot forget drafts has exits all the same.
TEST_F(FitProgram, MeasuresEarlyExitsOfRecurrentModels) {
  ASSERT_EQ(run_program({"train", *recipe_, "--out", at("recurrent"), "--set", "model.num_hidden_layers=2", "--set",
                         "model.position={type: none}", "--set", "model.mixer={type: gru, output: {type: none}}",
                         "--set", "model.stack={type: early_exit, layers: [1]}"})
                .code,
            0);
  std::vector<std::string> all = words(at("r"), {"--plan", "--json"});
  all[1] = at("recurrent");
  const kit::Finished f = run_program(all);
  ASSERT_EQ(f.code, 0) << f.err;
  const auto chains = chains_of(parse_json(f.out, "fit"));
  ASSERT_TRUE(chains.count("exit layer:1"));
  EXPECT_EQ(chains.at("exit layer:1")["scores"]["mean_layers"], 1);
  std::vector<std::string> longer = words(at("longer"), {"--plan", "--length", "100000"});
  longer[1] = at("recurrent");
  expect_error(longer, 2, {"--length 100000 is beyond the 16 tokens that the model is made for"});
  for (const auto& [name, c] : chains) EXPECT_EQ(name.find("draft"), std::string::npos) << name;
}

TEST_F(FitProgram, FitsTranslators) {
  std::string pairs, held;
  for (int i = 0; i < 80; ++i) {
    const std::string words[] = {"red", "blue", "green", "old"}, worte[] = {"rot", "blau", "gruen", "alt"};
    const std::string pair = cat("the ", words[i % 4], " house ", i % 7, "\tdas ", worte[i % 4], " haus ", i % 7, "\n");
    (i % 4 == 3 ? held : pairs) += pair;
  }
  scratch_->add("pairs.tsv", pairs), scratch_->add("held.tsv", held);
  const std::string recipe = small_recipe(
      "translate.yaml", "encoder_decoder",
      cat("sequence_length: 24, tokenizer: {type: bytes}}\ntranslation: {train: {pairs: [\"", at("pairs.tsv"),
          "\"]}, validation: {pairs: [\"", at("held.tsv"),
          "\"]}}\ntranslate: {num_beams: 4, max_new_tokens: 12}\ntrain: {objective: seq2seq, max_steps: 4, "
          "batch_tokens: 256}\n"));
  ASSERT_EQ(run_program({"train", recipe, "--out", at("translator")}).code, 0);
  const auto whole = int64_t(fs::file_size(at("translator/model.safetensors")));
  std::vector<std::string> all = words(at("g"), {"--size", cat(whole / 3)});
  all[1] = at("translator");
  const kit::Finished f = run_program(all);
  ASSERT_EQ(f.code, 0) << f.err;
  EXPECT_LE(int64_t(fs::file_size(at("g/model.safetensors"))), whole / 3);
  const Json done = json_of(at("g/fit.json"));
  EXPECT_EQ(done["quality"], "chrF");
  EXPECT_EQ(done["use"]["translates"], true);
  const auto chains = chains_of(done);
  for (const char* name : {"as it is", "greedy", "2 beams", "int8, greedy"}) {
    ASSERT_TRUE(chains.count(name)) << name;
    EXPECT_TRUE(chains.at(name)["scores"].contains("bleu")) << name;
    EXPECT_GT(double(chains.at(name)["measured"]["latency_seconds"]), 0) << name;
  }
  EXPECT_EQ(chains.at("as it is")["change"]["mean"], 0);
  EXPECT_EQ(chains.at("greedy")["options"], Json({"--num-beams", "1"}));
  EXPECT_LT(double(chains.at("greedy")["predicted"]["latency_seconds"]),
            double(chains.at("as it is")["predicted"]["latency_seconds"]));
  EXPECT_TRUE(json_of(at("g/receipt.json")).contains("loss_difference"));
  all = words(at("h"), {"--size", "1MB", "--text", at("pairs.tsv")});
  all[1] = at("translator");
  expect_error(all, 2, {"--text", "translator"});
}

TEST_F(FitProgram, SaysWhatIsNearestWhereNothingFits) {
  const kit::Finished f = run_program(words(at("c"), {"--memory", "1MB", "--shares", "0.8"}));
  EXPECT_EQ(f.code, 4) << f.err;
  EXPECT_NE(f.err.find("nearest is"), std::string::npos) << f.err;
  EXPECT_NE(f.err.find("above"), std::string::npos) << f.err;
  const kit::Finished slow = run_program(words(at("c"), {"--latency", "1us", "--shares", "0.8", "--plan"}));
  EXPECT_EQ(slow.code, 4) << slow.err;
  EXPECT_NE(slow.err.find("(above 0.001 ms)"), std::string::npos) << slow.err;
  EXPECT_FALSE(fs::exists(at("c")));
  EXPECT_TRUE(json_of(at("c.fit/fit.json")).contains("nearest"));
  expect_error(words(at("c"), {"--memory", "1MB", "--length", "8"}), 2, {"other settings", "--overwrite"});
}

TEST_F(FitProgram, GoesOnAfterASignal) {
  const auto all = words(at("d"), {"--size", "60KB", "--shares", "0.8"});
  {
    kit::Process first(all);
    while (first.running() && !fs::exists(at("d.fit/points/share-1-int8.json")))
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    first.send(SIGTERM);
    const kit::Finished f = first.wait();
    EXPECT_EQ(f.code, 128 + SIGTERM) << f.err;
    EXPECT_NE(f.err.find("the same command goes on"), std::string::npos) << f.err;
  }
  EXPECT_FALSE(fs::exists(at("d")));
  const std::string point = read_file(at("d.fit/points/share-1-int8.json"));
  const kit::Finished f = run_program(all);
  EXPECT_TRUE(f.code == 0 || f.code == 4) << f.err;
  EXPECT_EQ(read_file(at("d.fit/points/share-1-int8.json")), point);
}

TEST_F(FitProgram, FitsEncodersAndRefusesWhatItCannot) {
  std::string lines;
  for (int i = 0; i < 60; ++i)
    lines += cat(i % 2 ? "good" : "bad", " the ", i % 2 ? "lovely" : "dull", " film was seen\n");
  scratch_->add("task.txt", lines);
  const std::string recipe = small_recipe(
      "task.yaml", "encoder",
      cat("files: [\"", at("task.txt"),
          "\"], documents: line, sequence_length: 16, tokenizer: {type: wordpiece, vocab_size: 100}}\ntask: {format: "
          "label_text, train: [\"",
          at("task.txt"),
          "\"], validation_fraction: 0.3}\ntrain: {objective: task, max_steps: 4, batch_tokens: 128}\n"));
  kit::Finished f = run_program({"train", recipe, "--out", at("task")});
  ASSERT_EQ(f.code, 0) << f.err;
  const auto whole = int64_t(fs::file_size(at("task/model.safetensors")));
  f = run_program({"fit", at("task"), "--size", cat(whole / 2), "--out", at("task-fitted"), "--trial-steps", "0",
                   "--train-steps", "0", "--scan-tokens", "32", "--calibration-tokens", "64", "--threads", "1"});
  ASSERT_EQ(f.code, 0) << f.err;
  EXPECT_LE(int64_t(fs::file_size(at("task-fitted/model.safetensors"))), whole / 2);
  const Json plain = json_of(at("task-fitted/fit.json"));
  EXPECT_EQ(plain["use"]["continues"], false);
  ASSERT_TRUE(plain["chosen"]["options"].empty() || plain["chosen"]["options"][0] == "--precision");
  EXPECT_EQ(plain["chosen"]["by_the_program"], true);
  EXPECT_GT(int64_t(plain["chosen"]["real_run"]["memory_bytes"]), 1 << 20);
  EXPECT_NE(f.err.find("a real run took"), std::string::npos) << f.err;
  f = run_program({"fit", at("task"), "--memory", "1MB", "--out", at("task-small"), "--trial-steps", "0",
                   "--scan-tokens", "32", "--calibration-tokens", "64", "--threads", "1"});
  EXPECT_EQ(f.code, 4) << f.err;
  EXPECT_EQ(run_program({"eval", at("task-fitted")}).code, 0);

  // With exits.
  f = run_program({"train", recipe, "--out", at("task-exits"), "--set", "model.stack={type: early_exit, layers: [1]}"});
  ASSERT_EQ(f.code, 0) << f.err;
  const std::vector<std::string> all{"fit",
                                     at("task-exits"),
                                     "--size",
                                     "1MB",
                                     "--out",
                                     at("task-early"),
                                     "--trial-steps",
                                     "0",
                                     "--train-steps",
                                     "0",
                                     "--scan-tokens",
                                     "32",
                                     "--calibration-tokens",
                                     "64",
                                     "--threads",
                                     "1"};
  std::vector<std::string> planned = all;
  planned.insert(planned.end(), {"--plan", "--json"});
  f = run_program(planned);
  ASSERT_EQ(f.code, 0) << f.err;
  const auto chains = chains_of(parse_json(f.out, "fit"));
  ASSERT_TRUE(chains.count("exit layer:1"));
  const Json& early = chains.at("exit layer:1");
  EXPECT_EQ(early["scores"]["mean_layers"], 1);
  EXPECT_TRUE(early["scores"].contains("accuracy"));
  EXPECT_NE(early["loss"], chains.at("as it is")["loss"]);
  const int number = number_of_quickest("task-early", "share-1-f32-exit-layer", all);
  ASSERT_GT(number, 0);
  std::vector<std::string> chosen = all;
  chosen.insert(chosen.end(), {"--choose", cat(number)});
  f = run_program(chosen);
  ASSERT_EQ(f.code, 0) << f.err;
  const Json done = json_of(at("task-early/fit.json"));
  EXPECT_EQ(done["chosen"]["options"], Json({"--exit", "layer:1"}));
  EXPECT_EQ(done["chosen"]["by_the_program"], true);
  EXPECT_GT(int64_t(done["chosen"]["real_run"]["memory_bytes"]), 1 << 20);

  expect_error({"fit", at("task"), "--out", at("x")}, 2, {"there is no budget"});
  expect_error({"fit", at("task"), "--out", at("x"), "--latency", "fast"}, 2, {"--latency"});
  expect_error({"fit", at("task-fitted"), "--out", at("x"), "--size", "1MB"}, 2, {"quantised"});
  expect_error(words(at("x"), {"--size", "1MB", "--shares", "1.5"}), 2, {"--shares"});
  EXPECT_FALSE(fs::exists(at("x")));
}

// An encoder whose head for masked words was not trained, as that of an imported sentence encoder.
TEST_F(FitProgram, SentenceEncodersKeepTheirVectors) {
  const std::string recipe = small_recipe(
      "sentences.yaml", "encoder",
      cat("files: [\"", at("text.txt"),
          "\"], validation_fraction: 0.2, documents: paragraph, sequence_length: 16, tokenizer: {type: wordpiece, "
          "vocab_size: 100}}\ntrain: {objective: mlm, max_steps: 1, learning_rate: 1.0e-9, batch_tokens: 128}\n"));
  kit::Finished f = run_program({"train", recipe, "--out", at("sentences")});
  ASSERT_EQ(f.code, 0) << f.err;
  std::vector<std::string> all{"fit", at("sentences"), "--plan", "--json", "--out", at("vectors")};
  for (const char* word :
       {"--trial-steps", "0", "--batches", "2", "--scan-tokens", "32", "--calibration-tokens", "64", "--threads", "1"})
    all.push_back(word);
  expect_error(all, 2, {"predicts masked words no better than chance", "--text"});
  all.insert(all.end(), {"--text", at("text.txt")});
  f = run_program(all);
  ASSERT_EQ(f.code, 0) << f.err;
  const Json planned = parse_json(f.out, "fit");
  EXPECT_EQ(planned["quality"], "cosine");
  const auto chains = chains_of(planned);
  const auto lost = [&](const char* chain) {
    EXPECT_TRUE(chains.count(chain)) << chain;
    EXPECT_NEAR(double(chains.at(chain)["scores"]["cosine"]), 1 - double(chains.at(chain)["change"]["mean"]), 1e-12);
    return double(chains.at(chain)["change"]["mean"]);
  };
  EXPECT_NEAR(lost("as it is"), 0, 1e-7);
  EXPECT_LT(lost("bf16"), 1e-3);
  EXPECT_LT(lost("int8"), 1e-3);
  EXPECT_GT(lost("int4"), lost("int8"));
  for (const auto& [name, chain] : chains)
    if (name.starts_with("prune")) {
      EXPECT_GT(double(chain["change"]["mean"]), lost("int8")) << name;
    }
}

TEST_F(FitProgram, AnImportLearnsFromTheGivenText) {
  ASSERT_EQ(run_program({"import", exported_of(untrained_llama(64)), "--out", at("imported")}).code, 0);
  const auto size = int64_t(fs::file_size(at("imported/model.safetensors"))) / 3;
  std::vector<std::string> all{"fit",
                               at("imported"),
                               "--out",
                               at("of-import"),
                               "--size",
                               cat(size),
                               "--trial-steps",
                               "0",
                               "--train-steps",
                               "0",
                               "--batches",
                               "2",
                               "--scan-tokens",
                               "32",
                               "--calibration-tokens",
                               "64",
                               "--length",
                               "16",
                               "--threads",
                               "1"};
  expect_error(all, 2, {"--text"});
  EXPECT_FALSE(fs::exists(at("of-import.fit")));
  all.insert(all.end(), {"--text", at("text.txt")});
  const kit::Finished f = run_program(all);
  ASSERT_EQ(f.code, 0) << f.err;
  EXPECT_LE(int64_t(fs::file_size(at("of-import/model.safetensors"))), size);
  EXPECT_TRUE(json_of(at("of-import/receipt.json")).contains("loss_difference"));
}

}  // namespace
}  // namespace lithe
