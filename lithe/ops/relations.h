// Losses of how rows relate to each other, against the relations of another model's rows.
#pragma once

#include <string>

#include "lithe/autograd/var.h"
#include "lithe/ops/sequences.h"

namespace lithe {

/// How rows relate, of all that are given.
enum class Relation {
  distance,  // of each pair the distance, divided by the mean over the pairs
  angle,     // of each three the cosine of the angle at one of them
  gram,      // of each two the product, both around the mean of all rows
};
/// Rows that a relation needs at least: 3 of angles, else 2.
int64_t least_rows(Relation relation);

/// scale * the mean over all pairs (or threes) of how far the relation of rows x [B,C] is from that of other [B,C'],
/// which has no gradient: by Huber's loss, d^2 / 2 up to |d| = 1 and |d| - 1/2 above, of the gram's by d^2. A scalar
/// [1]. Fails (usage) on fewer rows than least_rows().
Var relation_loss(Relation relation, const Var& x, const Tensor& other, double scale);

/// The rows that attention-like relations are of: softmax over the tokens of a sequence of a[i] . b[j] / sqrt(width of
/// a relation's head).
template <class T>
struct RelatedRows {
  T a, b;  // [N, heads * width]; may be the same
};
/// scale * the mean over relation heads and rows of KL(other || this): columns are cut into `heads` relation heads, of
/// each model's own width. A scalar [1]. Fails (usage) where the columns do not divide, or a and b differ in them.
Var attention_relation_loss(const RelatedRows<Var>& x, const RelatedRows<Tensor>& other, const Sequences& sequences,
                            int64_t heads, double scale);

}  // namespace lithe
