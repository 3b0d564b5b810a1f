#include "lithe/compare/compare.h"

#include <algorithm>
#include <cmath>

#include "lithe/base/json.h"
#include "lithe/base/log.h"
#include "lithe/base/machine.h"
#include "lithe/base/output_directory.h"
#include "lithe/base/stop.h"
#include "lithe/base/threads.h"
#include "lithe/compare/budget.h"
#include "lithe/compare/description.h"
#include "lithe/data/batches.h"
#include "lithe/report/format.h"
#include "lithe/train/growth.h"

namespace lithe::compare {
namespace {

size_t index_of(const std::vector<Variant>& variants, const std::string& name) {
  return size_t(std::find_if(variants.begin(), variants.end(), [&](const Variant& v) { return v.name == name; }) -
                variants.begin());
}

std::vector<std::pair<std::string, std::string>> environment_of() {
  const Machine m = machine();
  const BuildInfo& b = build_info();
  return {{"version", b.version},
          {"commit", b.commit},
          {"compiler", b.compiler},
          {"build", b.build_type},
          {"cpu", m.cpu},
          {"instruction set", kernels::name_of(kernels::usable_isa())},
          {"threads", cat(threads())},
          {"memory", format_bytes(double(m.memory))}};
}

Contender contender_of(const Variant& v, const TextSizes& text, const Path& weights) {
  const ModelConfig model = last_config(complete_model(v.recipe, text), v.recipe.train.growth);
  return {v.name, model, v.recipe.train, v.recipe.data.sequence_length, weights};
}

uint64_t checksum_of(const std::string& text) { return checksum(text.data(), text.size()); }

std::string model_of(const Variant& v) {
  std::string text = v.name + "\n";
  for (const auto& [key, value] : leaves(v.recipe))
    if (key.starts_with("model.") || key.starts_with("train.batch") || key.starts_with("train.precision") ||
        key.starts_with("train.gradient"))
      text += key + "=" + value + "\n";
  return text;
}

// Step times for match: time. Measured once: later calls, and a continued comparison, take what the file says.
std::vector<double> step_seconds(const std::vector<Variant>& variants, const TextSizes& text,
                                 const BatchSource& batches, const Path& file, bool keep) {
  std::string key_text = cat(threads(), "\n");
  for (const Variant& v : variants) key_text += model_of(v);
  const std::string key = cat(checksum_of(key_text));
  if (file.has_parent_path() && std::filesystem::exists(file)) {
    const Json json = parse_json(read_file(file), file.string());
    check_usage(json.at("key") == key, "compare", "'", file.string(),
                "' holds step times of other variants or another number of threads, and their runs stand beside it; "
                "choose another --out");
    return json.at("step_seconds");
  }
  constexpr int64_t kRounds = 5, kSteps = 2;
  std::vector<std::vector<double>> times(variants.size());
  for (int64_t r = 0; r < kRounds; ++r)
    for (size_t i = 0; i < variants.size(); ++i) {
      check(!stop_signal(), "compare", "stopped by signal ", stop_signal());
      const size_t v = (i + size_t(r)) % variants.size();
      times[v].push_back(time_training(contender_of(variants[v], text, ""), batches, kSteps));
    }
  std::vector<double> out;
  for (const auto& t : times) out.push_back(quantile(t, 0.5));
  if (keep) write_file(file, dump(Json({{"key", key}, {"step_seconds", out}}), 2) + "\n");
  return out;
}

Json to_json(const Timing& t) {
  Json json = {{"train_step", t.train_step}, {"prefill", t.prefill}, {"decode_token", t.decode_token}};
  if (!t.translation.empty()) json["translation"] = t.translation;
  return json;
}

Timing timing_from(const Json& json) {
  Timing t;
  t.train_step = number_or_nan(json.at("train_step"));
  for (const Json& v : json.at("prefill")) t.prefill.push_back(number_or_nan(v));
  for (const Json& v : json.at("decode_token")) t.decode_token.push_back(number_or_nan(v));
  if (json.contains("translation"))
    for (const Json& v : json.at("translation")) t.translation.push_back(number_or_nan(v));
  return t;
}

// Rounds already taken on the same machine for the same question.
std::vector<std::vector<Timing>> stored_rounds(const Path& file, const std::string& key) {
  std::vector<std::vector<Timing>> out;
  if (!std::filesystem::exists(file)) return out;
  try {
    const Json json = parse_json(read_file(file), file.string());
    if (json.at("key") != key) return out;
    for (const Json& round : json.at("rounds")) {
      out.emplace_back();
      for (const Json& t : round) out.back().push_back(timing_from(t));
    }
  } catch (const std::exception& error) {
    log_warning("'", file.string(), "' is damaged (", error.what(), "); timing again");
    out.clear();
  }
  return out;
}

// The score that PRR, PEoP and the charts use.
void choose_score(Experiment& e, bool translates, bool labels) {
  check_usage(
      labels ? e.score.empty() || e.score == "task_metric" || e.score == "token_perplexity" : e.score != "task_metric",
      "compare", "score ", e.score,
      labels ? " is not of labelled examples; leave it out for the task's first metric"
             : " is of a section task, which the recipe has not");
  if (labels) {
    if (e.score.empty()) e.score = "task_metric";
    return;
  }
  if (e.score.empty()) e.score = translates ? "bleu" : "token_perplexity";
  const bool of_translations = e.score == "bleu" || e.score == "chrf";
  check_usage(translates ? of_translations || e.score == "token_perplexity" : !of_translations, "compare", "score ",
              e.score, translates ? " is of a text, and these variants translate" : " is of translations",
              "; choose another, or leave it out");
}

// So many held-out sources, from all over the part.
std::vector<std::string> some_sources(const std::vector<TextPair>& pairs, int64_t count) {
  const size_t n = std::min(pairs.size(), size_t(count));
  std::vector<std::string> out;
  for (size_t i = 0; i < n; ++i) out.push_back(pairs[i * pairs.size() / n].source);
  return out;
}

class Comparer {
 public:
  explicit Comparer(const Request& request) : request_(request) {}

