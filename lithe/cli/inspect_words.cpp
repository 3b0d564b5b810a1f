#include "lithe/cli/inspect_words.h"

#include <iostream>

#include "lithe/base/counted.h"
#include "lithe/base/error.h"
#include "lithe/base/json.h"
#include "lithe/data/corpus.h"
#include "lithe/text/code_tokenizer.h"
#include "lithe/text/word_neighbours.h"

namespace lithe {
namespace {

constexpr size_t kExamples = 10;  // groups of words that share a code, and words of each

struct Asked {
  std::string word;  // as the tokenizer cuts it
  std::vector<WordNeighbour> near;
};

struct WordView {
  std::string run;
  bool bits = true;
  WordCollisions collisions;
  std::vector<Asked> asked;
};

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (size_t i = 0; i < std::min(words.size(), kExamples); ++i) out += (i ? " " : "") + words[i];
  return out + (words.size() > kExamples ? " ..." : "");
}

std::string text_of(const WordView& view) {
  const WordCollisions& c = view.collisions;
  const char* code = view.bits ? "code" : "bucket";
  std::string out = cat(view.run, ": ", counted(c.words, "word"), " with ", counted(c.codes, code), "; ", c.colliding,
                        " of them share one (", counted(c.pairs, "pair"), ")\n");
  if (c.colliding) out += cat("largest ", code, ", ", counted(int64_t(c.largest.size()), "word"), "\n");
  for (size_t i = 0; i < std::min(c.shared.size(), kExamples); ++i) out += "  " + joined(c.shared[i]) + "\n";
  if (c.shared.size() > kExamples) out += cat("  and ", c.shared.size() - kExamples, " more\n");
  for (const Asked& asked : view.asked) {
    out += cat(view.bits ? "nearest to '" : "in the bucket of '", asked.word, "':\n");
    for (const WordNeighbour& n : asked.near)
      out += view.bits ? cat("  ", n.word, "  ", counted(n.distance, "bit"), "\n") : cat("  ", n.word, "\n");
    if (asked.near.empty()) out += "  no other word\n";
  }
  return out;
}

Json json_of(const WordView& view) {
  const WordCollisions& c = view.collisions;
  Json out = {{"run", view.run},
              {"words", c.words},
              {"code", view.bits ? "bits" : "bucket"},
              {"codes", c.codes},
              {"colliding_words", c.colliding},
              {"colliding_pairs", c.pairs},
              {"largest", c.largest},
              {"shared", c.shared},
              {"nearest", Json::array()}};
  for (const Asked& asked : view.asked) {
    Json near = Json::array();
    for (const WordNeighbour& n : asked.near)
      near.push_back(view.bits ? Json({{"word", n.word}, {"distance", n.distance}}) : Json({{"word", n.word}}));
    out["nearest"].push_back({{"word", asked.word}, {"words", near}});
  }
  return out;
}

WordView look_at(const std::string& run, const Corpus& corpus, const WordQuestions& questions) {
  check_usage(std::filesystem::is_directory(run), "inspect", "'", run,
              "' is not a directory; give the --out directory of a training run");
  const auto tokenizer = load_tokenizer(run);
  check_usage(is_word_tokenizer(*tokenizer), "inspect", "--words needs a tokenizer of type words; that of '", run,
              "' has a vocabulary or cuts characters, where no two share a code");
  WordTable<bool> seen;
  corpus.for_each_document([&](std::string_view text) {
    for (const std::string& word : distinct_words(*tokenizer, text)) seen.insert(word) = true;
  });
  std::vector<std::string> words;
  for (size_t w = 0; w < seen.size(); ++w) words.emplace_back(seen.word(w));
  WordView out{.run = run,
               .bits = tokenizer->code().payload == TokenCode::Payload::bits,
               .collisions = word_collisions(*tokenizer, words)};
  for (const std::string& word : questions.asked) {
    const int64_t count = int64_t(tokenizer->encode(word).size()) / tokenizer->width();
    check_usage(count == 1, "inspect", "--word '", word, "' must be one word to this tokenizer, but it is ", count);
    const std::string cut = distinct_words(*tokenizer, word).front();
    out.asked.push_back({cut, nearest_words(*tokenizer, cut, words, questions.nearest)});
  }
  return out;
}

}  // namespace

int inspect_words(const std::vector<std::string>& runs, const WordQuestions& questions, bool json) {
  const Corpus corpus(questions.files, {.documents = "line"});
  Json all = {{"runs", Json::array()}};
  for (const std::string& run : runs) {
    const WordView view = look_at(run, corpus, questions);
    if (json)
      all["runs"].push_back(json_of(view));
    else
      std::cout << text_of(view);
  }
  if (json) std::cout << dump(all, 2, Invalid::replaced) << "\n";
  return 0;
}

}  // namespace lithe
