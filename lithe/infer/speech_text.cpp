#include "lithe/infer/speech_text.h"

#include <algorithm>
#include <cmath>

#include "lithe/data/batches.h"
#include "lithe/data/features.h"
#include "lithe/infer/beam_search.h"
#include "lithe/objective/device_batch.h"
#include "lithe/text/utf8.h"

namespace lithe {
namespace {

// The frames of a sound, cut into windows.
class Windows {
 public:
  Windows(const AudioConfig& audio, const Sound& sound)
      : width_(audio.row_width()),
        rows_(audio.rows_of(audio.pad_samples())),
        frames_(window_frames(sound.samples, sound.rate, audio, MelFeatures(audio.mel()))) {
    const int64_t samples = resampled_count(int64_t(sound.samples.size()), sound.rate, audio.sample_rate);
    heard_ = std::max<int64_t>(1, audio.rows_of(samples));
  }
  int64_t rows() const { return rows_; }    // of a window
  int64_t heard() const { return heard_; }  // rows of the sound itself
  bool several() const { return heard_ > rows_; }
  std::vector<float> from(int64_t row) const {
    std::vector<float> out(size_t(rows_ * width_));
    const auto begin = std::min(frames_.size(), size_t(row * width_)),
               end = std::min(frames_.size(), begin + out.size());
    std::copy(frames_.begin() + int64_t(begin), frames_.begin() + int64_t(end), out.begin());
    return out;
  }

 private:
  int64_t width_, rows_, heard_ = 0;
  std::vector<float> frames_;
};

struct Written {
  std::vector<SpeechSegment> segments;
  int64_t rows = 0;  // that are done
};

class Writer {
 public:
  Writer(const Model& model, const Tokenizer& tokenizer, const SpeechTokens& tokens, const AudioConfig& audio,
         const Sound& sound)
      : model_(model), tokenizer_(tokenizer), tokens_(tokens), audio_(audio), windows_(audio, sound) {}

  SpeechText write(SpeechSearch search) {
    SpeechText out;
    if (windows_.several()) search.choice.times = true;
    for (int64_t row = 0; row < windows_.heard();) {
      const SpeechRules rules(tokens_, search.choice);
      const auto found = hear(row, rules, search);
      if (found.empty()) {
        out.interrupted = true;
        return out;
      }
      std::span<const int32_t> tokens = found[0].tokens;
      if (row == 0) out.language = search.choice.language = rules.language_of(tokens);
      tokens = tokens.subspan(std::min(tokens.size(), size_t(rules.instructions())));
      const int64_t left = std::min(windows_.rows(), windows_.heard() - row);
      Written written =
          search.choice.times ? segments_of(tokens, row, left) : Written{{segment(tokens, row, row + left)}, left};
      for (SpeechSegment& s : written.segments) {
        out.text += s.text;
        if (!s.text.empty()) out.segments.push_back(std::move(s));
      }
      row += written.rows;
    }
    out.text.erase(0, out.text.find_first_not_of(' '));
    return out;
  }

 private:
  const Model& model_;
  const Tokenizer& tokenizer_;
  const SpeechTokens& tokens_;
  const AudioConfig& audio_;
  Windows windows_;

  bool is_time(int32_t token) const { return tokens_.is_time(token); }
  double seconds(int64_t row) const {
    return double(row * audio_.frames_per_row * audio_.mel().hop()) / double(audio_.sample_rate);
  }

  std::vector<Hypothesis> hear(int64_t row, const SpeechRules& rules, const SpeechSearch& search) const {
    Batch batch{.offsets = {0, 0}};
    add_feature_rows(batch, "audio", windows_.rows(), audio_.row_width(), windows_.from(row));
    const std::map<std::string, ModelInput> sources{{kSource, to_device(batch, model_.device()).input}};
    const int64_t limit = model_.position_limit(), most = limit > 1 ? limit - 1 : windows_.rows();
    const SearchInput input{.source = {}, .prompt = {tokens_.begin}, .max_new_tokens = most};
    const BeamSearchConfig config{
        .num_beams = search.num_beams,
        .length_penalty = search.length_penalty,
        .stop = {tokens_.end},
        .vocab_size = tokenizer_.vocab_size(),
        .rescore = [&](size_t, std::span<const int32_t> tokens, std::span<double> scores) { rules(tokens, scores); }};
    return beam_search(model_, {&input, 1}, config, sources)[0];
  }

  // Of rows [begin, end) of the sound.
  SpeechSegment segment(std::span<const int32_t> tokens, int64_t begin, int64_t end) const {
    SpeechSegment out{seconds(begin), seconds(end), {}};
    std::vector<int32_t> text;
    for (const int32_t token : tokens)
      if (!is_time(token) && !tokenizer_.is_special(token)) text.push_back(token);
    out.text = valid_utf8(tokenizer_.decode(text));
    return out;
  }

  // Two times that follow each other end one segment and begin the next. A window that ends with one time alone has
  // nothing behind it; without such a pair all of it is one segment.
  Written segments_of(std::span<const int32_t> tokens, int64_t row, int64_t left) const {
    Written out{.rows = left};
    std::vector<size_t> ends;
    for (size_t i = 1; i < tokens.size(); ++i)
      if (is_time(tokens[i - 1]) && is_time(tokens[i])) ends.push_back(i);
    const size_t n = tokens.size();
    const bool closed = n >= 2 && is_time(tokens[n - 1]) && !is_time(tokens[n - 2]);
    const auto time = [&](int32_t token) { return int64_t(token - tokens_.first_time); };
    if (ends.empty()) {
      int64_t until = left;
      for (const int32_t token : tokens)
        if (is_time(token) && time(token) > 0) until = std::min(left, time(token));
      out.segments.push_back(segment(tokens, row, row + until));
      return out;
    }
    if (closed) ends.push_back(n);
    size_t begin = 0;
    for (const size_t end : ends) {
      const auto part = tokens.subspan(begin, end - begin);
      out.segments.push_back(  // the model may say times behind the sound
          segment(part, row + std::min(left, time(part.front())), row + std::min(left, time(part.back()))));
      begin = end;
    }
    if (const int64_t until = time(tokens[begin - 1]); !closed && until > 0) out.rows = until;
    return out;
  }
};

}  // namespace

SpeechText speech_text(const Model& model, const Tokenizer& tokenizer, const SpeechTokens& tokens,
                       const AudioConfig& audio, const Sound& sound, const SpeechSearch& search) {
  check_usage(reads_source(model.config().architecture) && audio.pad_seconds > 0, "transcribe",
              "needs an encoder_decoder and data.audio.pad_seconds, the length of its windows; this one is of "
              "architecture ",
              model.config().architecture, ", pad_seconds ", audio.pad_seconds);
  return Writer(model, tokenizer, tokens, audio, sound).write(search);
}

}  // namespace lithe
