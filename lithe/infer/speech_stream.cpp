#include "lithe/infer/speech_stream.h"

#include <algorithm>

#include "lithe/data/batches.h"
#include "lithe/data/features.h"
#include "lithe/data/sound.h"
#include "lithe/objective/device_batch.h"
#include "lithe/text/framing.h"

namespace lithe {

SpeechStream::SpeechStream(const Model& model, const Tokenizer& tokenizer, const AudioConfig& audio)
    : model_(model), audio_(audio), frames_(audio) {
  const ModelConfig& config = model.config();
  check_usage(config.architecture == Architecture::decoder, "stream of sound", "rows of architecture ",
              config.architecture,
              " see the rest of the sound, too; train with model.architecture: decoder, whose rows "
              "see earlier ones alone, and head: ctc");
  check_usage(config.head.type == "ctc", "stream of sound", "needs head ctc, whose labels stand in their rows, not ",
              config.head.type);
  state_ = model.make_state(1, kMostSamples / audio.mel().hop());
  const std::vector<int32_t> framed = frame(tokenizer, {}, {}, false, frame_specials(tokenizer, false)).tokens;
  before_ = int64_t(framed.size()) / tokenizer.width();
  if (before_) read(framed, {});
}

void SpeechStream::read(const std::vector<float>& rows) { read({}, rows); }

void SpeechStream::read(const std::vector<int32_t>& tokens, const std::vector<float>& numbers) {
  const int64_t width = audio_.row_width(), rows = int64_t(numbers.size()) / width;
  Batch batch{.tokens = tokens, .offsets = {0, int64_t(tokens.size())}};
  if (rows) add_feature_rows(batch, "audio", rows, width, numbers);
  if (batch.rows() == 0) return;
  const NoGrad no_grad;
  Pass pass;
  const Rows ran = model_.run(to_device(batch, model_.device()).continuing(model_, *state_), pass, state_.get());
  const Tensor logits = model_.logits(ran).value();
  for (int64_t row = 0; row < logits.rows(); ++row) take(logits, row);
  rows_ += rows;
}

// spec: app.ctc | search | labels of a sound while it is heard, by causal rows with states | TB 6.5.3
void SpeechStream::take(const Tensor& logits, int64_t row) {
  const int64_t C = logits.cols();
  std::vector<double> logs(static_cast<size_t>(C));
  log_probabilities_of_row(logits, row, logs);
  const int64_t best = std::max_element(logs.begin(), logs.end()) - logs.begin();  // as ctc_greedy(), to the bit
  const int64_t at = state_->length(0) - logits.rows() + row - before_;
  if (best != C - 1) {
    if (best != last_) {
      labels_.push_back({int32_t(best), std::max<int64_t>(at, 0), 0, 0});
      sum_ = 0, in_label_ = 0;
    }
    PlacedLabel& label = labels_.back();
    label.end = std::max<int64_t>(at + 1, 0);
    sum_ += logs[size_t(best)];
    label.log_probability = sum_ / double(++in_label_);
  }
  last_ = int32_t(best);
}

}  // namespace lithe
