// Low-rank adapters beside a served model: what they add, who shares what, what is refused.
#include "lithe/infer/adapter.h"

#include <cmath>

#include "lithe/model/packable.h"
#include "lithe/model/safetensors.h"
#include "lithe/serve/completion_run.h"
#include "lithe/train/adapters.h"
#include "tests/serve/serve_kit.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

/// Writes an adapter with random numbers of the run's model, and the run with it merged.
void write_adapter(const Path& run, const Path& to, uint64_t seed, const std::string& type = "lora",
                   const std::vector<std::string>& targets = {"*.mixer.heads.*.weight", "*.ffn.*.weight"}) {
  Model model(load_config(run / "config.json"), {.trainable = true});
  load_weights(model, run / "model.safetensors");
  AdapterConfig config;
  config.type = type, config.rank = 3, config.alpha = 6, config.targets = targets;
  Parameters parameters;
  Adapters adapters(model, config, parameters, seed);
  adapters.begin();
  kit::randomise(parameters, seed, 0.3);
  adapters.save(to);
  std::filesystem::copy(run, Path(to.string() + "-merged"), std::filesystem::copy_options::recursive);
  adapters.save_merged(Path(to.string() + "-merged") / "model.safetensors");
}

Tensor logits_of(const Model& model, const kit::Batch& batch, const LowRankUpdates* updates) {
  const NoGrad no_grad;
  const LowRankScope scope(updates);
  return kit::logits(model, batch.ids, batch.sequences).value();
}

TEST(Adapter, IsTheMergedModel) {
  const kit::Scratch scratch;
  for (const std::string more :
       {"ffn: {type: swiglu, intermediate_size: 24}",
        "ffn: {type: moe, num_experts: 3, num_experts_per_tok: 2, moe_intermediate_size: 8}",
        "mixer: {type: selective_ssm}", "mixer: {type: lstm}",
        "mixer: {type: attention, num_attention_heads: 4, heads: {type: gqa, num_key_value_heads: 2}}"}) {
    const ModelConfig config = kit::model_config(
        "{vocab_size: 257, hidden_size: 16, num_hidden_layers: 2, max_position_embeddings: 32, mixer: {type: "
        "attention, "
        "num_attention_heads: 2}, ffn: {type: relu, intermediate_size: 24}}",
        more);
    std::filesystem::remove_all(scratch.path() / "run");
    std::filesystem::remove_all(scratch.path() / "a");
    std::filesystem::remove_all(scratch.path() / "a-merged");
    std::filesystem::create_directories(scratch.path() / "run");
    {
      Model model(config, ModelOptions());
      kit::randomise(model.parameters(), 3);
      save_config(config, scratch.path() / "run" / "config.json");
      save_weights(model, scratch.path() / "run" / "model.safetensors");
    }
    std::vector<std::string> targets;  // all that can be
    for (const auto& [name, how] : packable_matrices(config))
      if (how.adapts()) targets.push_back(name);
    ASSERT_FALSE(targets.empty()) << more;
    for (const std::string type : {"lora", "rslora"}) {
      std::filesystem::remove_all(scratch.path() / "a");
      std::filesystem::remove_all(scratch.path() / "a-merged");
      write_adapter(scratch.path() / "run", scratch.path() / "a", 5, type, targets);
      const kit::Batch batch = kit::random_batch({9, 4, 1}, config, 5);
      const std::map<std::string, bool> packed = packed_products(config);
      for (const bool pack : {false, true}) {
        const DType dtype = pack ? DType::f32 : DType::f64;
        const ModelOptions options{.dtype = dtype, .compute = dtype, .packed = pack ? &packed : nullptr};
        Model base(config, options), merged(config, options);
        load_weights(base, scratch.path() / "run" / "model.safetensors");
        load_weights(merged, scratch.path() / "a-merged" / "model.safetensors");
        const Adapter adapter(base, scratch.path() / "a");
        EXPECT_EQ(adapter.rank(), 3);
        const Tensor plain = logits_of(base, batch, nullptr), want = logits_of(merged, batch, nullptr),
                     got = logits_of(base, batch, &adapter.updates());
        EXPECT_LE(kit::largest_difference(got, want), 2e-4) << more << type << pack;  // the merged weights are f32
        EXPECT_GE(kit::largest_difference(plain, want), 1e-2) << more << type << pack;
        EXPECT_EQ(kit::bit_difference(logits_of(base, batch, nullptr), plain), "");
      }
    }
  }
}

