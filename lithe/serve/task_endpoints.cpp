#include "lithe/serve/task_endpoints.h"

#include "lithe/serve/body.h"

namespace lithe {
namespace {

Json list_of(const Chosen& chosen, const std::vector<std::string>& texts, Json data) {
  const Tokenizer& tokenizer = chosen.model.read_tokenizer();
  int64_t tokens = 0;
  for (const std::string& text : texts) tokens += int64_t(tokenizer.encode(text).size()) / tokenizer.width();
  return {{"object", "list"},
          {"data", std::move(data)},
          {"model", chosen.name},
          {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}};
}

}  // namespace

Json classify(const Chosen& chosen, const Json& given, const StillWanted& wanted) {
  ServedModel& model = chosen.model;
  check_usage(model.predicts(), "request", "model '", model.name(),
              "' learnt no task of texts alone; a recipe with a section task trains one that did");
  Body body(given);
  body.ignore({"model", "user"});
  const std::vector<std::string> texts = body.texts("input");
  body.finish();
  Json data = model.predict(texts, chosen.adapter, wanted);
  for (size_t i = 0; i < data.size(); ++i) data[i]["index"] = i;
  return list_of(chosen, texts, std::move(data));
}

Json translations(const Chosen& chosen, const Json& given, const StillWanted& wanted) {
  ServedModel& model = chosen.model;
  check_usage(model.translates(), "request", "model '", model.name(), "' does not translate; it is no encoder_decoder");
  check_usage(!model.options().memory, "request",
              "the server plans its memory (--memory), but not that of translations; start it without");
  Body body(given);
  body.ignore({"model", "user"});
  const std::vector<std::string> texts = body.texts("input");
  TranslateConfig config = model.recipe().translate;
  config.num_beams = body.integer("num_beams", config.num_beams, 1, 64);
  config.num_return_sequences = body.integer("n", 1, 1, 64);
  config.length_penalty = body.number("length_penalty", config.length_penalty, -10, 10);
  config.max_new_tokens = body.integer("max_tokens", config.max_new_tokens, 0, 1 << 20);
  body.finish();
  config.validate();
  Json data = Json::array();
  for (const std::vector<Translation>& of : model.translate(texts, config, chosen.adapter, wanted)) {
    Json all = Json::array();
    for (const Translation& t : of)
      all.push_back({{"text", t.text}, {"score", t.score}, {"log_probability", t.log_probability}});
    data.push_back({{"index", data.size()}, {"translations", std::move(all)}});
  }
  return list_of(chosen, texts, std::move(data));
}

}  // namespace lithe
