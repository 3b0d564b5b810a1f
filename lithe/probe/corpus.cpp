// Files of sentences to probe.
#include "lithe/base/fields.h"
#include "lithe/base/json.h"
#include "lithe/data/text_file.h"
#include "lithe/data/translation.h"
#include "lithe/data/tree_columns.h"
#include "lithe/probe/tasks.h"

namespace lithe::probe {
namespace {

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    if (end > at) out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

Span span_of(const Json& target, const char* key, int64_t words, const std::string& where) {
  const auto found = target.find(key);
  if (found == target.end() || found->is_null()) return {};
  check(found->is_array() && found->size() == 2 && (*found)[0].is_number_integer() && (*found)[1].is_number_integer(),
        "probe", where, ": ", key, " must be [begin, end), two numbers of words from 0");
  const Span span{(*found)[0].get<int64_t>(), (*found)[1].get<int64_t>()};
  check(span.begin >= 0 && span.begin < span.end && span.end <= words, "probe", where, ": ", key, " [", span.begin,
        ", ", span.end, ") must be in a text of ", words, " words");
  return span;
}

void read_spans(Corpus& out, const std::string& text, int64_t most) {
  out.has_spans = true;
  int64_t line = 0;
  for (size_t at = 0; at < text.size() && (!most || int64_t(out.sentences.size()) < most);) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string row = text.substr(at, end - at), where = cat(out.file, ":", ++line);
    at = end + 1;
    if (row.find_first_not_of(" \t\r") == std::string::npos) continue;
    const Json json = parse_json(row, where);
    check(json.is_object() && json.contains("text") && json["text"].is_string() && json.contains("targets") &&
              json["targets"].is_array(),
          "probe", where, ": a line must be an object with \"text\" and a list \"targets\"");
    TreeSentence sentence;
    sentence.words = words_of(json["text"].get<std::string>());
    sentence.space_after.assign(sentence.words.size(), true);
    sentence.place = where;
    std::vector<SpanTarget>& targets = out.spans.emplace_back();
    for (const Json& t : json["targets"]) {
      check(t.is_object() && t.contains("label") && (t["label"].is_string() || t["label"].is_array()), "probe", where,
            ": a target must have a \"label\", a text or a list of texts");
      const auto words = int64_t(sentence.words.size());
      SpanTarget target{span_of(t, "span1", words, where), span_of(t, "span2", words, where), {}};
      check(target.first.size() > 0, "probe", where, ": a target must have span1");
      for (const Json& label : t["label"].is_array() ? t["label"] : Json::array({t["label"]})) {
        check(label.is_string(), "probe", where, ": a label must be a text");
        target.labels.push_back(label.get<std::string>());
      }
      targets.push_back(std::move(target));
    }
    out.sentences.push_back(std::move(sentence));
  }
}

}  // namespace

Corpus read_corpus(const Path& file, int64_t most) {
  Corpus out{.file = file.string()};
  if (file.extension() == ".jsonl") {
    read_spans(out, read_text(file, "probe"), most);
  } else {
    for (TreeSentence& s : read_treebank(file, "probe")) {
      if (most && int64_t(out.sentences.size()) == most) break;
      if (!s.fault.empty())
        ++out.left_out;
      else
        out.sentences.push_back(std::move(s));
    }
  }
  check_usage(!out.sentences.empty(), "probe", "'", out.file, "' has no sentence to probe");
  return out;
}

}  // namespace lithe::probe
