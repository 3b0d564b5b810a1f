#include <algorithm>
#include <cstdio>
#include <iostream>
#include <map>

#include "lithe/base/json.h"
#include "lithe/base/stop.h"
#include "lithe/cli/command.h"
#include "lithe/cli/text_lines.h"
#include "lithe/data/sound_features.h"
#include "lithe/eval/error_rate.h"
#include "lithe/eval/task_evaluation.h"
#include "lithe/infer/ctc_decode.h"
#include "lithe/infer/load.h"
#include "lithe/recipe/recipe.h"

namespace lithe {
namespace {

struct TranscribeOptions {
  std::string model, weights, precision = "f32", references;
  std::vector<std::string> files;
  int64_t num_beams = 1, ngram_order = 0;
  double ngram_weight = 0.5, label_bonus = 0;
  bool times = false, json = false;
};

std::string decimals(double x) {
  char text[40];
  std::snprintf(text, sizeof text, "%.2f", x);
  return text;
}

struct Heard {
  std::string text;
  std::vector<PlacedLabel> labels;  // rows of features; none where the model writes freely
};

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

class Transcriber {
 public:
  Transcriber(const TranscribeOptions& o, const Recipe& recipe)
      : o_(o), recipe_(recipe), loaded_(load_model(o.model, o.weights, o.precision)), type_(task_type(recipe.task)) {
    search_ = {.num_beams = o.num_beams, .ngram_weight = o.ngram_weight, .label_bonus = o.label_bonus};
    if (o.ngram_order == 0) return;
    // Of the transcripts that the model has learnt from.
    std::vector<std::vector<int32_t>> texts;
    for (const Example& e : load_task(recipe.task, loaded_.model->config().label_names).train) texts.push_back(e.tags);
    ngrams_.emplace(texts, o.ngram_order, int64_t(loaded_.model->config().label_names.size()));
    search_.ngrams = &*ngrams_;
  }

