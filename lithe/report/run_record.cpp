#include "lithe/report/run_record.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <span>

#include "lithe/base/error.h"
#include "lithe/base/json.h"
#include "lithe/report/format.h"

namespace lithe::report {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr uint64_t kMaxLines = uint64_t(1) << 32, kMaxDocument = uint64_t(1) << 24, kMaxEnvironment = uint64_t(1) << 16;

// A number, or what writers of JSON put for numbers that JSON cannot hold.
std::optional<double> number_in(std::string_view text) {
  if (text == "NaN" || text == "nan") return kNaN;
  if (text == "Infinity" || text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-Infinity" || text == "-inf") return -std::numeric_limits<double>::infinity();
  return {};
}

// Python and others write NaN and Infinity bare, which is not JSON; in quotes they are read as numbers.
std::string quote_bare_words(std::string_view line) {
  std::string out;
  bool in_string = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"') in_string = !in_string;
    size_t word = 0;
    if (!in_string)
      for (const std::string_view name : {"NaN", "Infinity", "-Infinity"})
        if (line.substr(i).starts_with(name)) word = name.size();
    if (word == 0) {
      out += line[i];
      continue;
    }
    out.append("\"").append(line.substr(i, word)).append("\"");
    i += word - 1;
  }
  return out;
}

// Reads the numbers of one flat JSON object under known keys without building a tree: metrics files have many lines.
class NumberReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit NumberReader(std::span<const std::string_view> keys) : keys_(keys), values_(keys.size()) {}

  bool read(std::string_view line) { return parse(line) || parse(quote_bare_words(line)); }
  bool has(size_t key) const { return values_[key].has_value(); }
  double get(size_t key) const { return values_[key].value_or(kNaN); }

  bool null() override { return put(kNaN); }
  bool boolean(bool value) override { return put(value ? 1 : 0); }
  bool number_integer(number_integer_t value) override { return put(double(value)); }
  bool number_unsigned(number_unsigned_t value) override { return put(double(value)); }
  bool number_float(number_float_t value, const string_t&) override { return put(value); }
  bool string(string_t& value) override { return put(number_in(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return open(true); }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(false); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    key_ = depth_ == 1 ? size_t(std::find(keys_.begin(), keys_.end(), name) - keys_.begin()) : keys_.size();
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  bool parse(std::string_view line) {
    std::fill(values_.begin(), values_.end(), std::nullopt);
    depth_ = 0;
    key_ = keys_.size();
    is_object_ = wrong_type_ = false;
    return nlohmann::json::sax_parse(line, this) && is_object_ && !wrong_type_;
  }
  bool put(std::optional<double> value) {
    if (depth_ == 1 && key_ < keys_.size()) {
      values_[key_] = value;
      wrong_type_ = wrong_type_ || !value;
    }
    return true;
  }
  bool open(bool object) {
    if (depth_ == 0) is_object_ = object;
    if (depth_ == 1 && key_ < keys_.size()) wrong_type_ = true;
    ++depth_;
    return true;
  }
  bool close() {
    --depth_;
    return true;
  }

  std::span<const std::string_view> keys_;
  std::vector<std::optional<double>> values_;
  int64_t depth_ = 0;
  size_t key_ = 0;
  bool is_object_ = false, wrong_type_ = false;
};

// Names what is wrong and goes on with the next file.
class Reader {
 public:
  Reader(const Path& directory, RunRecord& record) : directory_(directory), record_(record) {}

  template <class Body>
  void file(const std::string& name, uint64_t max_bytes, Body&& body) {
    std::error_code error;
    if (!std::filesystem::exists(directory_ / name, error)) {
      record_.missing.push_back(name);
      return;
    }
    try {
      body(read_file(directory_ / name, max_bytes));
    } catch (const Error& wrong) {
      damaged(name, wrong.what());
    } catch (const nlohmann::json::exception& wrong) {
      damaged(name, wrong.what());
    }
  }

  // `take` says of each line that is not blank whether it is whole.
  template <class Take>
  void lines(const std::string& name, Take&& take) {
    file(name, kMaxLines, [&](const std::string& text) {
      int64_t line = 0, bad = 0, first_bad = 0;
      bool last_is_bad = false;
      for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find('\n', at), text.size());
        const std::string_view bytes(text.data() + at, end - at);
        at = end + 1;
        ++line;
        if (bytes.find_first_not_of(" \t\r") == std::string_view::npos) continue;
        last_is_bad = !take(bytes);
        if (last_is_bad && bad++ == 0) first_bad = line;
      }
      if (bad == 0) return;
      if (bad == 1 && last_is_bad && text.back() != '\n')
        damaged(name, "the last line is incomplete, as a run in progress or a kill leaves it");
      else
        damaged(name, cat(format_integer(bad), " of ", format_integer(line),
                          " lines cannot be read and are left out, the first is line ", format_integer(first_bad)));
    });
  }

