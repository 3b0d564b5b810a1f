// What a teacher writes for its student (write_teacher_texts).
#include <algorithm>

#include "lithe/base/counted.h"
#include "lithe/base/json.h"
#include "lithe/base/log.h"
#include "lithe/base/output_directory.h"
#include "lithe/base/progress.h"
#include "lithe/base/stop.h"
#include "lithe/compress/distill.h"
#include "lithe/infer/generate.h"
#include "lithe/infer/load.h"
#include "lithe/infer/translate.h"
#include "lithe/infer/weights_file.h"
#include "lithe/train/resume.h"

namespace lithe {
namespace {

constexpr int64_t kWindow = 256;  // texts that are lost when the process is killed

std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return text;
}

// A file to which whole lines are added; what a kill left of the last one is dropped.
class GrowingLines {
 public:
  explicit GrowingLines(Path file) : file_(std::move(file)) {
    if (!std::filesystem::exists(file_)) return;
    std::string text = read_file(file_);
    const size_t whole = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
    if (whole != text.size()) std::filesystem::resize_file(file_, whole);
    text.resize(whole);
    lines_ = int64_t(std::count(text.begin(), text.end(), '\n'));
  }
  int64_t lines() const { return lines_; }
  void add(const std::vector<std::string>& lines) {
    std::string all;
    for (const std::string& line : lines) all += line + "\n";
    append_file(file_, all);
    lines_ += int64_t(lines.size());
  }
  // Those that others wrote more are dropped.
  void keep(int64_t lines) {
    if (lines >= lines_) return;
    std::string text = read_file(file_);
    size_t end = 0;
    for (int64_t i = 0; i < lines; ++i) end = text.find('\n', end) + 1;
    std::filesystem::resize_file(file_, end);
    lines_ = lines;
  }

