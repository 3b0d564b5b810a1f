#include "lithe/cli/transcriber.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "lithe/base/stop.h"
#include "lithe/cli/text_lines.h"
#include "lithe/data/sound_features.h"
#include "lithe/eval/task_evaluation.h"
#include "lithe/infer/beam_search.h"
#include "lithe/infer/ctc_prefix.h"
#include "lithe/infer/speech_stream.h"

namespace lithe {
namespace {

// The first row of the model's input that each of these rows stands for.
std::vector<int64_t> first_input_rows(const Rows& rows) {
  std::vector<int64_t> out(size_t(rows.sequences.rows()), -1);
  if (!rows.shortened) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = int64_t(i);
    return out;
  }
  const std::vector<int64_t> before = first_input_rows(rows.shortened->before);
  for (size_t i = 0; i < before.size(); ++i)
    if (const int64_t now = rows.shortened->row_of[i]; now >= 0 && out[size_t(now)] < 0) out[size_t(now)] = before[i];
  for (size_t i = 0; i < out.size(); ++i)  // nothing maps to it: as the row before
    if (out[i] < 0) out[i] = i ? out[i - 1] : 0;
  return out;
}

// Samples of 16 bits, little end first, of standard input; fewer than asked for at its end, and where a signal asked to
// stop.
std::vector<float> read_samples(size_t count) {
  std::vector<char> bytes(2 * count);
  size_t got = 0;
  while (got < bytes.size() && !stop_signal()) {
    const auto n = read_some(STDIN_FILENO, std::span(bytes).subspan(got));
    if (!n) continue;
    check(*n >= 0, "transcribe", "standard input cannot be read");
    if (*n == 0) break;
    got += size_t(*n);
  }
  check(got % 2 == 0 || stop_signal(), "transcribe", "standard input ends within a sample of 16 bits");
  std::vector<float> out(got / 2);
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = float(int16_t(uint16_t(uint8_t(bytes[2 * i]) | uint8_t(bytes[2 * i + 1]) << 8))) / 32768;
  return out;
}

// The same error with the file that it is of.
Error naming(const Error& error, const std::string& file) {
  const std::string what = error.what();
  if (what.find(file) != std::string::npos) return error;
  return {error.operation(), cat("'", file, "': ", what.substr(error.operation().size() + 2)), error.code()};
}

}  // namespace

Transcriber::Transcriber(const TranscribeOptions& o, const Recipe& recipe)
    : o_(o), recipe_(recipe), loaded_(load_model(o.model, o.weights, o.precision)), type_(task_type(recipe.task)) {
  if (type_ == TaskType::text) spoken_ = speech_tokens(*loaded_.tokenizer, o.model);
  check_options();
  search_ = {.num_beams = o.num_beams, .ngram_weight = o.ngram_weight, .label_bonus = o.label_bonus};
  if (o.ngram_order == 0) return;
  // Of the transcripts that the model has learnt from.
  std::vector<std::vector<int32_t>> texts;
  for (const Example& e : load_task(recipe.task, loaded_.model->config().label_names).train) texts.push_back(e.tags);
  ngrams_.emplace(texts, o.ngram_order, int64_t(loaded_.model->config().label_names.size()));
  search_.ngrams = &*ngrams_;
}

void Transcriber::check_options() const {
  check_usage(spoken_ || (o_.language.empty() && o_.task.empty()), "transcribe",
              "--language and --task are of models with Whisper's tokens; '", o_.model, "' has none");
  const SpeechSearch& w = o_.whisper;
  check_usage(
      spoken_ || (w.temperatures == std::vector<double>{0} && !w.condition_on_prev_tokens && w.initial_prompt.empty()),
      "transcribe",
      "--temperatures, --condition-on-prev-tokens and --initial-prompt are of models with "
      "Whisper's tokens; '",
      o_.model, "' has none");
  check_usage(type_ == TaskType::transcription || (o_.ngram_order == 0 && o_.label_bonus == 0), "transcribe",
              "--ngram-order and --label-bonus are of models with head ctc; '", o_.model, "' writes token after token");
  check_usage(type_ == TaskType::transcription || spoken_ || !o_.times, "transcribe",
              "--times is of models with head ctc or Whisper's tokens; '", o_.model, "' has neither");
  const bool encodes = type_ == TaskType::text && reads_source(loaded_.model->config().architecture);
  check_usage(encodes || type_ == TaskType::transcription || o_.num_beams == 1, "transcribe",
              "--num-beams is of models with head ctc or an encoder; '", o_.model, "' has neither");
  check_usage(encodes || o_.length_penalty == 1, "transcribe", "--length-penalty is of beams of texts; '", o_.model,
              "' writes labels, to which --label-bonus adds");
  check_usage(o_.num_beams > 1 || o_.length_penalty == 1, "transcribe",
              "--length-penalty is of beams of texts; give --num-beams above 1");
  check_usage((encodes && !spoken_) || o_.ctc_weight == 0, "transcribe",
              "--ctc-weight is of encoder-decoders whose encoder has a compressor ctc_adapter; '", o_.model,
              "' has none");
  if (!o_.stream) {
    check_usage(std::ranges::find(o_.files, "-") == o_.files.end(), "transcribe",
                "standard input is read as it comes; give --stream");
    return;
  }
  check_usage(o_.num_beams == 1 && o_.ngram_order == 0 && o_.label_bonus == 0, "transcribe",
              "--stream writes each row's likeliest label; leave --num-beams, --ngram-order and --label-bonus out");
  constexpr double kMostSeconds = 60;
  check_usage(o_.chunk > 0 && o_.chunk <= kMostSeconds, "transcribe", "--chunk must be above 0 and at most ",
              kMostSeconds, " seconds, got ", o_.chunk);
}

