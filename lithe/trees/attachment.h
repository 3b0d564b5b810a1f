// How right the heads of words are.
#pragma once

#include "lithe/trees/treebank.h"

namespace lithe {

/// Shares of words, punctuation counted as the evaluation of CoNLL 2018 does: with the right head; and with the right
/// label, too, of which what stands before a colon counts.
struct Attachment {
  int64_t words = 0, heads = 0, labels = 0;
  double uas() const { return words ? double(heads) / double(words) : 0; }
  double las() const { return words ? double(labels) / double(words) : 0; }
  /// Adds a word.
  void add(int32_t gold_head, const std::string& gold_label, int32_t head, const std::string& label);
};

/// Of a file against another. Fails on unlike numbers of sentences, unlike words, and a sentence without a tree.
Attachment attachment(const std::vector<TreeSentence>& gold, const std::vector<TreeSentence>& parsed);

}  // namespace lithe
