// A server of an untrained model, at a port of its own.
#pragma once

#include <httplib.h>

#include <thread>

#include "lithe/base/stop.h"
#include "lithe/serve/server.h"
#include "tests/train/run_kit.h"

namespace lithe {

inline constexpr const char* kChat =
    "{% for m in messages %}\n  <{{ m.role }}>{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<assistant>{% "
    "endif %}";

/// A server of an untrained model of bytes, at a port of its own.
class ServeTest : public ::testing::Test {
 protected:
  void begin(const HttpOptions& http = {}, const ServeOptions& options = {}, int64_t prefill_tokens = 512) {
    add("tiny", options, prefill_tokens);
    listen(http);
  }
  void add(const std::string& name, const ServeOptions& options = {}, int64_t prefill_tokens = 512) {
    models_.push_back(std::make_unique<ServedModel>(make(name, prefill_tokens), options));
  }
  /// The run that is served.
  Path make(const std::string& name, int64_t prefill_tokens = 512) {
    TrainRun run = kit_.run(
        "{vocab_size: 257, hidden_size: 16, num_hidden_layers: 1, max_position_embeddings: 64, mixer: "
        "{type: attention, num_attention_heads: 2}, ffn: {type: swiglu, intermediate_size: 24}}",
        kit::kHeldOutData, "{max_steps: 1, batch_tokens: 64}", name);
    run.initialise = true;
    run.recipe.generate.prefill_tokens = prefill_tokens;
    train(run);
    kit_.scratch.add(name + "/chat_template.jinja", kChat);
    return run.out;
  }
  void listen(const HttpOptions& http = {}) {
    HttpOptions at = http;
    at.port = 0;
    server_ = std::thread([this, at] {
      serve([this]() -> const ServedModels& { return models_; }, at, [this](int port) { port_ = port; });
    });
    while (!port_) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    client_ = std::make_unique<httplib::Client>("127.0.0.1", port_);
  }
  void TearDown() override {
    set_stop_signal(15);
    if (server_.joinable()) server_.join();
    set_stop_signal(0);
  }
  Json post(const std::string& path, const std::string& body, int status = 200) {
    const auto result = client_->Post(path, body, "application/json");
    EXPECT_TRUE(result) << path;
    if (!result) return {};
    EXPECT_EQ(result->status, status) << result->body;
    return parse_json(result->body, path);
  }
  std::string refused(const std::string& path, const std::string& body, int status = 400) {
    const Json answer = post(path, body, status);
    return answer.contains("error") ? answer["error"]["message"].get<std::string>() : dump(answer);
  }
  kit::TrainKit kit_;
  ServedModels models_;
  std::thread server_;
  std::atomic<int> port_ = 0;
  std::unique_ptr<httplib::Client> client_;
};

}  // namespace lithe
