// What a model reads.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lithe/ops/sequences.h"

namespace lithe {

/// What a model reads, whatever runs it: training, evaluation, decoding (Model::run).
struct ModelInput {
  /// Tokens of another kind that stand among those of the text, as the patches of an image do: each has the width that
  /// its own embedding reads (recipe: model.modalities), and takes the place of the token in its row.
  struct Guests {
    Tensor tokens;              // i32 [M] or [M, token width]
    std::vector<int64_t> rows;  // [M], increasing: where each stands among the N rows
  };
  Tensor tokens;        // i32 [N], or codes i32 [N, token_width]
  Sequences sequences;  // of the N rows, with positions of their own where rows were moved
  /// What each row has beside its token, [N] or [N, c], by name: token_type_ids, tags, heads of trees.
  std::map<std::string, Tensor> columns = {};
  std::map<std::string, Guests> modalities = {};
  /// What cross-attention reads, one sequence a sequence, by the name of the encoder that reads it. While a state
  /// decodes, it keeps what it needs of them (Model::read_sources), and there are none here.
  std::map<std::string, ModelInput> sources = {};

  /// Rows that are read, those of the sources counted.
  int64_t rows() const {
    int64_t out = sequences.rows();
    for (const auto& [name, source] : sources) out += source.rows();
    return out;
  }
};

/// The name of the source of a model with one encoder.
inline constexpr const char* kSource = "source";

}  // namespace lithe