std::vector<Heard> Transcriber::hear(const std::vector<std::string>& files,
                                     const std::function<void(size_t, const Heard&)>& done,
                                     const std::function<void(size_t, double, const std::string&)>& partly) const {
  std::vector<Heard> out;
  if (!spoken_ && !o_.stream) {
    try {
      out = in_batches(files);
    } catch (const Error&) {  // one by one, to find out whose it is
      if (files.size() == 1) throw;
    }
    for (size_t i = 0; i < out.size(); ++i) done(i, out[i]);
    if (!out.empty() || stop_signal()) return out;
  }
  bool any = false;
  for (size_t i = 0; i < files.size() && !stop_signal(); ++i) {
    Heard heard;
    try {
      if (o_.stream) {
        heard = streamed(files[i], [&](double s, const std::string& text) { partly(i, s, text); });
      } else if (spoken_) {
        heard = by_windows(files[i]);
      } else if (std::vector<Heard> one = in_batches({files[i]}); !one.empty()) {
        heard = std::move(one[0]);
      }
      any = true;
    } catch (const Error& error) {
      const Error named = naming(error, files[i]);
      if (!any && i + 1 == files.size()) throw named;
      heard.error = named.what();
    }
    if (stop_signal()) break;
    out.push_back(std::move(heard));
    done(i, out.back());
  }
  return out;
}

Heard Transcriber::by_windows(const std::string& file) const {
  SpeechSearch search = o_.whisper;
  search.num_beams = o_.num_beams;
  search.length_penalty = o_.length_penalty;
  search.choice = {.language = o_.language, .task = o_.task, .times = o_.times};
  SpeechText text =
      speech_text(*loaded_.model, *loaded_.tokenizer, *spoken_, recipe_.data.audio, read_sound(file), search);
  return {std::move(text.text), {}, std::move(text.language), std::move(text.segments)};
}

Heard Transcriber::streamed(const std::string& file,
                            const std::function<void(double, const std::string&)>& partly) const {
  const AudioConfig& audio = recipe_.data.audio;
  SpeechStream stream(*loaded_.model, *loaded_.tokenizer, audio);
  const auto piece = size_t(std::max(1.0, std::round(o_.chunk * double(audio.sample_rate))));
  std::vector<float> samples;
  if (file != "-") {
    const Sound sound = read_sound(file);
    samples = resampled(sound.samples, sound.rate, audio.sample_rate);
  }
  Heard out;
  size_t taken = 0;  // labels
  const auto take = [&](size_t heard) {
    const auto added = std::span(stream.labels()).subspan(taken);
    if (added.empty()) return;
    out.text += spelt(added);
    taken += added.size();
    partly(double(heard) / double(audio.sample_rate), out.text);
  };
  size_t heard = 0;
  for (bool more = true; more && !stop_signal();) {
    const std::vector<float> next =
        file == "-" ? read_samples(piece)
                    : std::vector<float>(samples.begin() + int64_t(heard),
                                         samples.begin() + int64_t(std::min(samples.size(), heard + piece)));
    more = next.size() == piece;
    heard += next.size();
    stream.push(next);
    take(heard);
  }
  if (stop_signal()) return out;
  stream.finish();
  take(heard);
  out.labels = stream.labels();
  return out;
}

