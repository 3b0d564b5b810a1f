#include "lithe/train/folded_ids.h"

#include <map>

#include "lithe/text/normalizer.h"
#include "lithe/text/unicode.h"
#include "lithe/text/utf8.h"

namespace lithe {
namespace {

// White space becomes one blank, and goes at both ends of what is more than that.
std::string single_blanks(const std::string& text) {
  std::string out;
  for (const char c : text)
    if (c != ' ' && c != '\t' && c != '\r' && c != '\n')
      out += c;
    else if (out.empty() || out.back() != ' ')
      out += ' ';
  if (out == " ") return out;
  const size_t begin = out.find_first_not_of(' '), end = out.find_last_not_of(' ');
  return begin == std::string::npos ? "" : out.substr(begin, end + 1 - begin);
}

}  // namespace

std::vector<int64_t> folded_ids(const Tokenizer& tokenizer) {
  const Normalizer::Step marks = strip_marks(), lower = lower_case();
  std::map<std::string, int64_t> known;
  std::vector<int64_t> out;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string text = tokenizer.is_special(id) ? "" : tokenizer.piece(id, false);
    std::string key;
    if (!text.empty() && is_valid_utf8(text))
      key = single_blanks(lower(marks(normal_form(normal_form(text, NormalForm::nfkc), NormalForm::nfd))));
    // Keys of texts and of spellings are apart.
    key = key.empty() ? cat("\x01", tokenizer.token(id), "\x01", tokenizer.token(id).empty() ? id : 0) : key;
    out.push_back(known.emplace(key, int64_t(known.size())).first->second);
  }
  return out;
}

void set_folded_ids(ModelConfig& model, const Tokenizer& tokenizer) {
  Node list;
  change_mixers(model, [&](PartChoice& part) {
    const Node *fold = part.options.find("fold"), *ids = part.options.find("folded_ids");
    if (part.type != "engram" || !fold || fold->text() != "text" || (ids && !ids->items().empty())) return false;
    if (list.is_null()) {
      list = Node::list();
      for (const int64_t id : folded_ids(tokenizer)) list.push(Node::scalar(cat(id)));
    }
    part.options.set("folded_ids", list);
    return true;
  });
}

}  // namespace lithe
