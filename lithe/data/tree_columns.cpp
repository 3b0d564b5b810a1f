#include "lithe/data/tree_columns.h"

#include <algorithm>
#include <bit>
#include <set>

#include "lithe/base/error.h"
#include "lithe/base/fields.h"

namespace lithe {
namespace {

constexpr const char* kTreeColumns[] = {"word", "span", "head", "depth", "common", "head_probabilities"};

std::vector<int32_t> places_of(const TreeSentence& s, std::span<const int32_t> word_of, bool depth) {
  check(!s.constituents.nodes.empty(), "trees", s.place,
        ": the sentence has no constituents, which the columns depth and common are of; give bracketed trees");
  LeafPlaces places = leaf_places(s.constituents);
  // A word without a token is between those beside it all the same.
  std::set<int32_t> here(word_of.begin(), word_of.end());
  for (size_t w = places.common.size(); w-- > 1;)
    if (!here.count(int32_t(w))) places.common[w - 1] = std::min(places.common[w - 1], places.common[w]);
  return depth ? places.depth : places.common;
}

std::vector<int32_t> spans_of(const TreeSentence& s) {
  const auto m = int64_t(s.words.size());
  if (!s.constituents.nodes.empty()) return base_phrases(s.constituents).of_words(m);
  check(!s.heads.heads.empty(), "trees", s.fault.empty() ? cat(s.place, ": the sentence has no heads") : s.fault,
        ", from which the column span is made");
  return top_phrases(s.heads).of_words(m);
}

// One number a word.
std::vector<int32_t> numbers(const ColumnChoice& choice, const TreeSentence& s, const std::string& name,
                             std::span<const int32_t> word_of) {
  if (name == "span") return spans_of(s);
  if (name == "depth" || name == "common") return places_of(s, word_of, name == "depth");
  if (name == "head") {
    check(!s.heads.heads.empty(), "trees",
          s.fault.empty() ? cat(s.place, ": the sentence has no heads (column 7)") : s.fault,
          ", and the model reads the column head");
    return s.heads.heads;
  }
  std::vector<int32_t> out(s.words.size());
  if (name == "word") {
    for (size_t w = 0; w < out.size(); ++w) out[w] = int32_t(w);
    return out;
  }
  const auto tags = s.tags.find(name);
  const auto known = choice.tags.find(name);
  std::vector<std::string> there;
  for (const auto& [column, values] : s.tags) there.push_back(column);
  check_usage(!s.tags.empty(), "trees", s.place, ": a plain text has no column '", name,
              "', which the model reads; give a treebank (.conllu)");
  check(tags != s.tags.end() && known != choice.tags.end(), "trees", s.place, ": the treebank has no column '", name,
        "', which the model reads; it has ", join(there));
  for (size_t w = 0; w < out.size(); ++w) {
    const auto found = known->second.find(tags->second[w]);
    out[w] = found == known->second.end() ? 0 : found->second;
  }
  return out;
}

std::span<const int32_t> words_of(const Batch& batch, int64_t b) {
  const int64_t begin = batch.offsets[size_t(b)], end = batch.offsets[size_t(b) + 1];
  return std::span(batch.words.word_of).subspan(size_t(begin), size_t(end - begin));
}

void append_probabilities(const Batch& batch, std::vector<int32_t>& column) {
  int64_t heads = kParserHeads;
  for (const auto& s : batch.words.sentences) {
    check(!s->parser.empty(), "trees", s->place,
          ": no parser left probabilities of heads (MISC HeadProbability), and the model reads head_probabilities; "
          "`lithe predict PARSER --conllu --probabilities` writes them");
    for (const HeadProbabilities& p : s->parser) heads = std::max(heads, int64_t(p.size()));
  }
  for (int64_t b = 0; b < batch.sequences(); ++b)
    for (const int32_t word : words_of(batch, b)) {
      const auto& parser = batch.words.sentences[size_t(b)]->parser;
      for (int64_t i = 0; i < heads; ++i) {
        const bool given = word >= 0 && i < int64_t(parser[size_t(word)].size());
        column.push_back(given ? parser[size_t(word)][size_t(i)].first : -1);
        column.push_back(given ? std::bit_cast<int32_t>(parser[size_t(word)][size_t(i)].second) : 0);
      }
    }
}

}  // namespace

std::vector<int64_t> WordTokens::missing() const {
  std::vector<bool> there(size_t(words), false);
  for (const int32_t word : word_of) there[size_t(word)] = true;
  std::vector<int64_t> out;
  for (int64_t w = 0; w < words; ++w)
    if (!there[size_t(w)]) out.push_back(w);
  return out;
}

WordTokens encode_words(const Tokenizer& tokenizer, const std::vector<std::string>& words,
                        const std::vector<bool>* space_after) {
  WordTokens out{.tokens = {}, .word_of = {}, .words = int64_t(words.size())};
  for (size_t w = 0; w < words.size(); ++w) {
    const bool space = w > 0 && (!space_after || (*space_after)[w - 1]);
    const std::vector<int32_t> word = tokenizer.encode(space ? " " + words[w] : words[w]);
    out.tokens.insert(out.tokens.end(), word.begin(), word.end());
    out.word_of.insert(out.word_of.end(), word.size() / size_t(tokenizer.width()), int32_t(w));
  }
  return out;
}

void ColumnChoice::set_tags(const std::string& column, const std::vector<std::string>& values) {
  auto& numbers = tags[column];
  for (const std::string& value : values) numbers.emplace(value, int32_t(numbers.size()) + 1);
}

bool is_tree_column(const std::string& name) {
  return std::find(std::begin(kTreeColumns), std::end(kTreeColumns), name) != std::end(kTreeColumns);
}

std::vector<std::string> tags_of(const std::vector<std::shared_ptr<const TreeSentence>>& sentences,
                                 const std::string& column) {
  std::set<std::string> out;
  for (const auto& s : sentences) {
    const auto found = s->tags.find(column);
    std::vector<std::string> there;
    for (const auto& [name, values] : s->tags) there.push_back(name);
    check_usage(found != s->tags.end(), "trees", s->place, ": the treebank has no column '", column,
                "', which the model reads; it has ", join(there));
    out.insert(found->second.begin(), found->second.end());
  }
  out.erase("_");
  check_usage(sentences.empty() || !out.empty(), "trees", sentences.empty() ? "" : sentences[0]->place,
              ": the treebank's column '", column,
              "', which the model reads, is empty (_) in every sentence; name a column that has tags");
  return {out.begin(), out.end()};
}

std::map<std::string, std::vector<int32_t>> tree_columns(const ColumnChoice& choice, const Batch& batch) {
  std::map<std::string, std::vector<int32_t>> out;
  if (choice.empty()) return out;
  const Batch::Words& words = batch.words;
  check_usage(int64_t(words.sentences.size()) == batch.sequences(), "data", "the model reads the columns ",
              join(choice.names), " of a treebank, and this text stands in none; give a file of CoNLL-U (.conllu) or ",
              "bracketed trees (.ptb, .mrg, .brackets), in a recipe to section task or as source_trees of section ",
              "translation");
  for (const std::string& name : choice.names) {
    std::vector<int32_t>& column = out[name];
    if (name == "head_probabilities") {
      append_probabilities(batch, column);
      continue;
    }
    const int32_t none = name == "word" || name == "span" || name == "head" ? -1 : 0;
    for (int64_t b = 0; b < batch.sequences(); ++b) {
      const auto word_of = words_of(batch, b);
      const std::vector<int32_t> of_words = numbers(choice, *words.sentences[size_t(b)], name, word_of);
      for (const int32_t word : word_of) column.push_back(word < 0 ? none : of_words[size_t(word)]);
    }
  }
  return out;
}

}  // namespace lithe