  Comparison run() {
    Comparison& c = result_;
    c.experiment = read_experiment(request_.experiment);
    variants_ = make_variants(c.experiment);
    check_fairness(variants_, c.experiment);
    const bool translates = variants_[0].translates();
    const bool labels = variants_[0].labels();
    const PartChoice& objective = variants_[0].recipe.train.objective;
    check_usage(translates || labels || make_objective(objective)->predicts_next(), "compare", "objective ",
                objective.type,
                ": comparisons are of the next token, of translations and of tasks; `lithe finetune` compares "
                "pre-trained encoders by their tasks");
    choose_score(c.experiment, translates, labels);
    translates ? load_translations() : labels ? load_examples() : load_text();
    match_budget(variants_, c.experiment, text_, [&](const std::vector<Variant>& variants) {
      return step_seconds(variants, text_, batches(), request_.out / "budget.json", !request_.plan_only);
    });
    check_fairness(variants_, c.experiment);
    c.baseline = index_of(variants_, c.experiment.baseline);
    c.peop_baseline = index_of(variants_, c.experiment.peop_baseline);
    c.environment = environment_of();
    const ModelConfig base = complete_model(variants_[c.baseline].recipe, text_);
    for (const Variant& v : variants_) {
      VariantResult r;
      r.variant = v;
      r.start = shared_start(base, complete_model(v.recipe, text_));
      c.variants.push_back(std::move(r));
    }
    if (!request_.plan_only) {
      write_file(request_.out / "experiment.yaml", c.experiment.text);
      if (!train_all() || !time_all()) c.status = "stopped";
    }
    find(c);
    if (!request_.plan_only) write();
    return std::move(result_);
  }

 private:
  const Request& request_;
  Comparison result_;
  std::vector<Variant> variants_;
  Dataset data_;
  std::optional<Translations> translations_;  // in place of data_
  std::optional<TrainingData> examples_;      // of a task, in place of data_
  std::unique_ptr<HeldOutTask> held_out_;     // of them
  std::unique_ptr<BatchOrder> text_batches_;
  TextSizes text_;
  Scoring scoring_;

  // That training steps are timed with: those that the runs learn from.
  const BatchSource& batches() const {
    return translations_ ? *translations_->data.train : examples_ ? *examples_->train : *text_batches_;
  }