  void damaged(const std::string& name, const std::string& reason) {
    record_.damaged.push_back(reason.find(name) == std::string::npos ? name + ": " + reason : reason);
  }

 private:
  const Path& directory_;
  RunRecord& record_;
};

// Drops what a resumed run did again: all rows from the first one at `step` or after it.
template <class... Columns>
void rewind(double step, std::vector<double>& steps, Columns&... columns) {
  while (!steps.empty() && steps.back() >= step) steps.pop_back();
  (columns.resize(steps.size()), ...);
}

// What else an evaluation measured: "eval_accuracy" is accuracy.
std::vector<std::pair<std::string, double>> metrics_in(std::string_view line) {
  std::vector<std::pair<std::string, double>> out;
  const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object()) return out;
  for (const auto& [key, value] : json.items())
    if (key.starts_with("eval_") && key != "eval_loss" && key != "eval_perplexity" && key != "eval_bits_per_byte")
      out.emplace_back(key.substr(5), number_or_nan(value));
  return out;
}

void read_auxiliary(std::string_view line, double step, TrainingCurve& curve) {
  const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
  const auto found = json.is_object() ? json.find("auxiliary") : json.end();
  if (found == json.end() || !found->is_object()) return;
  for (const auto& [name, value] : found->items()) {
    TrainingCurve::Auxiliary& column = curve.auxiliary[name];
    rewind(step, column.step, column.loss);
    column.step.push_back(step);
    column.loss.push_back(number_or_nan(value));
  }
}

// "statistics": {name: {layer: [values]}}
void read_statistics(const nlohmann::json& line, double step, std::vector<PartStatistic>& all) {
  const auto found = line.is_object() ? line.find("statistics") : line.end();
  if (found == line.end() || !found->is_object()) return;
  for (const auto& [name, layers] : found->items())
    for (const auto& [layer, values] : layers.items()) {
      if (!values.is_array() || layer.empty() || layer.size() > 9 ||
          layer.find_first_not_of("0123456789") != layer.npos)
        continue;
      const std::pair key(name, int64_t(std::stoll(layer)));
      const auto key_of = [](const PartStatistic& s) { return std::pair(s.name, s.layer); };
      auto at = std::find_if(all.begin(), all.end(), [&](const PartStatistic& s) { return key_of(s) >= key; });
      if (at == all.end() || key_of(*at) != key) at = all.insert(at, {key.first, key.second, {}, {}});
      rewind(step, at->step, at->values);
      at->step.push_back(step);
      at->values.emplace_back();
      for (const nlohmann::json& value : values) at->values.back().push_back(number_or_nan(value));
    }
}

// "spike": {step, loss, limit, ...} on the line of the step that the run went back to.
bool read_spike(const nlohmann::json& line, double step, std::vector<LossSpike>& all) {
  const auto found = line.is_object() ? line.find("spike") : line.end();
  if (found == line.end() || !found->is_object()) return false;
  const auto number = [&](const char* key) { return found->contains(key) ? number_or_nan((*found)[key]) : kNaN; };
  all.push_back(
      {number("step"), number("loss"), number("limit"), step, number("first_micro_batch"), number("last_micro_batch")});
  return true;
}

void read_metrics(Reader& reader, RunRecord& record) {
  static constexpr std::array<std::string_view, 10> keys = {"step",      "tokens",          "epoch",
                                                            "loss",      "learning_rate",   "grad_norm",
                                                            "eval_loss", "eval_perplexity", "eval_bits_per_byte",
                                                            "best"};
  NumberReader numbers(keys);
  reader.lines("metrics.jsonl", [&](std::string_view line) {
    if (!numbers.read(line) || !std::isfinite(numbers.get(0))) return false;
    const double step = numbers.get(0);
    if (!numbers.has(3) && !numbers.has(6))
      return line.find("\"spike\"") != line.npos &&
             read_spike(nlohmann::json::parse(line, nullptr, false), step, record.spikes);
    if (numbers.has(3)) {
      TrainingCurve& c = record.training;
      rewind(step, c.step, c.tokens, c.epoch, c.loss, c.learning_rate, c.grad_norm);
      size_t key = 0;
      for (auto* column : {&c.step, &c.tokens, &c.epoch, &c.loss, &c.learning_rate, &c.grad_norm})
        column->push_back(numbers.get(key++));
      if (line.find("\"auxiliary\"") != line.npos) read_auxiliary(line, step, c);
      if (line.find("\"statistics\"") != line.npos)
        read_statistics(nlohmann::json::parse(line, nullptr, false), step, record.statistics);
    }
    if (numbers.has(6)) {
      std::vector<Evaluation>& all = record.evaluations;
      while (!all.empty() && all.back().step >= step) all.pop_back();
      all.push_back({step, numbers.get(6), numbers.get(7), numbers.get(8), numbers.get(9) == 1, metrics_in(line)});
    }
    return true;
  });
}

