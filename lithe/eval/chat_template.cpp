#include "lithe/eval/chat_template.h"

#include "lithe/base/error.h"

namespace lithe {
namespace {

constexpr uint64_t kMostBytes = uint64_t(1) << 20;

Json names_of(const Tokenizer& tokenizer) {
  const Specials& specials = tokenizer.specials();
  Json out = Json::object();
  const auto put = [&](const char* name, const std::optional<int32_t>& id) {
    out[name] = id ? Json(tokenizer.decode(std::vector<int32_t>{*id})) : Json("");
  };
  put("bos_token", specials.bos);
  put("eos_token", specials.eos);
  put("pad_token", specials.pad);
  put("unk_token", specials.unk);
  return out;
}

void check_messages(const Json& messages) {
  check_usage(messages.is_array() && !messages.empty(), "chat",
              "messages must be a list of at least one {role, content}");
  for (size_t i = 0; i < messages.size(); ++i) {
    const Json& m = messages[i];
    check_usage(m.is_object() && m.contains("role") && m["role"].is_string(), "chat", "message ", i, " has no role");
    check_usage(m.contains("content") && m["content"].is_string(), "chat", "message ", i, " of role '",
                m["role"].get<std::string>(), "' must have a text as its content");
  }
}

}  // namespace

ChatTemplate::ChatTemplate(const Path& file, const Tokenizer& tokenizer)
    : source_(read_file(file, kMostBytes)),
      template_(source_, file.string(), TemplateDialect::chat),
      names_(names_of(tokenizer)) {}

std::optional<ChatTemplate> ChatTemplate::of_run(const Path& run, const Tokenizer& tokenizer) {
  const Path file = run / "chat_template.jinja";
  if (!std::filesystem::exists(file)) return {};
  return ChatTemplate(file, tokenizer);
}

std::string ChatTemplate::whole(const Json& messages, bool goes_on) const {
  check_messages(messages);
  Json fields = names_;
  fields["messages"] = messages;
  fields["add_generation_prompt"] = goes_on;
  return template_.render(fields);
}

std::string ChatTemplate::text(const Json& messages) const {
  check_messages(messages);
  const bool answered = messages.back()["role"] == "assistant";
  std::string out = whole(messages, !answered);
  if (!answered) return out;
  const std::string content = messages.back()["content"].get<std::string>();
  const size_t at = out.rfind(content);
  check_usage(
      at != std::string::npos, "chat",
      "the template changes the assistant's last message, which cannot be continued then; end with another role");
  out.resize(at + content.size());
  return out;
}

}  // namespace lithe