std::vector<Heard> Transcriber::in_batches(const std::vector<std::string>& files) const {
  std::vector<Example> examples(files.size());
  for (size_t i = 0; i < files.size(); ++i) {
    examples[i].features["audio"] = files[i];
    if (type_ == TaskType::text) examples[i].answers.push_back({});
  }
  const bool searches = type_ == TaskType::text && (o_.num_beams > 1 || o_.ctc_weight > 0);
  const TaskBatches batches(std::move(examples), type_, *loaded_.tokenizer, recipe_.data.sequence_length,
                            searches ? recipe_.data.sequence_length : recipe_.train.batch_tokens, 0, false,
                            task_reading(recipe_));
  if (searches) return searched(batches);
  if (type_ == TaskType::text) return written(batches);
  const NoGrad no_grad;
  std::vector<Heard> out;
  for (int64_t i = 0; i < batches.batches_per_epoch() && !stop_signal(); ++i) {
    const DeviceBatch batch = to_device(batches.batch(0, i), loaded_.model->device());
    Pass pass;
    const Rows ran = loaded_.model->run(batch.input, pass);
    const Tensor logits = loaded_.model->logits(ran).value();
    const std::vector<int64_t> stand = first_input_rows(ran);
    for (int64_t b = 0; b < ran.sequences.count(); ++b) {
      const int64_t before = batch.input.sequences.offset(b) + batches.sequences()[out.size()].rows;
      out.push_back(read(logits, ran.sequences.offset(b), ran.sequences.offset(b + 1)));
      const auto input_row = [&](int64_t row) {  // the end of the last is the end of the sound
        const int64_t at = ran.sequences.offset(b) + row;
        const int64_t to = at < ran.sequences.offset(b + 1) ? stand[size_t(at)] : batch.input.sequences.offset(b + 1);
        return std::max<int64_t>(to - before, 0);
      };
      for (PlacedLabel& label : out.back().labels)
        label.begin = input_row(label.begin), label.end = input_row(label.end);
    }
  }
  return out;
}

Heard Transcriber::read(const Tensor& logits, int64_t begin, int64_t end) const {
  Heard out;
  const bool greedy = search_.num_beams == 1 && !search_.ngrams && search_.label_bonus == 0;
  out.labels = greedy ? ctc_greedy(logits, begin, end)
                      : ctc_alignment(logits, begin, end, ctc_beam_search(logits, begin, end, search_)[0].labels);
  out.text = spelt(out.labels);
  return out;
}

std::string Transcriber::spelt(std::span<const PlacedLabel> labels) const {
  std::string out;
  for (const PlacedLabel& label : labels) out += name(label.label);
  return out;
}

// By beams of the decoder, with what the encoder's own head says of them; each batch is one sound.
std::vector<Heard> Transcriber::searched(const TaskBatches& batches) const {
  const Model& model = *loaded_.model;
  BeamSearchConfig config{.num_beams = o_.num_beams,
                          .length_penalty = o_.length_penalty,
                          .stop = {batches.end()},
                          .never = never_written(loaded_.tokenizer->specials(), batches.end()),
                          .vocab_size = loaded_.tokenizer->vocab_size()};
  int64_t written = config.vocab_size;  // ids that texts may hold are below
  while (written > 0 && (written - 1 == batches.end() || std::ranges::count(config.never, written - 1))) --written;
  std::vector<Heard> out;
  for (int64_t i = 0; i < batches.batches_per_epoch() && !stop_signal(); ++i) {
    const ModelInput read = to_device(batches.prompts(0, i), model).input;
    std::vector<int32_t> prompt(read.tokens.data<int32_t>(), read.tokens.data<int32_t>() + read.tokens.numel());
    const int64_t limit = model.position_limit(), longest = batches.longest_answer(),
                  most = limit ? std::min(limit - int64_t(prompt.size()) + 1, longest) : longest;
    std::optional<CtcPrefixScores> ctc;
    if (o_.ctc_weight > 0) {
      ctc.emplace(encoder_ctc_logits(model, read.sources.at(kSource)));
      check_usage(ctc->labels() >= written, "transcribe", "--ctc-weight needs a label for each token; the encoder's ",
                  "ctc_adapter has num_labels ", ctc->labels(), ", and texts have ", written, " tokens; leave it out");
      config.rescore = [&](size_t, std::span<const int32_t> tokens, std::span<double> scores) {
        rescore_by_ctc(*ctc, o_.ctc_weight, batches.end(), tokens, scores);
      };
    }
    const SearchInput input{.source = {}, .prompt = std::move(prompt), .max_new_tokens = most};
    const auto found = beam_search(model, {&input, 1}, config, read.sources)[0];
    if (found.empty()) break;
    out.push_back({.text = loaded_.tokenizer->decode(found[0].tokens)});
  }
  return out;
}

std::vector<Heard> Transcriber::written(const TaskBatches& batches) const {
  std::vector<Heard> out;
  for (const Prediction& p : answer(*loaded_.model, batches).predictions) out.push_back({.text = p.text});
  return out;
}

}  // namespace lithe
