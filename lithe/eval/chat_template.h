// The text of a conversation, as the model's own template writes it.
#pragma once

#include <optional>

#include "lithe/base/files.h"
#include "lithe/eval/template.h"
#include "lithe/text/tokenizer.h"

namespace lithe {

class ChatTemplate {
 public:
  /// `file` is a template of Jinja, as transformers keeps in chat_template.jinja. Fails (usage) on what is not
  /// supported.
  ChatTemplate(const Path& file, const Tokenizer& tokenizer);
  /// That of a run; none where it has no chat_template.jinja.
  static std::optional<ChatTemplate> of_run(const Path& run, const Tokenizer& tokenizer);

  /// The conversation up to where the assistant goes on. A last message of the assistant is continued. `messages`: a
  /// list of {role, content}. Fails (usage) on other messages, and with the template's own words where it refuses them.
  std::string text(const Json& messages) const;
  /// Tokens of text(). Special tokens are those that the template writes: their spelling in a content is plain text.
  /// Fails (usage) where such a spelling stands in another part of a message, or where the template changes contents
  /// (more than at their ends, which it may strip).
  std::vector<int32_t> tokens(const Json& messages, const Tokenizer& tokenizer) const;
  /// The conversation whole, and with `goes_on` what stands before the assistant's next answer. Fails as text() does.
  std::string whole(const Json& messages, bool goes_on) const;
  const std::string& source() const { return source_; }

 private:
  std::string source_;
  Template template_;
  Json names_;  // bos_token and the like
};

}  // namespace lithe
