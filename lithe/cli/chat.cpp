#include <iostream>

#include "lithe/base/counted.h"
#include "lithe/base/stop.h"
#include "lithe/cli/command.h"
#include "lithe/eval/chat_template.h"
#include "lithe/infer/adapter.h"
#include "lithe/infer/generate.h"
#include "lithe/infer/load.h"
#include "lithe/recipe/recipe.h"

namespace lithe {
namespace {

struct ChatOptions {
  std::string model, weights, precision = "f32", chat_template, system, adapter;
  std::optional<double> temperature, top_p;
  std::optional<int64_t> max_new_tokens, top_k, seed;
};

void show_commands() {
  std::cout
      << "/clear forgets the conversation, /undo the last question and its answer, /history shows it, /exit ends\n";
}

class Conversation {
 public:
  explicit Conversation(std::string system) : system_(std::move(system)) { clear(); }
  void clear() {
    messages_ = Json::array();
    if (!system_.empty()) add("system", system_);
  }
  void add(const char* role, const std::string& content) {
    messages_.push_back({{"role", role}, {"content", content}});
  }
  void undo() {
    while (!messages_.empty() && messages_.back()["role"] == "assistant") messages_.erase(messages_.size() - 1);
    if (!messages_.empty() && messages_.back()["role"] == "user") messages_.erase(messages_.size() - 1);
  }
  // The first question and what stands between it and the next one go. False: there is no next one.
  bool drop_oldest() {
    std::vector<size_t> questions;
    for (size_t i = 0; i < messages_.size(); ++i)
      if (messages_[i]["role"] == "user") questions.push_back(i);
    if (questions.size() < 2) return false;
    for (size_t i = questions[0]; i < questions[1]; ++i) messages_.erase(questions[0]);
    return true;
  }
  const Json& messages() const { return messages_; }

 private:
  std::string system_;
  Json messages_;
};

// What the model answers, written as it comes.
std::string answer(const LoadedModel& loaded, std::vector<int32_t> tokens, const GenerateConfig& config,
                   const LowRankUpdates* adapter) {
  DecodeLoop loop(*loaded.model, {.slots = 1, .longest = int64_t(1) << 30});
  std::string out;
  std::exception_ptr error;
  DecodeRequest request = text_request(
      *loaded.tokenizer, std::move(tokens), false, config,
      [](std::string_view piece) {
        std::cout << piece;
        flush_results();
        return stop_signal() == 0;
      },
      [&](Generation&& result) { out = std::move(result.text), error = result.error; });
  request.adapter = adapter;
  loop.submit(std::move(request));
  while (loop.step())
    if (stop_signal()) loop.interrupt();
  if (error) std::rethrow_exception(error);
  std::cout << "\n";
  flush_results();
  return out;
}

// The conversation without its oldest turns, where the model has too few positions for all; none: the last question
// alone is too long, and goes.
std::optional<std::vector<int32_t>> prompt_that_fits(Conversation& conversation, const ChatTemplate& chat,
                                                     const LoadedModel& loaded, int64_t max_new_tokens) {
  const int64_t positions = loaded.model->position_limit();
  const int64_t room = std::max<int64_t>(1, std::min(max_new_tokens, positions / 4));  // of the answer
  Conversation shorter = conversation;
  int64_t dropped = 0;
  for (;; ++dropped) {
    std::vector<int32_t> tokens = chat.tokens(shorter.messages(), *loaded.tokenizer);
    const auto n = int64_t(tokens.size());
    if (positions && n + room > positions + 1 && shorter.drop_oldest()) continue;
    if (positions && n > positions) {
      std::cout << "this question has " << n << " tokens with what the template writes around it, and the model has "
                << "positions for " << positions << "; ask a shorter one\n";
      conversation.undo();
      return {};
    }
    if (dropped)
      std::cout << "(the model has positions for " << positions << " tokens: the oldest "
                << (dropped == 1 ? "turn" : counted(dropped, "turn")) << " of the conversation "
                << (dropped == 1 ? "is" : "are") << " forgotten)\n";
    conversation = std::move(shorter);
    return tokens;
  }
}

int run_chat(const ChatOptions& o) {
  catch_stop_signals();
  const LoadedModel loaded = load_model(o.model, o.weights, o.precision);
  loaded.model->check_predicts_next("chat");
  std::optional<Adapter> adapter;
  if (!o.adapter.empty()) adapter.emplace(*loaded.model, o.adapter, o.model, o.weights);
  std::optional<ChatTemplate> chat = o.chat_template.empty() ? ChatTemplate::of_run(o.model, *loaded.tokenizer)
                                                             : ChatTemplate(o.chat_template, *loaded.tokenizer);
  check_usage(
      chat.has_value(), "chat", "'", o.model,
      "' has no chat_template.jinja, so that nobody knows how its conversations are written; give --chat-template "
      "FILE, or use lithe generate");
  GenerateConfig config = recipe_of_run(o.model).generate;
  take_given(config.temperature, o.temperature);
  take_given(config.top_p, o.top_p);
  take_given(config.top_k, o.top_k);
  take_given(config.max_new_tokens, o.max_new_tokens);
  take_given(config.seed, o.seed);
  if (config.temperature == 0) config.do_sample = false, config.temperature = 1;
  config.validate();
  Conversation conversation(o.system);
  show_commands();
  for (std::string line; !stop_signal() && (std::cout << "> ", flush_results(), std::getline(std::cin, line));) {
    if (line.empty()) continue;
    if (line == "/exit") break;
    if (line == "/clear") conversation.clear();
    if (line == "/undo") conversation.undo();
    if (line == "/history")
      for (const Json& m : conversation.messages())
        std::cout << m["role"].get<std::string>() << ": " << m["content"].get<std::string>() << "\n";
    if (line[0] == '/') {
      if (line != "/clear" && line != "/undo" && line != "/history") show_commands();
      continue;
    }
    conversation.add("user", line);
    if (auto prompt = prompt_that_fits(conversation, *chat, loaded, config.max_new_tokens))
      conversation.add("assistant",
                       answer(loaded, std::move(*prompt), config, adapter ? &adapter->updates() : nullptr));
  }
  std::cout << "\n";
  return stop_signal() ? 128 + stop_signal() : 0;
}

}  // namespace

Command add_chat(CommandLine& app) {
  auto o = std::make_shared<ChatOptions>();
  app.add_option("model", o->model, "directory of a training run or an imported model").required();
  add_weights_options(app, o->weights, o->precision);
  add_adapter_option(app, o->adapter);
  app.add_option("--chat-template", o->chat_template,
                 "file with a Jinja template; default: the run's chat_template.jinja");
  app.add_option("--system", o->system, "system message at the beginning of the conversation");
  app.add_option("--temperature", o->temperature, "below 1 makes likely tokens likelier; 0 is greedy");
  app.add_option("--top-k", o->top_k, "sample from the k most likely tokens only").non_negative();
  app.add_option("--top-p", o->top_p, "sample from the smallest set of tokens with this total probability");
  app.add_option("--max-new-tokens", o->max_new_tokens, "largest number of tokens of an answer").positive();
  app.add_option("--seed", o->seed, "random seed of sampling").non_negative();
  add_threads_option(app);
  app.footer(
      "Example: lithe chat runs/llama --system \"You are brief.\"\nSettings that are not given have the values of the "
      "run's recipe.");
  return [o] { return run_chat(*o); };
}

}  // namespace lithe
