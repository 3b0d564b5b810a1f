// The slot inside memory attention: what past tokens leave behind.
#pragma once

#include <functional>

#include "lithe/nn/module.h"
#include "lithe/nn/part.h"

namespace lithe {

/// What queries read of the tokens before them: pairs of keys and values, made of those of the tokens that have
/// entered. One softmax runs over the pairs that a query sees, and over its own (spec mem.*).
class Memory : public Part {
 public:
  static constexpr const char* slot = "memory";
  struct Args {
    int64_t heads = 1, kv_heads = 1, key_cols = 0, value_cols = 0;  // cols: of all kv_heads
    int64_t layer_rows = 0;                                         // hidden_size
    /// Not causal, or cross (then it is not causal, either): a whole text has entered before any query reads.
    bool causal = true, cross = false;
    Axis keys() const { return Axis::key_heads(kv_heads, key_cols / kv_heads); }
    Axis values() const { return Axis::key_heads(kv_heads, value_cols / kv_heads); }
    Axis query_heads() const { return Axis::query_heads(heads, kv_heads); }
  };

  /// What is kept of one sequence: tensors whose shapes depend on the number of tokens that entered, and on nothing
  /// else.
  struct Piece {
    Shape shape;
    bool wide = false;  // in f32 at least; else in the dtype of the rows
  };
  using Kept = std::vector<Tensor>;
  virtual std::vector<Piece> kept(int64_t tokens) const = 0;

  /// A stretch of one sequence: queries q [T, heads*d_h], and the pairs k, v [P, cols] that enter, one a token, after
  /// `before` others. Query i, which come in the order of the text, reads the memory as it is when seen[i] tokens have
  /// entered since the sequence began: before <= seen[i] <= before + P.
  struct Stretch {
    Var q, k, v;
    int64_t before = 0;
    std::vector<int64_t> seen;
    Tensor lengths = {};  // where the memory reads_lengths(): of each key and key head [P, kv_heads]
    double scale = 1;     // of logits
    bool own = true;      // query i also sees pair seen[i] - before, which enters behind it
  };
  /// Pairs [begin, end) of a reading.
  struct Range {
    int64_t begin, end;
  };
  struct Reading {
    Var k, v;  // [S, cols]
    /// Adds the pairs that a query (from 0) of a query head sees.
    std::function<void(int64_t head, int64_t query, std::vector<Range>& out)> see;
    bool by_head = false;  // heads see different pairs
    Var bias;              // [S, heads] in f32 (f64 for f64), added to the logits of a pair; undefined: nothing
    /// The first so many pairs are read by a softmax of their own, whose result and that of the others are joined with
    /// the shares sigmoid(gate) and 1 - sigmoid(gate) of each head; 0: one softmax.
    int64_t apart = 0;
    Var gate;  // [heads]
    /// [T, heads*d_v], added to what each query's softmax reads, to that of the first pairs where these stand apart;
    /// for memories that make a context without pairs. Undefined: nothing.
    Var context;
  };
  /// Reads, and brings `kept` (of `before` tokens) forward over the stretch. What was kept is a constant to gradients.
  /// On meta, where there is nothing to choose by, a memory may say that everything is seen.
  virtual Reading read(const Stretch& in, Kept& kept) const = 0;

  /// Reads the lengths of keys before positions turn them: what turning would round away.
  virtual bool reads_lengths() const { return false; }
  /// A query's own token has entered when it reads, and its pair does not stand beside the memory's.
  virtual bool includes_own() const { return false; }
  /// A query sees its own pair beside the memory's (where that does not include it).
  virtual bool beside_own() const { return true; }
};

}  // namespace lithe