void read_speed(Reader& reader, RunRecord& record) {
  static constexpr std::array<std::string_view, 4> keys = {"step", "tokens_per_second", "step_seconds",
                                                           "elapsed_seconds"};
  NumberReader numbers(keys);
  reader.lines("speed.jsonl", [&](std::string_view line) {
    if (!numbers.read(line) || !std::isfinite(numbers.get(0))) return false;
    SpeedCurve& c = record.speed;
    rewind(numbers.get(0), c.step, c.tokens_per_second, c.step_seconds, c.elapsed_seconds);
    size_t key = 0;
    for (auto* column : {&c.step, &c.tokens_per_second, &c.step_seconds, &c.elapsed_seconds})
      column->push_back(numbers.get(key++));
    return true;
  });
}

double number_at(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : kNaN;
}

std::string string_at(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

void read_samples(Reader& reader, RunRecord& record) {
  reader.lines("samples.jsonl", [&](std::string_view line) {
    // A model can write broken UTF-8; the text around it is still worth reading.
    const auto sample = nlohmann::json::parse(clean_text(line), nullptr, false);
    if (!sample.is_object() || !std::isfinite(number_at(sample, "step")) || !sample.contains("text") ||
        !sample["text"].is_string())
      return false;
    const double step = number_at(sample, "step");
    if (std::abs(step) > 1e15) return false;
    const auto at = int64_t(step);
    while (!record.samples.empty() && record.samples.back().step > at) record.samples.pop_back();
    record.samples.push_back({at, string_at(sample, "prompt"), string_at(sample, "text")});
    return true;
  });
}

nlohmann::json object_in(const std::string& text, const std::string& name) {
  auto object = parse_json_sorted(text, name);
  check(object.is_object(), "json", "'", name, "' must be an object");
  return object;
}

std::optional<MemoryLedger> ledger_in(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_object()) return {};
  MemoryLedger ledger;
  const auto bytes = [&](const char* name) {
    const double value = number_at(*found, name);
    return value >= 0 ? value : kNaN;
  };
  for (const std::string& name : MemoryLedger::class_names()) ledger.classes.push_back(bytes(name.c_str()));
  ledger.peak = bytes("peak");
  return ledger;
}

void read_documents(Reader& reader, RunRecord& record) {
  reader.file("memory.json", kMaxDocument, [&](const std::string& text) {
    const auto object = object_in(text, "memory.json");
    record.planned = ledger_in(object, "planned");
    record.measured = ledger_in(object, "measured");
    check(record.planned || record.measured, "json", "'memory.json' must hold 'planned' or 'measured'");
  });
  reader.file("plan.json", kMaxDocument, [&](const std::string& text) {
    const auto object = object_in(text, "plan.json");
    const double parameters = number_at(object, "parameters");
    if (std::isfinite(parameters)) record.parameters = parameters;
    const auto parts = object.find("parts");
    if (parts == object.end()) return;
    check(parts->is_array(), "json", "'parts' in 'plan.json' must be a list");
    for (const auto& part : *parts) {
      check(part.is_object(), "json", "each of 'parts' in 'plan.json' must be an object");
      PartCost& cost = record.parts.emplace_back();
      cost.part = string_at(part, "part");
      for (const CostKind& kind : PartCost::kinds()) cost.costs.push_back(number_at(part, kind.key.c_str()));
    }
  });
  reader.file("environment.json", kMaxEnvironment, [&](const std::string& text) {
    const Json object = parse_json(text, "environment.json");
    check(object.is_object(), "json", "'environment.json' must be an object");
    for (const auto& [key, value] : object.items())
      record.environment.emplace_back(key, value.is_string() ? value.get<std::string>() : dump(value));
  });
  reader.file("resolved_recipe.yaml", kMaxDocument, [&](const std::string& text) { record.recipe = text; });
  reader.file("result.json", kMaxDocument, [&](const std::string& text) {
    const auto object = object_in(text, "result.json");
    record.result = {run_status(string_at(object, "status")),
                     number_at(object, "steps"),
                     number_at(object, "final_loss"),
                     number_at(object, "best_eval_loss"),
                     number_at(object, "best_step"),
                     number_at(object, "seconds"),
                     string_at(object, "message")};
  });
}