 private:
  Path file_;
  int64_t lines_ = 0;
};

// What the texts follow from. Fails (usage) where those that stand there follow from something else.
void begin(const Path& directory, const Json& settings) {
  make_directory(directory);
  const Path file = directory / "settings.json";
  if (!std::filesystem::exists(file)) return write_file(file, dump(settings, 2) + "\n");
  check_usage(Json::parse(read_file(file)) == settings, "distill", "'", directory.string(),
              "' holds texts of another teacher, other sources or other settings; give --overwrite to begin anew, or "
              "another --out");
}

uint64_t checksum_of(const std::vector<std::string>& lines) {
  uint64_t sum = 0;
  for (const std::string& line : lines) sum = checksum(line.data(), line.size(), sum);
  return sum;
}

void say(LogPace& pace, int64_t done, size_t all) {
  if (pace.due(done, int64_t(all))) log_info("the teacher has written ", done, " of ", counted(int64_t(all), "text"));
}

bool write_translations(const DistillRequest& request, const Recipe& recipe, const LoadedModel& teacher,
                        const Path& directory) {
  check_usage(teacher.source_tokenizer != nullptr, "distill", "teacher '", request.teacher,
              "' holds no encoder_decoder, and the recipe has a section translation; give a translator");
  std::vector<std::string> sources;
  for (const TextPair& pair : read_pairs(recipe.translation.train)) sources.push_back(one_line(pair.source));
  if (request.texts && int64_t(sources.size()) > request.texts) sources.resize(size_t(request.texts));
  TranslateConfig config = recipe.translate;
  config.num_beams = request.beams;
  config.do_sample = false;
  config.num_return_sequences = 1;
  config.validate();
  begin(directory, {{"teacher", weights_fingerprint(request.teacher, request.weights)},
                    {"precision", request.precision},
                    {"sources", checksum_of(sources)},
                    {"beams", request.beams},
                    {"length_penalty", config.length_penalty},
                    {"max_new_tokens", config.max_new_tokens},
                    {"min_new_tokens", config.min_new_tokens}});
  GrowingLines source(directory / "source.txt"), target(directory / "target.txt");
  source.keep(target.lines()), target.keep(source.lines());
  LogPace pace;
  for (int64_t at = target.lines(); at < int64_t(sources.size()); at = target.lines()) {
    const auto from = sources.begin() + at, to = sources.begin() + std::min(at + kWindow, int64_t(sources.size()));
    const std::vector<std::string> window(from, to);
    const auto found =
        translate(*teacher.model, *teacher.source_tokenizer, *teacher.tokenizer, window, config, "", {}, at + 1);
    if (stop_signal()) return false;
    std::vector<std::string> written;
    for (const auto& translations : found)
      written.push_back(translations.empty() ? "" : one_line(translations[0].text));
    source.add(window);
    target.add(written);
    say(pace, target.lines(), sources.size());
  }
  return true;
}

// The first tokens of each piece of the training texts, as texts.
std::vector<std::string> prompts_of(const DistillRequest& request, const Recipe& recipe, const Tokenizer& tokenizer) {
  const Dataset data = load_dataset(recipe.data, load_tokenizers(request.teacher).tokenizer);
  std::vector<std::string> out;
  const int64_t piece = request.prompt_tokens + request.new_tokens;
  for (int64_t d = 0; d < data.train.documents(); ++d)
    for (int64_t at = data.train.document_begin(d); at < data.train.document_end(d); at += piece) {
      const int64_t count = std::min(request.prompt_tokens, data.train.document_end(d) - at);
      std::vector<int32_t> ids(size_t(count * data.train.token_width()));
      data.train.copy(at, count, ids.data());
      while (!ids.empty() && tokenizer.is_special(ids.front())) ids.erase(ids.begin());
      while (!ids.empty() && tokenizer.is_special(ids.back())) ids.pop_back();
      if (ids.empty()) continue;
      out.push_back(tokenizer.decode(ids));
      if (request.texts && int64_t(out.size()) == request.texts) return out;
    }
  return out;
}

bool write_continuations(const DistillRequest& request, const Recipe& recipe, const LoadedModel& teacher,
                         const Path& directory) {
  teacher.model->check_predicts_next("distill");
  const std::vector<std::string> prompts = prompts_of(request, recipe, *teacher.tokenizer);
  check_usage(!prompts.empty(), "distill", "the training texts hold nothing to continue; name some in data.files");
  GenerateConfig config = recipe.generate;
  config.max_new_tokens = request.new_tokens;
  config.num_return_sequences = 1;
  config.validate();
  begin(directory, {{"teacher", weights_fingerprint(request.teacher, request.weights)},
                    {"precision", request.precision},
                    {"prompts", checksum_of(prompts)},
                    {"new_tokens", request.new_tokens},
                    {"do_sample", config.do_sample},
                    {"temperature", config.temperature},
                    {"top_k", config.top_k},
                    {"top_p", config.top_p},
                    {"min_p", config.min_p},
                    {"repetition_penalty", config.repetition_penalty},
                    {"seed", config.seed}});
  GrowingLines texts(directory / "texts.jsonl");
  LogPace pace;
  for (int64_t at = texts.lines(); at < int64_t(prompts.size()); at = texts.lines()) {
    const auto from = prompts.begin() + at, to = prompts.begin() + std::min(at + kWindow, int64_t(prompts.size()));
    const std::vector<std::string> window(from, to);
    GenerateConfig of_window = config;
    of_window.seed = config.seed + at;  // prompts are numbered from 0 in each window
    const auto found = generate(*teacher.model, *teacher.tokenizer, window, of_window);
    if (stop_signal()) return false;
    std::vector<std::string> written;
    for (size_t i = 0; i < window.size(); ++i)
      written.push_back(dump(Json({{"text", window[i] + found[i].text}}), -1, Invalid::replaced));
    texts.add(written);
    say(pace, texts.lines(), prompts.size());
  }
  return true;
}

}  // namespace

bool write_teacher_texts(const DistillRequest& request, const TrainRun& run) {
  const Recipe recipe = load_recipe(request.recipe, request.set);
  check_usage(!recipe.has_task(), "distill",
              "--sequence is for translators and models that continue texts; a task's classes are learned by word, "
              "without --sequence");
  if (run.resume) return true;  // the run has begun: the texts are whole
  if (!std::filesystem::exists(request.out / kTeacherTexts)) check_place_of_run(request.out);
  check_usage(run.overwrite || !std::filesystem::exists(request.out / "resolved_recipe.yaml"), "distill", "'",
              request.out.string(),
              "' already holds a run; give --resume to continue it, --overwrite to begin it anew, or another --out");
  const OutputDirectory directory(request.out);
  const LoadedModel teacher = load_model(request.teacher, request.weights, request.precision);
  const Path texts = request.out / kTeacherTexts;
  if (run.overwrite) {
    remove_run(request.out);
    std::filesystem::remove_all(texts);
  }
  return recipe.has_translation() ? write_translations(request, recipe, teacher, texts)
                                  : write_continuations(request, recipe, teacher, texts);
}

}  // namespace lithe
