#include "lithe/infer/speech_text.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "lithe/base/random.h"
#include "lithe/data/batches.h"
#include "lithe/data/byte_source.h"
#include "lithe/data/features.h"
#include "lithe/infer/beam_search.h"
#include "lithe/infer/log_space.h"
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

// What one search or draw writes of a window.
struct Attempt {
  std::vector<int32_t> tokens;  // behind the instructions
  std::string language;
  SpeechQuality quality;
};

// Leaves one token, drawn by the probabilities at this temperature, with its own log-probability.
void draw(std::span<double> scores, double temperature, double uniform) {
  std::vector<double> tempered(scores.begin(), scores.end());
  for (double& x : tempered) x /= temperature;
  log_normalise(tempered);
  size_t drawn = 0;
  double sum = 0;
  for (size_t i = 0; i < tempered.size(); ++i) {
    if (tempered[i] == kNever) continue;
    drawn = i;
    if ((sum += std::exp(tempered[i])) > uniform) break;
  }
  for (size_t i = 0; i < scores.size(); ++i)
    if (i != drawn) scores[i] = kNever;
}

class Writer {
 public:
  Writer(const Model& model, const Tokenizer& tokenizer, const SpeechTokens& tokens, const AudioConfig& audio,
         const Sound& sound)
      : model_(model), tokenizer_(tokenizer), tokens_(tokens), audio_(audio), windows_(audio, sound) {}

  SpeechText write(SpeechSearch search) {
    SpeechText out;
    if (windows_.several()) search.choice.times = true;
    std::vector<int32_t> before;
    if (!search.initial_prompt.empty()) before = tokenizer_.encode(" " + search.initial_prompt);
    for (int64_t row = 0; row < windows_.heard();) {
      const std::optional<Attempt> heard = hear(row, search, before);
      if (!heard) {
        out.interrupted = true;
        return out;
      }
      if (row == 0) out.language = search.choice.language = heard->language;
      const int64_t left = std::min(windows_.rows(), windows_.heard() - row);
      Written written = silent(heard->quality, search) ? Written{{}, left}
                        : search.choice.times          ? segments_of(heard->tokens, row, left)
                                                       : Written{{segment(heard->tokens, row, row + left)}, left};
      if (!search.condition_on_prev_tokens || heard->quality.temperature > kForgets) before.clear();
      for (SpeechSegment& s : written.segments) {
        s.quality = heard->quality;
        out.text += s.text;
        if (search.condition_on_prev_tokens) before.insert(before.end(), s.tokens.begin(), s.tokens.end());
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

  static constexpr double kForgets = 0.5;  // what is drawn above it is no text to go on from, as in Whisper

  static bool silent(const SpeechQuality& of, const SpeechSearch& search) {
    return search.temperatures.size() > 1 && of.no_speech_prob > search.no_speech_threshold &&
           of.avg_logprob < search.logprob_threshold;
  }

  // None: a signal came.
  std::optional<Attempt> hear(int64_t row, const SpeechSearch& search, std::span<const int32_t> before) const {
    Batch batch{.offsets = {0, 0}};
    add_feature_rows(batch, "audio", windows_.rows(), audio_.row_width(), windows_.from(row));
    const std::map<std::string, ModelInput> sources{{kSource, to_device(batch, model_.device()).input}};
    std::optional<Attempt> out;
    for (const double temperature : search.temperatures) {
      out = attempt(sources, row, search, before, temperature);
      if (!out || silent(out->quality, search)) break;
      if (out->quality.compression_ratio <= search.compression_ratio_threshold &&
          out->quality.avg_logprob >= search.logprob_threshold)
        break;
    }
    return out;
  }

  std::optional<Attempt> attempt(const std::map<std::string, ModelInput>& sources, int64_t row,
                                 const SpeechSearch& search, std::span<const int32_t> before,
                                 double temperature) const {
    const SpeechRules rules(tokens_, search.choice);
    const int64_t limit = model_.position_limit(), longest = limit > 1 ? limit : windows_.rows() + 1;
    std::vector<int32_t> prompt;
    if (const auto most = size_t(std::max<int64_t>(0, longest / 2 - 1)); !before.empty() && most > 0) {
      prompt.push_back(*tokens_.before);
      const auto last = before.last(std::min(most, before.size()));
      prompt.insert(prompt.end(), last.begin(), last.end());
    }
    prompt.push_back(tokens_.begin);
    Attempt out{.quality = {.temperature = temperature}};
    const RandomKey key{.seed = uint64_t(search.seed),
                        .step = uint64_t(row),
                        .layer = uint32_t(std::lround(1000 * temperature)),
                        .purpose = purpose_of("transcribe.draw")};
    const SearchInput input{.source = {}, .prompt = prompt, .max_new_tokens = longest - int64_t(prompt.size())};
    const BeamSearchConfig config{.num_beams = temperature > 0 ? 1 : search.num_beams,
                                  .length_penalty = temperature > 0 ? 0 : search.length_penalty,
                                  .stop = {tokens_.end},
                                  .vocab_size = tokenizer_.vocab_size(),
                                  .rescore = [&](size_t, std::span<const int32_t> tokens, std::span<double> scores) {
                                    if (tokens.empty() && tokens_.no_speech)
                                      out.quality.no_speech_prob = std::exp(scores[size_t(*tokens_.no_speech)]);
                                    rules(tokens, scores);
                                    if (temperature > 0) draw(scores, temperature, random_uniform(key, tokens.size()));
                                  }};
    const auto found = beam_search(model_, {&input, 1}, config, sources)[0];
    if (found.empty()) return {};
    const auto instructions = std::min(found[0].tokens.size(), size_t(rules.instructions()));
    out.language = rules.language_of(found[0].tokens);
    out.tokens.assign(found[0].tokens.begin() + long(instructions), found[0].tokens.end());
    out.quality.avg_logprob = found[0].log_probability / double(out.tokens.size() + 1);
    const std::string text = segment(out.tokens, 0, 0).text;
    out.quality.compression_ratio = text.empty() ? 0 : double(text.size()) / double(zlib_size(text));
    return out;
  }

  // Of rows [begin, end) of the sound.
  SpeechSegment segment(std::span<const int32_t> tokens, int64_t begin, int64_t end) const {
    SpeechSegment out{seconds(begin), seconds(end), {}, {}, {tokens.begin(), tokens.end()}};
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
  check_usage(
      !search.temperatures.empty() && std::ranges::is_sorted(search.temperatures) && search.temperatures.front() >= 0 &&
          search.temperatures.back() <= 10,
      "transcribe", "temperatures must be numbers from 0 to 10, each at least the one before it; got ",
      search.temperatures.empty() ? "none" : cat(search.temperatures.front(), " to ", search.temperatures.back()));
  check_usage(tokens.before || (search.initial_prompt.empty() && !search.condition_on_prev_tokens), "transcribe",
              "the model's tokenizer has no <|startofprev|>, behind which the text before would stand; leave "
              "--initial-prompt and --condition-on-prev-tokens out");
  return Writer(model, tokenizer, tokens, audio, sound).write(search);
}

}  // namespace lithe