  // One text and one tokenizer for all: check_fairness has seen that section data is the same.
  void load_text() {
    const Recipe& s = variants_[0].recipe;
    data_ = load_dataset(s.data);
    check_usage(data_.validation.has_value(), "compare",
                "the recipe holds no text out to score variants on; give data.validation_files or "
                "data.validation_fraction");
    const BatchOrder train(data_.train, s.data.sequence_length, s.train.micro_batch_tokens(), 0),
        held_out(*data_.validation, s.data.sequence_length, s.train.micro_batch_tokens(), 0, false);
    text_ = {.vocabulary = data_.tokenizer->vocab_size(),
             .batches_per_epoch = train.batches_per_epoch(),
             .evaluation_rows = std::min(s.train.micro_batch_tokens(), held_out.rows_per_epoch())};
    text_batches_ = std::make_unique<BatchOrder>(data_.train, s.data.sequence_length, s.train.micro_batch_tokens(), 1);
    const StoreInfo& info = data_.validation->info();
    check_usage(result_.experiment.score != "word_perplexity" || info.words > 0, "compare",
                "the held-out text has no words; choose another score");
    result_.data = data_.fingerprint();
    scoring_ = {.text = &*data_.validation, .data = result_.data, .precision = result_.experiment.measure.precision};
    result_.held_out =
        cat(report::format_integer(info.tokens), " tokens, ", report::format_integer(info.bytes), " bytes, ",
            report::format_integer(info.documents), info.documents == 1 ? " document" : " documents");
  }

  void load_translations() {
    translations_.emplace(compare::load_translations(variants_[0].recipe));
    text_ = {.vocabulary = translations_->data.tokenizer->vocab_size(),
             .batches_per_epoch = translations_->data.train->batches_per_epoch(),
             .translations = &*translations_};
    result_.data = translations_->fingerprint;
    result_.held_out = translations_->held_out_text();
    scoring_ = {
        .translations = &*translations_, .data = result_.data, .precision = result_.experiment.measure.precision};
  }

  // The examples of a task; scored on its test part, else its validation part.
  void load_examples() {
    const Recipe& s = variants_[0].recipe;
    TaskData data = load_task(s.task);
    examples_.emplace(load_training_data(s, {}));
    TaskConfig config = s.task;
    config.train.clear();
    const bool test = !data.test.empty();
    check_usage(test || !data.validation.empty(), "compare",
                "the recipe holds no examples out to score variants on; give task.test or task.validation");
    const TaskMetric metric = choose_metrics(s.task, examples_->labels).metrics[0];
    check_usage(metric.better == Better::higher || result_.experiment.score != "task_metric", "compare", "less of ",
                metric.name, ", the first of task.metrics, is better; name one first of which more is");
    held_out_ = std::make_unique<HeldOutTask>(
        TaskBatches(std::move(test ? data.test : data.validation), task_type(s.task), *examples_->tokenizer,
                    s.data.sequence_length, s.train.micro_batch_tokens(), 0, false),
        config, examples_->labels);
    text_ = {.vocabulary = examples_->tokenizer->vocab_size(),
             .batches_per_epoch = examples_->train->batches_per_epoch(),
             .evaluation_rows = examples_->held_out ? examples_->held_out->batches().largest_batch() : 0,
             .examples = &*examples_};
    const uint64_t parts[] = {examples_->fingerprint, held_out_->batches().fingerprint()};
    result_.data = checksum(parts, sizeof parts);
    scoring_ = {.examples = held_out_.get(), .data = result_.data, .precision = result_.experiment.measure.precision};
    result_.held_out = cat(report::format_integer(int64_t(held_out_->batches().examples().size())), " examples of the ",
                           test ? "test" : "validation", " part");
  }

  // Words of the examples one after another, for prompts of models that go on from a state.
  std::optional<TokenStore> words_of_examples() const {
    if (variants_[0].recipe.model.architecture != Architecture::decoder) return std::nullopt;
    std::vector<std::vector<int32_t>> documents;
    for (const TaskSequence& s : held_out_->batches().sequences()) documents.push_back(s.tokens);
    return TokenStore::from_documents(documents, {.vocab_size = text_.vocabulary});
  }

  // Seed by seed, so that a comparison that is stopped has whole seeds.
  bool train_all() {
    for (int64_t seed : result_.experiment.seeds)
      for (VariantResult& v : result_.variants) {
        auto outcome = run_variant(v.variant, seed, request_.out, scoring_);
        if (!outcome) return false;
        if (translations_) count_matches(*translations_, *outcome);
        v.runs.push_back(std::move(*outcome));
      }
    return true;
  }

