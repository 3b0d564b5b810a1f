#include "lithe/eval/chat_template.h"

#include "lithe/base/error.h"
#include "lithe/eval/python_value.h"

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

// A text that occurs nowhere in the messages or the template.
std::string marker_beside(const Json& messages, const std::string& source) {
  const std::string all = dump(messages, -1, Invalid::replaced) + source;
  std::string out;
  for (int64_t n = 0; out.empty() || all.find(out) != std::string::npos; ++n) out = cat("litheContent", n, "n");
  return out;
}

const std::string& content_of(const Json& message) { return message["content"].get_ref<const std::string&>(); }

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
  if (messages.back()["role"] != "assistant") return whole(messages, true);
  // The content may occur elsewhere, too; a marker in its place does not.
  const std::string content = content_of(messages.back()), marker = marker_beside(messages, source_);
  Json marked = messages;
  marked.back()["content"] = marker;
  std::string out = whole(marked, false);
  const size_t at = out.find(marker);
  const bool once = at != std::string::npos && out.find(marker, at + 1) == std::string::npos;
  if (once) out.resize(at);
  const std::string written = whole(messages, false);
  const bool kept = once && written.starts_with(out) &&
                    (written.compare(at, content.size(), content) == 0 ||
                     std::string_view(written).substr(at).starts_with(python_strip(content)));
  check_usage(
      kept, "chat",
      "the template changes the assistant's last message, which cannot be continued then; end with another role");
  return out + content;
}

std::vector<int32_t> ChatTemplate::tokens(const Json& messages, const Tokenizer& tokenizer) const {
  const std::string all = text(messages);
  const auto plain = [&](const std::string& one) {
    return tokenizer.encode(one) == tokenizer.encode_with_specials(one);
  };
  bool all_plain = true;
  for (size_t i = 0; i < messages.size(); ++i)
    for (const auto& [key, value] : messages[i].items()) {
      if (!value.is_string() || plain(value.get_ref<const std::string&>())) continue;
      check_usage(key == "content", "chat", "message ", i, " has the spelling of a special token in its ", key,
                  "; leave it out");
      all_plain = false;
    }
  // Tokens may reach over the ends of contents, as those of transformers do.
  if (all_plain) return tokenizer.encode_with_specials(all);
  const std::string marker = marker_beside(messages, source_);
  std::vector<std::string> marks;
  Json marked = messages;
  for (size_t i = 0; i < messages.size(); ++i) marked[i]["content"] = marks.emplace_back(cat(marker, i, "e"));
  const std::string form = text(marked);
  std::vector<int32_t> out;
  size_t at = 0;
  const auto take = [&](const std::string& part, bool specials) {
    if (all.compare(at, part.size(), part) != 0) return false;
    const auto ids = specials ? tokenizer.encode_with_specials(part) : tokenizer.encode(part);
    out.insert(out.end(), ids.begin(), ids.end());
    at += part.size();
    return true;
  };
  bool same = true;
  for (size_t from = 0; same;) {
    const size_t mark = form.find(marker, from);
    same = take(form.substr(from, mark == std::string::npos ? mark : mark - from), true);
    if (mark == std::string::npos) break;
    size_t i = 0;
    while (i < marks.size() && form.compare(mark, marks[i].size(), marks[i]) != 0) ++i;
    same = same && i < marks.size() &&
           (take(content_of(messages[i]), false) || take(python_strip(content_of(messages[i])), false));
    if (same) from = mark + marks[i].size();
  }
  check_usage(same && at == all.size(), "chat",
              "a message has the spelling of a special token, and the template changes messages, so that nobody can "
              "say which special tokens are its own; leave that spelling out");
  return out;
}

}  // namespace lithe