Json answer_of(ServedModel& model, const Json& body, const Adapter* adapter) {
  CompletionRequest request = read_completion(body, model, false);
  request.adapter = adapter;
  CompletionRun run(model, std::move(request), {});
  return run.whole(std::chrono::milliseconds(100))["choices"];
}

class AdaptersTest : public ServeTest {
 protected:
  Path path(const std::string& name) const { return kit_.scratch.path() / name; }
  // A run, and adapters a and b of it.
  void make_all() {
    make("tiny", 8);
    write_adapter(path("tiny"), path("a"), 7);
    write_adapter(path("tiny"), path("b"), 8, "rslora", {"*.mixer.heads.*.weight"});
  }
  static Json body_of(size_t i, const std::string& model = "") {
    Json body = {
        {"prompt", "In the beginning" + std::string(i % 3, 'x')}, {"max_tokens", 10}, {"seed", i}, {"logprobs", 2}};
    if (i % 4 == 0) body["temperature"] = 0;
    if (i % 5 == 0) body["echo"] = true;
    if (i % 7 == 0) body["n"] = 2;
    if (!model.empty()) body["model"] = model;
    return body;
  }
};

TEST_F(AdaptersTest, InEveryCompanyTheirBitsAreThoseAlone) {
  make_all();
  // Each alone: one model, one adapter, one request at a time, nothing kept.
  const std::vector<std::string> names{"tiny", "a", "b"};
  std::vector<std::vector<Json>> alone(3);
  for (size_t m = 0; m < 3; ++m) {
    ServeOptions options;
    if (m) options.adapters = {{names[m], path(names[m])}};
    ServedModel model(path("tiny"), options);
    const Adapter* adapter = m ? model.adapters()[0].second.get() : nullptr;
    for (size_t i = 0; i < 12; ++i) alone[m].push_back(answer_of(model, body_of(i), adapter));
  }
  EXPECT_NE(alone[0], alone[1]);
  EXPECT_NE(alone[1], alone[2]);
  models_.push_back(std::make_unique<ServedModel>(
      path("tiny"),
      ServeOptions{.budget = {.slots = 5, .prefix_bytes = 1 << 20}, .adapters = {{"a", path("a")}, {"b", path("b")}}}));
  listen();
  std::vector<std::thread> threads;
  std::vector<std::string> different(6);
  for (size_t t = 0; t < different.size(); ++t)
    threads.emplace_back([&, t] {
      httplib::Client client("127.0.0.1", port_);
      for (size_t i = 0; i < 36; ++i) {
        const size_t m = (t + i) % 3, which = (i * 5 + t) % 12;
        const std::string model = i % 2 && m ? "tiny:" + names[m] : names[m];
        const auto result = client.Post("/v1/completions", dump(body_of(which, model)), "application/json");
        const Json got = result ? parse_json(result->body, "answer") : Json();
        if (!result || got["choices"] != parse_json(dump(alone[m][which], -1, Invalid::replaced), "alone") ||
            got["model"] != names[m])
          different[t] = cat(model, " ", which, ": ", result ? result->body : "nothing");
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& what : different) EXPECT_EQ(what, "");
}

TEST_F(AdaptersTest, AreChosenByNameAndKeepPromptsOfTheirOwn) {
  make_all();
  models_.push_back(std::make_unique<ServedModel>(
      path("tiny"),
      ServeOptions{.budget = {.prefix_bytes = 1 << 20}, .adapters = {{"a", path("a")}, {"b", path("b")}}}));
  listen();
  const Json list = parse_json(client_->Get("/v1/models")->body, "models")["data"];
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0]["id"], "tiny");
  EXPECT_TRUE(list[0]["parent"].is_null());
  EXPECT_EQ(list[2]["id"], "b");
  EXPECT_EQ(list[2]["parent"], "tiny");
  const auto cached = [&](const std::string& model) {
    const Json answer = post("/v1/completions",
                             cat(R"({"model": ")", model, R"(", "prompt": "In the beginning was", "max_tokens": 2})"));
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"].get<int64_t>();
  };
  for (const char* model : {"tiny", "a", "b"}) EXPECT_EQ(cached(model), 0) << model;
  for (const char* model : {"tiny", "a", "tiny:b"}) EXPECT_EQ(cached(model), 16) << model;
  EXPECT_EQ(refused("/v1/completions", R"({"model": "c", "prompt": "a"})", 404),
            "no model is named 'c'; this server has 'tiny', 'a', 'b'");
  EXPECT_EQ(post("/v1/embeddings", R"({"model": "a", "input": "x"})")["model"], "a");
  EXPECT_NE(post("/v1/embeddings", R"({"model": "a", "input": "x"})")["data"],
            post("/v1/embeddings", R"({"model": "b", "input": "x"})")["data"]);
}