  std::vector<Heard> hear(const std::vector<std::string>& files) const {
    std::vector<Example> examples(files.size());
    for (size_t i = 0; i < files.size(); ++i) {
      examples[i].features["audio"] = files[i];
      if (type_ == TaskType::text) examples[i].answers.push_back({});
    }
    const TaskBatches batches(std::move(examples), type_, *loaded_.tokenizer, recipe_.data.sequence_length,
                              recipe_.train.batch_tokens, 0, false, task_reading(recipe_));
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
  std::string name(int32_t label) const { return loaded_.model->config().label_names[size_t(label)]; }

 private:
  const TranscribeOptions& o_;
  const Recipe& recipe_;
  LoadedModel loaded_;
  TaskType type_;
  std::optional<LabelNgrams> ngrams_;
  CtcSearch search_;

  Heard read(const Tensor& logits, int64_t begin, int64_t end) const {
    Heard out;
    const bool greedy = search_.num_beams == 1 && !search_.ngrams && search_.label_bonus == 0;
    out.labels = greedy ? ctc_greedy(logits, begin, end)
                        : ctc_alignment(logits, begin, end, ctc_beam_search(logits, begin, end, search_)[0].labels);
    for (const PlacedLabel& label : out.labels) out.text += name(label.label);
    return out;
  }
  std::vector<Heard> written(const TaskBatches& batches) const {
    std::vector<Heard> out;
    for (const Prediction& p : answer(*loaded_.model, batches).predictions) out.push_back({p.text, {}});
    return out;
  }
};

// Lines of a file, a tab and its text: by the name of the file, without its folders.
std::map<std::string, std::string> references_of(const std::string& file) {
  std::map<std::string, std::string> out;
  for (const std::string& line : text_lines({file})) {
    if (line.empty()) continue;
    const size_t tab = line.find('\t');
    check_usage(tab != std::string::npos, "transcribe", "'", file, "': a line must hold a file, a tab, and its text");
    out[Path(line.substr(0, tab)).filename().string()] = line.substr(tab + 1, line.find('\t', tab + 1) - tab - 1);
  }
  return out;
}

void print_rates(const std::vector<std::string>& files, const std::vector<Heard>& heard, const TranscribeOptions& o) {
  const auto references = references_of(o.references);
  std::vector<Edits> words, characters;
  for (size_t i = 0; i < heard.size(); ++i) {
    const auto found = references.find(Path(files[i]).filename().string());
    check_usage(found != references.end(), "transcribe", "'", o.references, "' has no text of '", files[i], "'");
    words.push_back(word_edits(found->second, heard[i].text));
    characters.push_back(character_edits(found->second, heard[i].text));
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

int run_transcribe(const TranscribeOptions& o) {
  catch_stop_signals();
  const Recipe recipe = recipe_of_run(o.model);
  const TaskType type = task_type(recipe.task);
  check_usage(recipe.data.audio.given() && (type == TaskType::transcription || type == TaskType::text), "transcribe",
              "'", o.model, "' does not transcribe; give a run with data.audio and task.type transcription or text");
  check_usage(
      type == TaskType::transcription || (o.num_beams == 1 && o.ngram_order == 0 && o.label_bonus == 0 && !o.times),
      "transcribe", "--num-beams, --ngram-order, --label-bonus and --times are of models with head ctc; '", o.model,
      "' writes token after token");
  const Transcriber transcriber(o, recipe);
  const std::vector<Heard> heard = transcriber.hear(o.files);
  const double seconds = recipe.data.audio.row_seconds();
  for (size_t i = 0; i < heard.size(); ++i) {
    if (o.json) {
      Json json = {{"file", o.files[i]}, {"text", heard[i].text}, {"labels", Json::array()}};
      for (const PlacedLabel& of : heard[i].labels)
        json["labels"].push_back({{"label", transcriber.name(of.label)},
                                  {"begin", double(of.begin) * seconds},
                                  {"end", double(of.end) * seconds},
                                  {"log_probability", of.log_probability}});
      std::cout << dump(json, -1, Invalid::replaced) << "\n";
      continue;
    }
    std::cout << heard[i].text << "\t" << o.files[i] << "\n";
    for (const PlacedLabel& of : heard[i].labels)
      if (o.times)
        std::cout << cat("  ", decimals(double(of.begin) * seconds), " ", decimals(double(of.end) * seconds), " ",
                         transcriber.name(of.label), "\n");
  }
  if (!o.references.empty() && !stop_signal()) print_rates(o.files, heard, o);
  return stop_signal() ? 128 + stop_signal() : 0;
}

}  // namespace

Command add_transcribe(CommandLine& app) {
  auto o = std::make_shared<TranscribeOptions>();
  app.add_option("model", o->model, "directory of a run that learnt to write what it hears").required();
  app.add_option("files", o->files, "sounds: WAV, FLAC, AIFF, Ogg").required();
  app.add_option("--num-beams", o->num_beams,
                 "number of label sequences kept at each row; 1: the likeliest label of each row");
  app.add_option(
      "--ngram-order", o->ngram_order,
      "length of the label sequences in an n-gram model of the training's transcripts; 0: no such model. With beams");
  app.add_option("--ngram-weight", o->ngram_weight, "weight of the logarithm of that model's probability");
  app.add_option("--label-bonus", o->label_bonus, "added to the score for each label");
  app.add_flag("--times", o->times, "print where each label begins and ends, in seconds");
  app.add_option("--references", o->references,
                 "lines of a file, a tab and its text: prints word and character error rates with their intervals");
  add_weights_options(app, o->weights, o->precision);
  app.add_flag("--json", o->json, "print JSON lines");
  add_threads_option(app);
  app.footer("Example: lithe transcribe runs/digits three.wav --times");
  return [o] { return run_transcribe(*o); };
}

}  // namespace lithe
