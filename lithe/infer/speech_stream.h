// Speech as labels while it is heard, by models whose rows see earlier ones alone.
#pragma once

#include "lithe/data/frame_stream.h"
#include "lithe/infer/ctc_decode.h"
#include "lithe/model/model.h"
#include "lithe/text/tokenizer.h"

namespace lithe {

/// ctc_greedy() of a sound that comes in pieces: the labels of the whole, each as soon as its first row is known; none
/// is taken back. What layers keep of rows before (caches, taps of convolutions, recurrences) is a decode state, as of
/// text, and what the features keep a FrameStream.
class SpeechStream {
 public:
  /// `model` and `tokenizer` must live as long. Fails (usage), with the reason, on models whose rows see later ones, on
  /// other heads than ctc, and where FrameStream does.
  SpeechStream(const Model& model, const Tokenizer& tokenizer, const AudioConfig& audio);
  /// Samples at audio.sample_rate.
  void push(std::span<const float> samples) { read(frames_.push(samples)); }
  /// Nothing follows.
  void finish() { read(frames_.finish()); }
  /// So far; the end of the last may grow.
  const std::vector<PlacedLabel>& labels() const { return labels_; }
  int64_t rows() const { return rows_; }  // of features, read so far
  /// Bytes that the layers keep.
  int64_t state_bytes() const { return state_->bytes(); }

 private:
  const Model& model_;
  AudioConfig audio_;
  FrameStream frames_;
  std::unique_ptr<DecodeState> state_;
  std::vector<PlacedLabel> labels_;
  double sum_ = 0;        // of the last label's log-probabilities
  int32_t last_ = -1;     // class of the row before; -1: none
  int64_t in_label_ = 0;  // rows of the last label
  int64_t before_ = 0;    // rows of tokens that stand before the sound
  int64_t rows_ = 0;

  void read(const std::vector<float>& rows);
  void read(const std::vector<int32_t>& tokens, const std::vector<float>& rows);
  void take(const Tensor& logits, int64_t row);
};

}  // namespace lithe