void read_by_position(Reader& reader, const Path& directory, RunRecord& record) {
  const char* name = "loss_by_position.json";
  if (!std::filesystem::exists(directory / name)) return;
  reader.file(name, kMaxDocument, [&](const std::string& text) {
    const auto object = object_in(text, name);
    const auto positions = object.find("positions");
    check(positions != object.end() && positions->is_array(), "json", "'", name, "' must hold the list 'positions'");
    LossByPosition out{number_at(object, "trained_length"), number_at(object, "context_length"), {}, {}};
    for (const auto& p : *positions) {
      check(p.is_object(), "json", "each of 'positions' in '", name, "' must be an object");
      out.position.push_back((number_at(p, "from") + number_at(p, "to")) / 2);
      out.loss.push_back(number_at(p, "loss"));
    }
    record.by_position = std::move(out);
  });
}

void read_task(Reader& reader, const Path& directory, RunRecord& record) {
  const char* name = "task_report.json";
  if (!std::filesystem::exists(directory / name)) return;
  reader.file(name, kMaxDocument, [&](const std::string& text) {
    const auto object = object_in(text, name);
    const auto items = [&](const nlohmann::json& of, const char* key) {
      const auto found = of.find(key);
      const bool there = found != of.end();
      check(!there || found->is_array(), "json", "'", key, "' in '", name, "' must be a list");
      return there ? *found : nlohmann::json::array();
    };
    TaskRecord out{.part = string_at(object, "part"),
                   .weights = string_at(object, "weights"),
                   .examples = number_at(object, "examples")};
    for (const auto& metric : items(object, "metrics"))
      if (metric.is_string()) out.metrics.push_back(metric.get<std::string>());
    const auto scores = [&](const nlohmann::json& of) {
      std::vector<double> values;
      for (const std::string& metric : out.metrics) values.push_back(number_at(of, metric.c_str()));
      return values;
    };
    out.scores.emplace_back("the model", scores(object));
    if (const auto baselines = object.find("baselines"); baselines != object.end() && baselines->is_object())
      for (const auto& [method, of] : baselines->items()) {
        check(of.is_object(), "json", "each of 'baselines' in '", name, "' must be an object");
        out.scores.emplace_back(method, scores(of));
      }
    for (const auto& c : items(object, "classes")) {
      check(c.is_object(), "json", "each of 'classes' in '", name, "' must be an object");
      out.classes.push_back({string_at(c, "class"),
                             number_at(c, "precision"),
                             number_at(c, "recall"),
                             number_at(c, "f1"),
                             number_at(c, "examples"),
                             {}});
    }
    const auto confusion = items(object, "confusion");
    for (size_t i = 0; i < std::min(confusion.size(), out.classes.size()); ++i)
      for (const auto& count : confusion[i])
        out.classes[i].taken_for.push_back(count.is_number() ? count.get<double>() : kNaN);
    for (const auto& e : items(object, "errors")) {
      check(e.is_object(), "json", "each of 'errors' in '", name, "' must be an object");
      out.errors.push_back(
          {string_at(e, "text"), string_at(e, "label"), string_at(e, "predicted"), number_at(e, "probability")});
    }
    for (const auto& warning : items(object, "warnings"))
      if (warning.is_string()) out.warnings.push_back(warning.get<std::string>());
    record.task = std::move(out);
  });
}

}  // namespace

const std::vector<std::string>& MemoryLedger::class_names() {
  static const std::vector<std::string> names = {"weights",     "gradients", "optimizer",
                                                 "activations", "decode",    "workspace"};
  return names;
}

const std::vector<CostKind>& PartCost::kinds() {
  static const std::vector<CostKind> all = {{"parameters", "Parameters", Quantity::number, true},
                                            {"forward_flops", "Forward FLOPs", Quantity::count, true},
                                            {"step_flops", "Step FLOPs", Quantity::count, false},
                                            {"step_bytes", "Step bytes", Quantity::bytes, false},
                                            {"activation_bytes", "Activations", Quantity::bytes, true}};
  return all;
}

RunRecord read_run_record(const Path& directory) {
  RunRecord record;
  Reader reader(directory, record);
  read_metrics(reader, record);
  read_speed(reader, record);
  read_samples(reader, record);
  read_documents(reader, record);
  read_by_position(reader, directory, record);
  read_task(reader, directory, record);
  check(record.missing.size() < 8, "report", "'", directory.string(),
        "' holds no metrics.jsonl nor any other file of a run; give the directory of a training run");
  return record;
}

}  // namespace lithe::report
