// What `lithe transcribe` does with sounds: by rows of CTC, token by token, or while they are heard.
#pragma once

#include <functional>
#include <span>

#include "lithe/infer/ctc_decode.h"
#include "lithe/infer/load.h"
#include "lithe/infer/speech_text.h"
#include "lithe/recipe/recipe.h"

namespace lithe {

class TaskBatches;

struct TranscribeOptions {
  std::string model, weights, precision = "f32", references, language, task;
  std::vector<std::string> files;
  SpeechSearch whisper;  // its beams, penalty and choice are those here
  int64_t num_beams = 1, ngram_order = 0;
  double ngram_weight = 0.5, label_bonus = 0, length_penalty = 1, ctc_weight = 0;
  bool times = false, json = false, stream = false;
  double chunk = 0.5;  // seconds of a piece of a stream
};

struct Heard {
  std::string text;
  std::vector<PlacedLabel> labels;      // rows of features; none where the model writes freely
  std::string language = {};            // of models with Whisper's tokens, where they know several
  std::vector<SpeechSegment> segments;  // and when they say it was said
  std::string error = {};               // why the file could not be heard; else empty
};

class Transcriber {
 public:
  /// Fails (usage) on options that the model has no use for. Both arguments must live as long.
  Transcriber(const TranscribeOptions& options, const Recipe& recipe);
  /// Of each file, in order. One that cannot be heard takes no other with it: Heard::error says why; where none of them
  /// can, the last error is thrown, and the others are logged. `done` is told as soon as one is known, `partly` while a
  /// stream is read: what was heard of so many seconds of it. The file "-" is standard input: samples of 16 bits at
  /// data.audio.sample_rate.
  std::vector<Heard> hear(const std::vector<std::string>& files, const std::function<void(size_t, const Heard&)>& done,
                          const std::function<void(size_t, double, const std::string&)>& partly) const;
  std::string name(int32_t label) const { return loaded_.model->config().label_names[size_t(label)]; }
  bool knows_times() const { return spoken_.has_value(); }

 private:
  const TranscribeOptions& o_;
  const Recipe& recipe_;
  LoadedModel loaded_;
  TaskType type_;
  std::optional<SpeechTokens> spoken_;
  std::optional<LabelNgrams> ngrams_;
  CtcSearch search_;

  void check_options() const;
  Heard by_windows(const std::string& file) const;
  Heard streamed(const std::string& file, const std::function<void(double, const std::string&)>& partly) const;
  std::vector<Heard> in_batches(const std::vector<std::string>& files) const;
  Heard read(const Tensor& logits, int64_t begin, int64_t end) const;
  std::string spelt(std::span<const PlacedLabel> labels) const;
  std::vector<Heard> searched(const TaskBatches& batches) const;
  std::vector<Heard> written(const TaskBatches& batches) const;
};

}  // namespace lithe
