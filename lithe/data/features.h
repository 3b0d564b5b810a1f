// Rows of numbers that examples have beside their text: pictures, sounds. Each kind is a modality of the model
// (ModelInput::modalities), under its name.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace lithe {

/// What decides the chance in one reading of an example.
struct FeatureDraw {
  bool augment = false;  // training; else the reading is the plain one
  uint64_t seed = 0;
  int64_t epoch = 0, example = 0;
};

/// Reads what examples name, as rows of numbers: files are decoded as batches are made, ahead of training.
class FeatureReader {
 public:
  virtual ~FeatureReader() = default;
  /// Numbers of a row.
  virtual int64_t width() const = 0;
  /// No reading of it has more rows. May look into the file's head.
  virtual int64_t most_rows(const std::string& reference) const = 0;
  /// The same of every reference, where they are alike; 0: they are not.
  virtual int64_t rows() const { return 0; }
  /// Appends the rows; how many there are. A pure function of its arguments and of the file. Fails, naming
  /// the reference, on a damaged file and on numbers that are not finite.
  virtual int64_t read(const std::string& reference, const FeatureDraw& draw, std::vector<float>& out) const = 0;
  /// Mix-up [Zhang et al. 2018]: alpha of the Beta distribution of shares, in (0, 1]; 0: none.
  virtual double mix_up() const { return 0; }
  /// Differs when the same files give other numbers.
  virtual uint64_t fingerprint() const = 0;
};

/// What a sequence has of a modality, where all are alike.
struct FeatureShape {
  int64_t rows = 0, width = 0;  // numbers of a row
};

struct Batch;
/// Rows of features behind the sequence that `batch` ends with, as tokens of a modality: codes of TokenCode features
/// [N, 1 + width]. Places in Batch::tokens are filled.
void add_feature_rows(Batch& batch, const std::string& modality, int64_t rows, int64_t width,
                      const std::vector<float>& numbers);

/// By the name of the modality.
using FeatureReaders = std::map<std::string, std::shared_ptr<const FeatureReader>>;

}  // namespace lithe
