// A model as a receipt measures it: its loss, its speed and its memory, on the same data and in turns with others.
#pragma once

#include "lithe/base/json.h"
#include "lithe/compress/importance.h"
#include "lithe/infer/load.h"
#include "lithe/recipe/recipe.h"

namespace lithe {

/// What models are measured on.
struct MeasuringData {
  TrainingData lessons;
  std::vector<Batch> batches;
  std::vector<int32_t> prompt;  // of models that continue texts; else empty
  std::string name;             // "held-out part"

  const Objective& objective() const { return *lessons.objective; }
};

/// `count` batches, from batch `first` on (as far as there are so many), of what the recipe holds out or, where that is
/// nothing, learns from; with `text` (models of text alone) of these files. Fails where the data are not there.
MeasuringData measuring_data(const Recipe& recipe, const Tokenizers& tokenizers, int64_t first, int64_t count,
                             const std::vector<std::string>& text = {});

/// Of the mean of some numbers; 0 of fewer than two.
double standard_error(const std::vector<double>& x, double mean);

/// Numbers of several turns.
struct Spread {
  std::vector<double> values;
  double median() const;
  Json json() const;
};

/// Loads the weights of a directory, when they are needed, and measures them.
class MeasuredModel {
 public:
  MeasuredModel(const Path& directory, const std::string& weights, const std::string& precision = "f32");
  /// A model in memory; `file` holds its weights.
  MeasuredModel(std::unique_ptr<Model> model, const Path& file);

  const Model& model() const;
  /// Lets the weights of a directory go until they are needed again.
  void rest();
  int64_t bytes_in_memory() const { return bytes_in_memory_; }  // of the weights
  /// The loss of each batch, and a task's scores where its held-out part is small.
  void judge(const MeasuringData& data);
  /// One turn of forward passes over the first batch and, with a prompt, of greedy decoding.
  void time(const MeasuringData& data);

  /// The median seconds of a greedy step of decoding, of models that do; else of a row of a forward pass.
  double latency() const;
  void forget_times() { rows_ = {}, seconds_ = {}, tokens_ = {}; }

  const std::vector<double>& losses() const { return losses_; }  // of batches
  MeanLoss loss() const;
  int64_t bytes_on_disk() const { return bytes_; }  // of the weights
  const std::vector<std::pair<std::string, double>>& scores() const { return scores_; }
  /// All of it: what a receipt has under "before" and "after".
  Json json() const;

 private:
  Path directory_;
  std::string weights_, precision_;
  mutable std::unique_ptr<Model> model_;  // null: it rests
  int64_t parameters_ = 0, bytes_in_memory_ = 0;
  int64_t bytes_ = 0, peak_ = 0, labels_ = 0, examples_ = 0;
  uint64_t fingerprint_ = 0;
  double nll_ = 0;
  std::vector<double> losses_;
  std::vector<std::pair<std::string, double>> scores_;
  Spread rows_, seconds_, tokens_;

  void decode(const std::vector<int32_t>& prompt);
};

/// The mean of the losses' differences, batch by batch, and its standard error.
Json loss_difference(const MeasuredModel& before, const MeasuredModel& after);

/// They are better not in memory at the same time.
bool large_together(const std::vector<MeasuredModel*>& models);

/// Each model once, again and again in this order: five times, fewer where that takes long. Those that are
/// large_together() rest() between their turns. Polls stop_signal().
void time_in_turns(const std::vector<MeasuredModel*>& models, const MeasuringData& data);

}  // namespace lithe
