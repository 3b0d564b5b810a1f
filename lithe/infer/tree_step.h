// Texts that are trees: brackets and words, as lithe/trees/linear.h writes them.
#pragma once

#include "lithe/infer/logit_steps.h"
#include "lithe/text/tokenizer.h"

namespace lithe {

/// Only tokens follow after which the text behind the prompt can still become one tree: symbols between spaces, each a
/// word, an open bracket with its label, or the close bracket of the last label that is open. Tokens of `end` follow a
/// whole tree alone, and nothing else follows it. Where LogitRow::tokens_left is known, brackets close in time: a token
/// is left out if the tree could not be closed in the tokens behind it; a limit that holds no tree fails (usage), if
/// tokens write single letters. With `labels` brackets have no others. The tokenizer must outlive the
/// step.
std::shared_ptr<const LogitStep> tree_step(const Tokenizer& tokenizer, const std::vector<int32_t>& end,
                                           std::vector<std::string> labels = {});

/// Whether a text may still become a tree, and whether it is one.
struct TreePrefix {
  bool possible = false, whole = false;
};
TreePrefix tree_prefix(std::string_view text, const std::vector<std::string>& labels = {});

}  // namespace lithe