TEST_F(AdaptersTest, WhatIsNoAdapterOfTheModelIsRefused) {
  make_all();
  const auto refused = [&](const Path& directory) {
    return kit::error_of([&] { ServedModel(path("tiny"), {.adapters = {{"x", directory}}}); });
  };
  EXPECT_NE(refused(path("tiny")).find("has no adapter_config.json; give adapter/ of a run"), std::string::npos);
  write_adapter(path("tiny"), path("d"), 9, "dora");
  EXPECT_NE(refused(path("d")).find("of type dora"), std::string::npos);
  const auto write = [&](const std::map<std::string, Tensor>& tensors) {
    write_safetensors(path("a") / "adapter_model.safetensors", tensors, {});
    return refused(path("a"));
  };
  const std::string name = "base_model.model.layers.0.ffn.down.";
  const Tensor a = zeros({2, 24}, DType::f32), b = zeros({16, 2}, DType::f32);
  EXPECT_EQ(write({{name + "lora_A.weight", a}, {name + "lora_B.weight", b}}), "no error");
  EXPECT_NE(write({{name + "lora_A.weight", a}}).find("without"), std::string::npos);
  EXPECT_NE(write({{name + "lora_B.weight", b}}).find("without"), std::string::npos);
  EXPECT_NE(write({}).find("is empty"), std::string::npos);
  EXPECT_NE(write({{name + "lora_A.weight", b}, {name + "lora_B.weight", b}}).find("of another model"),
            std::string::npos);
  EXPECT_NE(write({{"base_model.model.final_norm.weight", zeros({16}, DType::f32)}}).find("no low-rank update"),
            std::string::npos);
  const std::string misspelt = "base_model.model.layers.0.ffn.dwn.";
  EXPECT_NE(write({{misspelt + "lora_A.weight", a}, {misspelt + "lora_B.weight", b}})
                .find("did you mean 'layers.0.ffn.down'"),
            std::string::npos);
  set_value(a, 3, NAN);
  EXPECT_NE(write({{name + "lora_A.weight", a}, {name + "lora_B.weight", b}}).find("not finite"), std::string::npos);
}

TEST_F(AdaptersTest, MemoryHasRoomForThem) {
  make_all();
  const int64_t before = ledger(Device::cpu).current(), most = int64_t(3) << 20;
  ServedModel model(path("tiny"), {.budget = {.slots = 2}, .memory = most, .adapters = {{"a", path("a")}}});
  ledger(Device::cpu).reset_peak();
  const Adapter* adapter = model.adapters()[0].second.get();
  model.score(std::vector<int32_t>(64, 97), 3, adapter);
  answer_of(model, {{"prompt", "abc"}, {"max_tokens", 60}, {"n", 6}}, adapter);
  EXPECT_LE(ledger(Device::cpu).peak() - before, most);
}

}  // namespace
}  // namespace lithe
