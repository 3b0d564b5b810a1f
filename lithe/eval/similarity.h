// How similar rows of numbers are (representations of texts, words, images), and the nearest of many.
#pragma once

#include "lithe/tensor/tensor.h"

namespace lithe {

/// Higher is more similar. cosine: a.b / (|a| |b|) in [-1, 1], and 0 when either is all zero. euclidean: -|a - b|.
enum class Similarity { cosine, euclidean };

/// Fails on another name than cosine and euclidean.
Similarity similarity_of(const std::string& name);

// Tensors are f32 [N, D] on the CPU with D >= 1 and finite values; sums are in f64. All results are the same for any
// number of threads.

/// Row i of a against row i of b: [N].
Tensor row_similarity(const Tensor& a, const Tensor& b, Similarity measure);
/// Every row of a [N, D] against every row of b [M, D]: [N, M].
Tensor all_similarities(const Tensor& a, const Tensor& b, Similarity measure);

/// The rows nearest to each query, nearest first; equally near ones in the order of their index.
struct Neighbours {
  int64_t k = 0;
  std::vector<int64_t> index;  // [queries, k]
  std::vector<float> score;    // [queries, k]
};
/// Exact search, by comparing each query [Q, D] with each row [N, D]. 1 <= k <= N. With `without_self`, for queries
/// that are the rows themselves (Q = N, k < N), row i is no neighbour of query i.
Neighbours nearest_rows(const Tensor& queries, const Tensor& rows, int64_t k, Similarity measure,
                        bool without_self = false);

/// The mean of the rows [N, D], N >= 1: [D].
Tensor centroid(const Tensor& rows);
/// Rows divided by their lengths, a new tensor; a row of zeros stays one.
Tensor normalize_rows(const Tensor& rows);

}  // namespace lithe
