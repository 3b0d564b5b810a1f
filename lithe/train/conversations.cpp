#include "lithe/train/conversations.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>

#include "lithe/base/counted.h"
#include "lithe/base/log.h"
#include "lithe/data/corpus.h"
#include "lithe/data/documents.h"

namespace lithe {
namespace {

// `where` has quotes of its own.
Json parsed_record(std::string_view record, const std::string& where) {
  try {
    return parse_json(record, "");
  } catch (const Error& error) {
    const std::string what = error.what(), origin = "'': ";  // that of parse_json
    const size_t at = what.find(origin);
    fail_usage("data", where, ": ", at == what.npos ? what : what.substr(at + origin.size()));
  }
}

// Each record of the files, in order, with its place.
void for_each_record(const std::vector<std::string>& files, const std::function<void(const Json&, std::string)>& f) {
  const Corpus corpus(files, {});
  for (const Path& path : corpus.files()) {
    const std::string name = path.string();
    check_usage(name.ends_with(".jsonl") || name.ends_with(".ndjson"), "data", "'", name,
                "' holds no conversations; data.messages reads JSON lines (.jsonl or .ndjson, not compressed)");
    const std::string text = read_file(path);
    int64_t line = 0;
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      const std::string_view record(text.data() + at, end - at);
      at = end + 1;
      ++line;
      if (is_blank(record)) continue;
      const std::string where = cat("'", name, "' line ", line);
      f(parsed_record(record, where), where);
    }
  }
}

const Json& messages_of(const Json& record, const std::string& field, const std::string& where) {
  check_usage(record.is_object() && record.contains(field), "data", where, " has no key '", field,
              "' with a list of messages; name it in data.messages");
  return record[field];
}

std::string all_text(const Json& messages) {
  std::string out;
  if (messages.is_array())
    for (const Json& m : messages)
      if (m.is_object() && m.contains("content") && m["content"].is_string())
        out += m["content"].get<std::string>() + "\n";
  return out;
}

std::vector<Conversation> read_conversations(const std::vector<std::string>& files, const DataConfig& config,
                                             const ChatTemplate& chat, const Tokenizer& tokenizer) {
  std::vector<Conversation> out;
  for_each_record(files, [&](const Json& record, const std::string& where) {
    out.push_back(conversation_of(messages_of(record, config.messages, where), chat, tokenizer, where));
  });
  check_usage(!out.empty(), "data", "there is no conversation in ", files.front());
  return out;
}

TokenStore store_of(std::span<const Conversation> conversations, const Tokenizer& tokenizer) {
  const int64_t size = tokenizer.vocab_size();
  std::vector<std::vector<int32_t>> documents;
  int64_t learnt = 0;
  for (const Conversation& c : conversations) {
    documents.emplace_back(c.tokens);
    for (size_t i = 0; i < c.tokens.size(); ++i)
      if (c.learnt[i]) documents.back()[i] += int32_t(size), ++learnt;
  }
  log_info(counted(int64_t(documents.size()), "conversation"), ", ", learnt, " tokens of answers");
  return TokenStore::from_documents(documents,
                                    {.tokenizer_fingerprint = tokenizer.fingerprint(), .vocab_size = 2 * size});
}

std::shared_ptr<const Tokenizer> tokenizer_of_conversations(const DataConfig& config) {
  uint64_t fingerprint = 0;
  const ForEachText texts = [&](const std::function<void(std::string_view)>& f) {
    for_each_record(config.files, [&](const Json& record, const std::string& where) {
      f(all_text(messages_of(record, config.messages, where)));
    });
  };
  if (learns_from_texts(config.tokenizer))
    texts([&](std::string_view text) { fingerprint = checksum(text.data(), text.size(), fingerprint); });
  return tokenizer_of(config.tokenizer, texts, fingerprint, resolve_cache_directory(config.cache_directory));
}

}  // namespace

Conversation conversation_of(const Json& messages, const ChatTemplate& chat, const Tokenizer& tokenizer,
                             const std::string& where) {
  Conversation out;
  std::string done;
  const auto add = [&](const std::string& whole, bool learnt) {
    check_usage(whole.starts_with(done), "data", where,
                ": the chat template writes what stands before otherwise once a conversation goes on, so that nobody "
                "can say where an answer begins; give data.chat_template another template");
    for (const int32_t id : tokenizer.encode_with_specials(std::string_view(whole).substr(done.size()))) {
      out.tokens.push_back(id);
      out.learnt.push_back(learnt);
    }
    done = whole;
  };
  try {
    Json before = Json::array();
    for (const Json& message : messages) {
      if (!before.empty() && message.is_object() && message.value("role", Json()) == "assistant") {
        add(chat.whole(before, true), false);
        before.push_back(message);
        add(chat.whole(before, false), true);
        continue;
      }
      before.push_back(message);
    }
  } catch (const Error& error) {
    if (error.operation() == "data") throw;
    fail_usage("data", where, ": ", error.what());
  }
  check_usage(out.tokens.size() > 1 && std::find(out.learnt.begin(), out.learnt.end(), 1) != out.learnt.end(), "data",
              where, ": the messages have no answer of role assistant behind another message");
  return out;
}

Dataset load_conversations(const DataConfig& config, std::shared_ptr<const Tokenizer> existing) {
  check_usage(!config.files.empty(), "data", "no conversations are given; name at least one file in data.files");
  check_usage(config.validation_files.empty() || config.validation_fraction == 0, "data",
              "validation_files and validation_fraction are both given; keep one");
  check_usage(!config.chat_template.empty(), "data",
              "data.messages needs data.chat_template, a file with the template that writes conversations; the model "
              "of from_pretrained has none of its own");
  if (!config.validation_files.empty())
    refuse_shared_files(Corpus(config.files, {}), Corpus(config.validation_files, {}));
  Dataset out;
  out.answers = true;
  out.tokenizer = existing ? std::move(existing) : tokenizer_of_conversations(config);
  check_usage(out.tokenizer->width() == 1, "data", "conversations need a tokenizer with a vocabulary");
  const ChatTemplate chat(config.chat_template, *out.tokenizer);
  const std::vector<Conversation> all = read_conversations(config.files, config, chat, *out.tokenizer);
  const auto held_out = size_t(std::ceil(config.validation_fraction * double(all.size())));
  check_usage(held_out < all.size(), "data", "validation_fraction ", config.validation_fraction,
              " leaves no conversation to learn from");
  const std::span<const Conversation> conversations(all);
  out.train = store_of(conversations.first(all.size() - held_out), *out.tokenizer);
  if (held_out) out.validation = store_of(conversations.last(held_out), *out.tokenizer);
  if (!config.validation_files.empty())
    out.validation =
        store_of(read_conversations(config.validation_files, config, chat, *out.tokenizer), *out.tokenizer);
  return out;
}

Batch AnswersOnly::batch(int64_t epoch, int64_t index) const {
  Batch out = of_->batch(epoch, index);
  for (int32_t& token : out.tokens) token %= int32_t(vocab_size_);
  for (int32_t& label : out.labels) label = label >= vocab_size_ ? label - int32_t(vocab_size_) : -1;
  return out;
}

}  // namespace lithe
