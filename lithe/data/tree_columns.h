// What a treebank says of the words of a text, as columns beside its tokens (ModelInput::columns).
#pragma once

#include <map>
#include <span>

#include "lithe/data/batches.h"
#include "lithe/text/tokenizer.h"
#include "lithe/trees/treebank.h"

namespace lithe {

/// Words cut into tokens one by one, so that no token is of two words: all but the first follow a space, or what
/// `space_after` says.
struct WordTokens {
  std::vector<int32_t> tokens;
  std::vector<int32_t> word_of;  // of each token (of Tokenizer::width() ints), from 0
  int64_t words = 0;
  /// Words that have no token: nothing of the tree can be said of them.
  std::vector<int64_t> missing() const;
};
WordTokens encode_words(const Tokenizer& tokenizer, const std::vector<std::string>& words,
                        const std::vector<bool>* space_after = nullptr);

/// Which columns batches have, by name; all tokens of a word have the word's number, a special token has `none`:
///
/// word: the word, from 0 (none: -1). span: the phrase, from 0: base phrases of constituents, else the subtrees below
/// the root word (-1). head: of a dependency tree, the word that is the head, from 1, 0: the root (-1). depth, common:
/// of a constituency tree, LeafPlaces (0). head_probabilities: [N, 2k], k heads and the bits of their f32 probabilities
/// (-1 and 0). Any other: a tag of that column of the treebank, its place in `tags` from 1, 0: it is not there (0).
struct ColumnChoice {
  std::vector<std::string> names;
  std::map<std::string, std::map<std::string, int32_t>> tags;  // column: tag: number

  bool empty() const { return names.empty(); }
  /// `values`: the tags of a column in the order of their numbers.
  void set_tags(const std::string& column, const std::vector<std::string>& values);
};
/// Columns that are no tags.
bool is_tree_column(const std::string& name);
/// The tags that sentences have in a column, sorted, without "_". Fails where one has no such column, or the column
/// holds none.
std::vector<std::string> tags_of(const std::vector<std::shared_ptr<const TreeSentence>>& sentences,
                                 const std::string& column);

/// The columns of a batch's words. Fails, with the sentence's place, where the treebank does not say what a column
/// needs, and (usage) where the batch is of no treebank.
std::map<std::string, std::vector<int32_t>> tree_columns(const ColumnChoice& choice, const Batch& batch);
/// k of head_probabilities where no word has more heads than that.
constexpr int64_t kParserHeads = 8;

}  // namespace lithe
