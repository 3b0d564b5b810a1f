// Treebanks: CoNLL-U (universaldependencies.org/format.html) and bracketed trees as the Penn Treebank has them.
#pragma once

#include <functional>
#include <map>
#include <string_view>

#include "lithe/trees/tree.h"

namespace lithe {

/// What a parser says of the head of a word: heads (0: the root) and their probabilities, which sum to 1.
using HeadProbabilities = std::vector<std::pair<int32_t, float>>;

/// A sentence of a treebank.
struct TreeSentence {
  std::string place;               // file and line of its first word
  std::vector<std::string> words;  // at least one
  std::vector<bool> space_after;   // of each word, in the text
  /// By the name of a column, one a word, "_" where there is none. CoNLL-U: lemma, upos, xpos, feats, deprel; brackets:
  /// pos.
  std::map<std::string, std::vector<std::string>> tags;
  std::map<std::string, std::string> comments;           // # key = value
  DepTree heads;                                         // empty where none are given, or they make no tree
  std::string fault;                                     // why they make none, with its place; else empty
  ConstTree constituents;                                // without nodes: none
  std::vector<HeadProbabilities> parser;                 // one a word; empty: no parser left any
  std::vector<std::vector<std::string>> columns;         // CoNLL-U, where lines are kept: of each word, as they stand
  std::vector<std::pair<int64_t, std::string>> between;  // other lines, as they stand, before a word (from 0)

  /// The words with the spaces of the text between them.
  std::string text() const;
};

/// Hears what is wrong: "file:line: what". A reader that must have all right throws.
using OnProblem = std::function<void(const std::string& problem)>;
/// Throws, naming `operation`.
OnProblem refusing(std::string operation);

constexpr int64_t kLongSentence = 1000;  // words; more are a sign of a missing empty line

/// The sentences of a CoNLL-U text, valid UTF-8. Ranges (1-2) and empty nodes (8.1) are passed over; the words of a
/// range have no space between. MISC has SpaceAfter=No, and HeadProbability=2:0.9,0:0.1 where a parser left it. A
/// sentence with a wrong line (columns, an id out of order, an empty form) is a problem and left out; one whose heads
/// make no tree is kept with its fault, which is a problem, too, and so is one of more than kLongSentence words.
/// `keep_lines`: for to_conllu(), TreeSentence::columns and between are filled.
std::vector<TreeSentence> parse_conllu_trees(std::string_view text, const std::string& name, const OnProblem& problem,
                                             bool keep_lines = false);

/// The sentences of bracketed trees, of any number of lines each: an outer bracket without a label is dropped, nodes of
/// empty elements (-NONE-) are left out, -LRB- and its like are brackets. A tree whose brackets do not fit is a
/// problem; reading goes on at the next line that begins with a bracket.
std::vector<TreeSentence> parse_bracketed_trees(std::string_view text, const std::string& name,
                                                const OnProblem& problem);

/// By the name: .conllu, or brackets (.ptb, .mrg, .brackets); .gz and .zst may follow. Fails (usage) on another.
enum class TreeFormat { conllu, brackets };
TreeFormat tree_format(const std::string& name);
bool is_treebank(const std::string& name);

/// A sentence as CoNLL-U, an empty line behind it: as it was read, with the heads, labels and probabilities of the
/// parser that it has now.
std::string to_conllu(const TreeSentence& sentence);
/// A line of text as a sentence of which nothing is known: words between white space, punctuation at their ends and
/// English endings (n't, 's, 'll) apart, as treebanks have them.
TreeSentence plain_sentence(std::string_view line);

}  // namespace lithe
