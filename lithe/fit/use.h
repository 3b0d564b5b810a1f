// What one use of a model costs on this machine: by the cost model, and measured.
#pragma once

#include "lithe/bench/ceilings.h"
#include "lithe/kernels/kernel.h"
#include "lithe/model/model.h"

namespace lithe::fit {

/// One text at batch 1: a model that continues texts reads half of `length` tokens and adds the rest, and its time is
/// that of one added token; a translator writes as many tokens as it reads, with `beams`; another one reads a text of
/// `length` tokens. Their time is that of the whole.
struct UseShape {
  bool continues = false, translates = false;
  int64_t length = 0, beams = 1;
};

struct Use {
  double seconds = 0;
  int64_t peak = 0;  // bytes of weights, state and rows
};

/// Fails where a signal asked to stop, saying that the same command goes on.
void heed();

/// The median of all tokens (texts), after a warm-up. `tokens`: at least UseShape::length. Not of translators
/// (translate_each).
/// `exit`: a rule by which rows leave the model; empty: none.
Use measure_use(const Model& model, const std::vector<int32_t>& tokens, const UseShape& shape,
                const std::string& exit = "");

/// Exact cost of that token (text) with f32 numbers, from a pass over a model without data; of `rows` tokens in one
/// pass.
kernels::Cost use_cost(const ModelConfig& config, const UseShape& shape, int64_t rows = 1);

/// What this machine can do a second, measured now.
struct MachineRates {
  double f32 = 0, bf16 = 0, int8 = 0;  // operations
  double memory = 0, cache = 0;        // bytes read; cache 0: unknown
  static MachineRates measured();
  /// The least seconds that a use can take: by its operations or by its bytes, of which weights are `weight_bytes`
  /// where they would be `weight_bytes_f32` in f32. `format`: of the weights, f32, bf16, int8 or int4.
  double least_seconds(const kernels::Cost& cost, const std::string& format, double weight_bytes,
                       double weight_bytes_f32) const;
};

}  // namespace lithe::fit
