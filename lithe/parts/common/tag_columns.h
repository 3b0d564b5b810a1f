// Columns of tags that an embedding reads beside its tokens: number 0 is no tag, 1 and on are the values of the column.
#pragma once

#include "lithe/nn/registry.h"
#include "lithe/ops/embedding.h"

namespace lithe {

/// Option `tags`: names of columns with their values, or how many there are; names alone until a treebank says them.
struct TagNames {
  Node list = Node::map();
  void fields(Fields& f) {
    f.free("tags", list,
           "columns of tags: [upos, deprel], with the values of the training treebank; or {upos: [NOUN, VERB]}; or "
           "{upos: 17}, a number of values that a program gives (ModelInput::columns); empty: token embeddings only");
  }
};

struct TagColumns {
  std::vector<std::string> names;
  std::vector<int64_t> counts;  // of values

  /// `part` is named in errors.
  TagColumns(const char* part, const Node& tags) {
    check_usage(
        tags.items().empty(), part, "the values of the tags are not known: train on a treebank, which has them, ",
        "or give them in embedding.tags: {", tags.items().empty() ? "" : tags.items()[0].text(), ": [first, second]}");
    for (const auto& [name, values] : tags.entries()) {
      names.push_back(name);
      int64_t count = int64_t(values.items().size());
      if (values.is_scalar()) {
        check_usage(values.text().find_first_not_of("0123456789") == std::string::npos && values.text().size() < 8,
                    part, "tags.", name, " must be a list of values or their number, got '", values.text(), "'");
        count = std::stoll(values.text());
      }
      check_usage(count >= 1, part, "tags.", name, " has no values; give one or more, or leave it out");
      counts.push_back(count);
    }
  }
  /// The rows of a table for numbers of column i; -1: no tag.
  Tensor rows(size_t i, const Tensor& tokens, const Pass& pass) const {
    const Tensor* given = pass.given(names[i]);
    check_usage(given != nullptr, "embedding", "the input has no column '", names[i], "' of tags");
    const Tensor out = empty({tokens.dim(0)}, DType::i32, tokens.device());
    if (out.is_meta()) return out;
    check(given->numel() == out.numel(), "embedding", "the column '", names[i], "' must have ", out.numel(),
          " numbers, one a token, got ", given->shape());
    for (int64_t n = 0; n < out.numel(); ++n) {
      const int32_t tag = given->data<int32_t>()[n];
      check(tag >= 0 && tag <= counts[i], "embedding", "the column '", names[i], "' has the number ", tag, " at token ",
            n, "; its ", counts[i], " values count from 1, 0 is none");
      out.data<int32_t>()[n] = tag - 1;
    }
    return out;
  }
};

/// A row a vocabulary entry, for embeddings that read ids.
inline Parameter* word_table(const char* part, const Scope& scope, const Embedding::Args& args) {
  check_usage(args.token_width <= 1, "embedding", part, " reads ids, one int a token, the tokenizer's tokens are ",
              args.token_width, " ints; set data.tokenizer to one with a vocabulary ({type: bpe})");
  return scope.parameter("weight", {Axis::vocabulary(args.vocab_size), Axis::hidden(args.hidden_size)},
                         InitRole::embedding);
}

}  // namespace lithe
