// What the embeddings of vocabulary-free tokens share: learned rows of the special tokens beside the rows that are
// computed from the payload (TH ch. 2; spec 06).
#pragma once

#include "lithe/nn/registry.h"
#include "lithe/ops/embedding.h"
#include "lithe/ops/hash_embedding.h"

namespace lithe {

/// e = special[code[0]] for special tokens, hash(payload) for ordinary ones, whose row special[5] stays zero.
class CodeEmbedding : public Embedding {
 public:
  /// `reads` says what a code must hold, `tokenizer` which recipe setting gives such codes, of `width` ints.
  CodeEmbedding(const Scope& scope, const Args& args, int64_t width, const std::string& name, const std::string& reads,
                const std::string& tokenizer)
      : dtype_(scope.context().compute), width_(width) {
    check_usage(!args.token_width || args.token_width == width, "embedding", name, " reads tokens of ", width,
                " ints (", reads, "), the tokenizer's are ", args.token_width, "; set data.tokenizer: ", tokenizer);
    special_ = scope.parameter("special", {code_ordinary + 1, Axis::hidden(args.hidden_size)}, InitRole::embedding);
    special_->clear_row(code_ordinary);
  }
  int64_t width() const final { return width_; }
  Var forward(const Tensor& tokens, const Pass&) const final {
    check_codes("embedding", tokens, width_);
    return add_rows(hash(tokens), special_->var(), special_ids(tokens), MissingIds::no_row);
  }

 protected:
  /// Rows of the codes, zeros for special tokens.
  virtual Var hash(const Tensor& codes) const = 0;
  DType dtype() const { return dtype_; }

 private:
  DType dtype_;
  int64_t width_;
  Parameter* special_;
};

}  // namespace lithe
