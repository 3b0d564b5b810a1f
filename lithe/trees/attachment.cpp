#include "lithe/trees/attachment.h"

#include "lithe/base/error.h"

namespace lithe {

void Attachment::add(int32_t gold_head, const std::string& gold_label, int32_t head, const std::string& label) {
  const auto universal = [](const std::string& x) { return x.substr(0, x.find(':')); };
  ++words;
  if (head != gold_head) return;
  ++heads;
  labels += universal(label) == universal(gold_label);
}

Attachment attachment(const std::vector<TreeSentence>& gold, const std::vector<TreeSentence>& parsed) {
  check(gold.size() == parsed.size(), "attachment", "the files have ", gold.size(), " and ", parsed.size(),
        " sentences; give two analyses of the same text");
  Attachment out;
  for (size_t i = 0; i < gold.size(); ++i) {
    const TreeSentence &a = gold[i], &b = parsed[i];
    check(a.words == b.words, "attachment", a.place, " and ", b.place, " have other words");
    for (const TreeSentence* s : {&a, &b})
      check(s->heads.heads.size() == s->words.size(), "attachment",
            s->fault.empty() ? s->place + ": no heads" : s->fault);
    for (size_t w = 0; w < a.words.size(); ++w)
      out.add(a.heads.heads[w], a.tags.at("deprel")[w], b.heads.heads[w], b.tags.at("deprel")[w]);
  }
  return out;
}

}  // namespace lithe