  bool time_all() {
    const MeasureConfig& m = result_.experiment.measure;
    if (!m.repeats) return true;
    std::vector<Contender> contenders;
    std::string key_text;
    for (const VariantResult& v : result_.variants) {
      const auto run = std::find_if(v.runs.begin(), v.runs.end(), [](const Outcome& o) { return o.finished(); });
      contenders.push_back(
          contender_of(v.variant, text_, run == v.runs.end() ? "" : run->directory / "model.safetensors"));
      key_text += model_of(v.variant);
    }
    contenders.push_back(contenders[result_.baseline]);
    const size_t contender_count = contenders.size();
    for (const auto& [name, value] : result_.environment) key_text += value + "\n";
    key_text += to_yaml(write_fields([&](Fields& f) {
      MeasureConfig measure = m;
      measure.repeats = 1;  // more rounds may follow
      measure.fields(f);
    }));
    SpeedMaterial material{.batches = &batches()};
    if (translations_) {
      material.sentences = some_sources(translations_->held_out, m.sentences);
      material.tokenizers = {translations_->data.tokenizer, translations_->data.source_tokenizer};
      material.translate = result_.variants[0].variant.recipe.translate;
      key_text += cat(result_.data, "\n");
      for (const auto& [name, value] : leaves(result_.variants[0].variant.recipe))
        if (name.starts_with("translate.")) key_text += name + "=" + value + "\n";
    } else if (examples_) {
      material.text = words_of_examples();
      key_text += cat(result_.data, "\n");
    } else {
      material.text = data_.train;
    }
    const std::string key = cat(checksum_of(key_text));
    const Path file = request_.out / "rounds.json";
    Speed& speed = result_.speed;
    auto rounds = stored_rounds(file, key);
    log_info("timing ", result_.variants.size(), " variants in ", m.repeats, " rounds");
    speed.sentences = int64_t(material.sentences.size());
    SpeedBench bench(std::move(contenders), m, std::move(material));
    speed.cells = bench.cells();
    speed.costs = bench.costs();
    speed.searches = bench.searches();
    speed.translated = bench.translated();
    const bool whole = std::all_of(rounds.begin(), rounds.end(), [&](const std::vector<Timing>& round) {
      return round.size() == contender_count && std::all_of(round.begin(), round.end(), [&](const Timing& t) {
               return t.prefill.size() == speed.cells.size() && t.decode_token.size() == speed.cells.size() &&
                      t.translation.size() == speed.searches.size();
             });
    });
    if (!whole) {
      log_warning("'", file.string(), "' holds rounds of other measurements; timing again");
      rounds.clear();
    }
    if (int64_t(rounds.size()) > m.repeats) rounds.resize(size_t(m.repeats));
    bool open = true;
    while (open && int64_t(rounds.size()) < m.repeats) {
      auto round = bench.round(int64_t(rounds.size()));
      if ((open = !round.empty())) {
        rounds.push_back(std::move(round));
        Json json = {{"key", key}, {"rounds", Json::array()}};
        for (const auto& taken : rounds) {
          Json timings = Json::array();
          for (const Timing& t : taken) timings.push_back(to_json(t));
          json["rounds"].push_back(std::move(timings));
        }
        write_file(file, dump(json) + "\n");
      }
    }
    speed.rounds = std::move(rounds);
    return open;
  }

  void write() {
    write_file(request_.out / "comparison.json", to_json_text(result_));
    write_file(request_.out / "comparison.md", to_markdown(result_));
    write_file(request_.out / "comparison.html", to_page(result_));
  }
};

}  // namespace

namespace {

// What stands in `out` must be this comparison so far, not something else that it would be mixed with.
void check_directory(const Request& request) {
  const Path kept = request.out / "experiment.yaml";
  check_usage(!std::filesystem::exists(request.out / "resolved_recipe.yaml"), "compare", "'", request.out.string(),
              "' holds a training run; give another --out");
  if (!std::filesystem::exists(kept)) return;
  std::vector<std::string> before;
  const Node old = parse_yaml(read_file(kept), kept.string());
  if (const Node* variants = old.find("variants"))
    for (const auto& [name, value] : variants->entries()) before.push_back(name);
  const auto now = read_experiment(request.experiment).variants;
  const bool shared = std::any_of(now.begin(), now.end(), [&](const VariantConfig& v) {
    return std::find(before.begin(), before.end(), v.name) != before.end();
  });
  check_usage(shared || before.empty(), "compare", "'", request.out.string(), "' holds another comparison, of ",
              join(before), "; give another --out");
}

}  // namespace

Comparison compare(const Request& request) {
  if (request.plan_only) return Comparer(request).run();
  check_usage(!std::filesystem::exists(request.out) || std::filesystem::is_directory(request.out), "compare", "'",
              request.out.string(), "' is a file; give --out a directory");
  const OutputDirectory directory(request.out);
  check_directory(request);
  Description experiment(request.out / "experiment.yaml"), budget(request.out / "budget.json");
  Comparison result = Comparer(request).run();
  experiment.keep(), budget.keep();
  return result;
}

}  // namespace lithe::compare
