// What a teacher predicted, kept on disk: the largest logits of each row of sequences that were seen.
#pragma once

#include <fstream>
#include <map>
#include <optional>

#include "lithe/base/files.h"
#include "lithe/nn/model_input.h"

namespace lithe {

/// The k largest logits of rows: [rows, k], and the places of them.
struct LargestLogits {
  int64_t rows = 0;
  std::vector<int32_t> places;
  std::vector<float> values;
};

/// A file that grows: each sequence's record has a checksum, so that what a kill cut off is dropped. Whoever made it
/// (teacher, tokenizer, k) stands at its head.
class PredictionCache {
 public:
  /// Opens the file, or begins it. Fails (usage) where it is of another `maker` or another k.
  PredictionCache(const Path& file, uint64_t maker, int64_t k);
  PredictionCache(const PredictionCache&) = delete;

  std::optional<LargestLogits> find(uint64_t sequence);
  void add(uint64_t sequence, const LargestLogits& logits);
  int64_t sequences() const { return int64_t(at_.size()); }

 private:
  Path file_;
  int64_t k_;
  std::map<uint64_t, uint64_t> at_;  // where the record of a sequence begins
  std::fstream stream_;
  std::optional<LargestLogits> read(uint64_t& sequence);
};

/// Identifies sequence b by what it holds: its tokens, and those of its sources and columns.
uint64_t checksum_of_sequence(const ModelInput& input, int64_t b);

/// Of logits [rows, V]; and back, from row `first` on, with every other logit negligible.
LargestLogits largest_logits(const Tensor& logits, int64_t k);
void put_logits(const LargestLogits& from, int64_t k, int64_t first, const Tensor& logits);

}  // namespace lithe
