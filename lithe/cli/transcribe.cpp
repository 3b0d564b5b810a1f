#include <algorithm>
#include <cstdio>
#include <iostream>
#include <map>

#include "lithe/base/json.h"
#include "lithe/base/log.h"
#include "lithe/base/stop.h"
#include "lithe/cli/command.h"
#include "lithe/cli/text_lines.h"
#include "lithe/cli/transcriber.h"
#include "lithe/eval/error_rate.h"

namespace lithe {
namespace {

std::string decimals(double x) {
  char text[40];
  std::snprintf(text, sizeof text, "%.2f", x);
  return text;
}

// Lines of a file, a tab and its text.
std::map<std::string, std::string> references_of(const std::string& file) {
  std::map<std::string, std::string> out;
  for (const std::string& line : text_lines({file})) {
    if (line.empty()) continue;
    const size_t tab = line.find('\t');
    check_usage(tab != std::string::npos, "transcribe", "'", file, "': a line must hold a file, a tab, and its text");
    const std::string text = line.substr(tab + 1, line.find('\t', tab + 1) - tab - 1);
    const auto [before, first] = out.emplace(line.substr(0, tab), text);
    check_usage(first || before->second == text, "transcribe", "'", file, "' has two texts of '", before->first,
                "'; leave one");
  }
  return out;
}

// By the path as it is given, else by the name without its folders where it is of one sound alone.
const std::string& reference_of(const std::map<std::string, std::string>& references, const std::string& sound,
                                const TranscribeOptions& o) {
  if (const auto same = references.find(sound); same != references.end()) return same->second;
  const auto name = [](const std::string& file) { return Path(file).filename().string(); };
  const std::string* found = nullptr;
  for (const auto& [file, text] : references) {
    if (name(file) != name(sound)) continue;
    check_usage(!found, "transcribe", "'", o.references, "' has several texts of files called '", name(sound),
                "', and none of '", sound, "'; name the files as they are given here");
    found = &text;
  }
  check_usage(found, "transcribe", "'", o.references, "' has no text of '", sound, "'");
  for (const std::string& other : o.files)
    check_usage(other == sound || name(other) != name(sound), "transcribe", "'", sound, "' and '", other,
                "' have one name, and '", o.references, "' does not have the path of '", sound,
                "'; name the files there as they are given here");
  return *found;
}

// Of each sound.
std::vector<std::string> read_references(const TranscribeOptions& o) {
  std::vector<std::string> out;
  if (o.references.empty()) return out;
  const auto references = references_of(o.references);
  for (const std::string& file : o.files) out.push_back(reference_of(references, file, o));
  return out;
}

void print_rates(const std::vector<std::string>& references, const std::vector<Heard>& heard,
                 const TranscribeOptions& o) {
  std::vector<Edits> words, characters;
  for (size_t i = 0; i < heard.size(); ++i) {
    if (!heard[i].error.empty()) continue;
    words.push_back(word_edits(references[i], heard[i].text));
    characters.push_back(character_edits(references[i], heard[i].text));
  }
  Json json;
  for (const auto& [name, texts] : {std::pair{"word error rate", &words}, {"character error rate", &characters}}) {
    const ErrorRate rate = error_rate(*texts);
    if (o.json)
      json[name] = {
          {"rate", rate.rate}, {"low", rate.low}, {"high", rate.high}, {"edits", rate.edits}, {"units", rate.units}};
    else
      std::cout << cat(name, " ", decimals(100 * rate.rate), " % (95 %: ", decimals(100 * rate.low), " to ",
                       decimals(100 * rate.high), "; ", rate.edits, " edits of ", rate.units, ")\n");
  }
  if (o.json) std::cout << dump(json, -1, Invalid::replaced) << "\n";
}

void print(const Heard& heard, const TranscribeOptions& o, const std::string& file, double seconds,
           const Transcriber& transcriber) {
  if (!heard.error.empty()) return log_line(LogLevel::error, heard.error);
  if (o.json) {
    Json json = {{"file", file}, {"text", heard.text}};
    if (!heard.language.empty()) json["language"] = heard.language;
    Json& list = json[transcriber.knows_times() ? "segments" : "labels"] = Json::array();
    for (const SpeechSegment& of : heard.segments)
      list.push_back({{"begin", of.begin},
                      {"end", of.end},
                      {"text", of.text},
                      {"temperature", of.quality.temperature},
                      {"avg_logprob", of.quality.avg_logprob},
                      {"compression_ratio", of.quality.compression_ratio},
                      {"no_speech_prob", of.quality.no_speech_prob}});
    for (const PlacedLabel& of : heard.labels)
      list.push_back({{"label", transcriber.name(of.label)},
                      {"begin", double(of.begin) * seconds},
                      {"end", double(of.end) * seconds},
                      {"log_probability", of.log_probability}});
    std::cout << dump(json, -1, Invalid::replaced) << "\n";
    return;
  }
  std::cout << heard.text << "\t" << file << "\n";
  if (!o.times) return;
  const auto line = [](double begin, double end, const std::string& text) {
    std::cout << cat("  ", decimals(begin), " ", decimals(end), " ", text, "\n");
  };
  for (const SpeechSegment& of : heard.segments)
    line(of.begin, of.end, of.text.substr(std::min(of.text.size(), of.text.find_first_not_of(' '))));
  for (const PlacedLabel& of : heard.labels)
    line(double(of.begin) * seconds, double(of.end) * seconds, transcriber.name(of.label));
}

int run_transcribe(const TranscribeOptions& o) {
  catch_stop_signals();
  const Recipe recipe = recipe_of_run(o.model);
  const TaskType type = task_type(recipe.task);
  check_usage(recipe.data.audio.given() && (type == TaskType::transcription || type == TaskType::text), "transcribe",
              "'", o.model, "' does not transcribe; give a run with data.audio and task.type transcription or text");
  const std::vector<std::string> references = read_references(o);
  const Transcriber transcriber(o, recipe);
  const std::vector<Heard> heard = transcriber.hear(
      o.files,
      [&](size_t i, const Heard& of) {
        print(of, o, o.files[i], recipe.data.audio.row_seconds(), transcriber);
        std::cout.flush();
      },
      [&](size_t i, double seconds, const std::string& text) {
        if (o.json)
          std::cout << dump(Json{{"file", o.files[i]}, {"seconds", seconds}, {"partial", text}}, -1, Invalid::replaced)
                    << "\n";
        else
          std::cout << cat("  ", decimals(seconds), " ", text, "\n");
        std::cout.flush();
      });
  if (!o.references.empty() && !stop_signal()) print_rates(references, heard, o);
  const bool failed = std::ranges::any_of(heard, [](const Heard& of) { return !of.error.empty(); });
  return stop_signal() ? 128 + stop_signal() : failed ? int(ExitCode::failed) : 0;
}

}  // namespace

Command add_transcribe(CommandLine& app) {
  auto o = std::make_shared<TranscribeOptions>();
  app.add_option("model", o->model, "directory of a run that learnt to write what it hears").required();
  app.add_option("files", o->files,
                 "sounds: WAV, FLAC, AIFF, Ogg; with --stream also -, standard input: samples of 16 bits, little end "
                 "first, one channel, at data.audio.sample_rate")
      .required();
  app.add_option("--num-beams", o->num_beams,
                 "number of label sequences kept at each row, or of texts at each token; 1: the likeliest of each")
      .positive();
  app.add_option("--length-penalty", o->length_penalty,
                 "of beams of texts: log-probabilities of n tokens are divided by ((5 + n) / 6) to this power");
  app.add_option("--ctc-weight", o->ctc_weight,
                 "encoders with a compressor ctc_adapter: share of its head in the score of a text, beside the "
                 "decoder's; 0: the decoder alone")
      .share();
  app.add_option("--language", o->language,
                 "Whisper's tokens: the language that is spoken, as en; without it the likeliest of the first window");
  app.add_option("--task", o->task, "Whisper's tokens: write it in its language, or in English")
      .one_of({"transcribe", "translate"});
  SpeechSearch& w = o->whisper;
  const Option temperatures = app.add_option(
      "--temperatures", w.temperatures,
      "Whisper's tokens: numbers like 0,0.2,0.4,0.6,0.8,1; a window is heard again at the next one while its text is "
      "beyond a threshold below; above 0 tokens are drawn; default 0: once, whatever comes out");
  temperatures.delimiter(',');
  app.add_option("--logprob-threshold", w.logprob_threshold,
                 "with several temperatures: least mean log-probability of a window's tokens; default -1")
      .needs(temperatures);
  app.add_option("--compression-ratio-threshold", w.compression_ratio_threshold,
                 "with several temperatures: largest number of bytes of a window's text by its bytes behind zlib, "
                 "since a model that repeats itself makes a text that shrinks; default 2.4")
      .needs(temperatures);
  app.add_option("--no-speech-threshold", w.no_speech_threshold,
                 "with several temperatures: a window has no text where the probability of no speech is above this, "
                 "and its tokens are below the least log-probability; default 0.6")
      .needs(temperatures);
  app.add_option("--seed", w.seed, "random seed of draws").non_negative().needs(temperatures);
  app.add_flag("--condition-on-prev-tokens", w.condition_on_prev_tokens,
               "Whisper's tokens: windows know the text of the windows before them");
  app.add_option("--initial-prompt", w.initial_prompt,
                 "Whisper's tokens: a text that the first window takes for what was said before it: names, spelling");
  const Option order = app.add_option(
      "--ngram-order", o->ngram_order,
      "length of the label sequences in an n-gram model of the training's transcripts; 0: no such model. With beams");
  app.add_option("--ngram-weight", o->ngram_weight, "weight of the logarithm of that model's probability").needs(order);
  app.add_option("--label-bonus", o->label_bonus, "added to the score for each label");
  app.add_flag("--times,--timestamps", o->times,
               "print where each label, or each segment of a model with Whisper's tokens, begins and ends, in seconds");
  const Option stream = app.add_flag(
      "--stream", o->stream,
      "models whose rows see earlier ones alone (architecture decoder, head ctc, features kaldi): sounds are "
      "read piece by piece, and what is heard so far is printed whenever a label comes");
  app.add_option("--chunk", o->chunk, "seconds of a piece of --stream, at most 60").needs(stream);
  app.add_option("--references", o->references,
                 "lines of a file, a tab and its text, by the paths given here or names that occur once: prints word "
                 "and character error rates with their intervals");
  add_weights_options(app, o->weights, o->precision);
  app.add_flag("--json", o->json, "print JSON lines");
  add_threads_option(app);
  app.footer("Example: lithe transcribe runs/digits three.wav --times");
  return [o] { return run_transcribe(*o); };
}

}  // namespace lithe
