#include "lithe/report/run_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "lithe/base/error.h"
#include "lithe/report/part_statistics.h"
#include "lithe/report/run_sections.h"

namespace lithe::report {
namespace {

constexpr size_t kSampleSteps = 24;  // more are thinned evenly
constexpr size_t kSamplesPerStep = 16;
constexpr int64_t kSampleLength = 4000;  // code points

// The middle value of the finite ones; NaN of none.
double median(std::vector<double> values) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  if (values.empty()) return std::nan("");
  const auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

double last_finite(const std::vector<double>& values) {
  for (size_t i = values.size(); i-- > 0;)
    if (std::isfinite(values[i])) return values[i];
  return std::nan("");
}

const Evaluation* best_evaluation(const RunRecord& run) {
  const Evaluation* best = nullptr;
  for (const Evaluation& evaluation : run.evaluations)
    if (std::isfinite(evaluation.loss) &&
        (!best || (evaluation.metrics.empty() ? evaluation.loss < best->loss : evaluation.best)))
      best = &evaluation;
  return best;
}

// Seconds of training. The result of a run in progress or one that failed may not know them: the speed lines do, whose
// clock may start again on resume.
double elapsed(const RunRecord& run) {
  double total = 0, previous = 0;
  for (const double seconds : run.speed.elapsed_seconds) {
    if (!std::isfinite(seconds)) continue;
    total += seconds >= previous ? seconds - previous : seconds;
    previous = seconds;
  }
  if (run.result && std::isfinite(run.result->seconds)) total = std::max(total, run.result->seconds);
  return total > 0 ? total : std::nan("");
}

// The last step that any record knows of; NaN of none.
double last_step(const RunRecord& run) {
  double step = run.training.step.empty() ? std::nan("") : run.training.step.back();
  if (!run.evaluations.empty()) step = std::fmax(step, run.evaluations.back().step);
  return run.result ? std::fmax(step, run.result->steps) : step;
}

Tile status_tile(const RunRecord& run) {
  const double step = last_step(run);
  const std::string detail = std::isfinite(step) ? at_step(step) : "";
  if (!run.result || !run.result->status) return {"Status", "unknown", detail, Tone::plain};
  const RunStatus status = *run.result->status;
  const Tone tone = status == RunStatus::finished   ? Tone::good
                    : status == RunStatus::diverged ? Tone::bad
                    : status == RunStatus::stopped  ? Tone::caution
                                                    : Tone::plain;
  return {"Status", name_of(status), detail, tone};
}

void headline(Page& page, const RunRecord& run) {
  std::vector<Tile> tiles = {status_tile(run)};
  if (const Evaluation* best = best_evaluation(run)) {
    tiles.push_back({best->metrics.empty() ? "Best validation loss" : "Validation loss of the best",
                     format_number(best->loss), at_step(best->step)});
    const bool has_bits = std::isfinite(best->bits_per_byte);
    if (std::isfinite(best->perplexity))
      tiles.push_back({"Best perplexity", format_number(best->perplexity),
                       has_bits ? format_number(best->bits_per_byte) + " bits per byte" : ""});
    for (const auto& [name, value] : best->metrics)
      tiles.push_back({name + " of the best", number_or_dash(value), at_step(best->step)});
    const Evaluation& last = run.evaluations.back();
    tiles.push_back({"Final validation loss", number_or_dash(last.loss),
                     std::isfinite(last.perplexity) ? "perplexity " + number_or_dash(last.perplexity) : "",
                     std::isfinite(last.loss) ? Tone::plain : Tone::bad});
  } else {
    double loss = last_finite(run.training.loss);
    if (run.result && !std::isfinite(loss)) loss = run.result->final_loss;
    if (std::isfinite(loss)) tiles.push_back({"Final training loss", format_number(loss), "no validation in this run"});
  }
  if (run.parameters)
    tiles.push_back({"Parameters", format(*run.parameters, Quantity::count), integer_text(*run.parameters)});
  const double tokens = last_finite(run.training.tokens), epoch = last_finite(run.training.epoch);
  if (std::isfinite(tokens))
    tiles.push_back({"Tokens seen", format(tokens, Quantity::count),
                     std::isfinite(epoch) ? format_number(epoch, 3) + " epochs" : ""});
  const double speed = median(run.speed.tokens_per_second);
  if (std::isfinite(speed)) {
    const double seconds = median(run.speed.step_seconds);
    tiles.push_back({"Tokens per second", format_number(std::round(speed), 6),
                     std::isfinite(seconds) ? "median; " + format(seconds, Quantity::seconds) + " a step" : "median"});
  }
  if (!run.spikes.empty())
    tiles.push_back({"Loss spikes", format_integer(int64_t(run.spikes.size())), "taken back, their batches left out",
                     Tone::caution});
  const auto& ledger = run.measured ? run.measured : run.planned;
  if (ledger && std::isfinite(ledger->peak))
    tiles.push_back(
        {"Peak memory", format(ledger->peak, Quantity::bytes), run.measured ? "measured" : "planned, not measured"});
  const double seconds = elapsed(run);
  if (std::isfinite(seconds)) tiles.push_back({"Duration", format(seconds, Quantity::seconds), ""});
  page.tiles(tiles);
}

void notices(Page& page, const RunRecord& run) {
  if (run.result && !run.result->message.empty()) {
    const std::optional<RunStatus> status = run.result->status;
    page.notice(status == RunStatus::diverged   ? Tone::bad
                : status == RunStatus::finished ? Tone::good
                                                : Tone::caution,
                run.result->message);
  }
  if (!run.damaged.empty())
    page.notice(Tone::bad, "Some records of this run are damaged. The page shows the rest.", run.damaged);
  if (!run.missing.empty()) {
    std::string files;
    for (const std::string& file : run.missing) files += (files.empty() ? "" : ", ") + file;
    page.notice(Tone::plain, "Not recorded in this directory", {files});
  }
}

// What the model wrote; samples whose text repeats the prompt are shown without the repetition.
std::string continuation(const Sample& sample) {
  return sample.text.starts_with(sample.prompt) ? sample.text.substr(sample.prompt.size()) : sample.text;
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return cut(clean_text(text), 90);
}

void samples(Page& page, const RunRecord& run) {
  if (run.samples.empty()) return;
  page.section("Samples");
  std::map<int64_t, std::vector<const Sample*>> by_step;
  for (const Sample& sample : run.samples) by_step[sample.step].push_back(&sample);
  std::vector<int64_t> steps;
  for (const auto& [step, all] : by_step) steps.push_back(step);
  std::reverse(steps.begin(), steps.end());
  std::set<size_t> shown;  // the last, the first, and evenly spaced ones between
  for (size_t i = 0; i < std::min(kSampleSteps, steps.size()); ++i)
    shown.insert(steps.size() <= kSampleSteps ? i : i * (steps.size() - 1) / (kSampleSteps - 1));
  page.paragraph(shown.size() == steps.size()
                     ? "What the model wrote, the latest first. Open earlier steps to see how it got there."
                     : cat("What the model wrote, the latest first: ", shown.size(), " of ",
                           format_integer(int64_t(steps.size())),
                           " steps with samples. All of them are in samples.jsonl."));
  for (const size_t i : shown) {
    const auto& all = by_step[steps[i]];
    std::string title = "Step " + format_integer(steps[i]);
    const auto at = std::find_if(run.evaluations.begin(), run.evaluations.end(),
                                 [&](const Evaluation& e) { return e.step == double(steps[i]); });
    if (at != run.evaluations.end()) title += ", validation loss " + number_or_dash(at->loss);
    page.collapsible(
        title,
        [&] {
          for (size_t s = 0; s < std::min(all.size(), kSamplesPerStep); ++s)
            page.sample(cut(clean_text(all[s]->prompt), kSampleLength),
                        cut(clean_text(continuation(*all[s])), kSampleLength));
          if (all.size() > kSamplesPerStep)
            page.paragraph(cat(all.size() - kSamplesPerStep, " more in samples.jsonl."));
        },
        i == 0, i == 0 ? "" : one_line(continuation(*all[0])));
  }
}

void background(Page& page, const RunRecord& run) {
  if (run.recipe.empty() && run.environment.empty()) return;
  page.section("How it was made");
  if (!run.recipe.empty())
    page.collapsible(
        "Recipe", [&] { page.preformatted(run.recipe, "resolved recipe"); }, false,
        "resolved_recipe.yaml, with every default");
  if (!run.environment.empty())
    page.collapsible("Environment", [&] {
      Table table{"Environment", {{"Name"}, {"Value"}}, {}, {}};
      for (const auto& [name, value] : run.environment) table.rows.push_back({name, value});
      page.table(table);
    });
}

std::string title_of(const Path& directory) {
  const Path whole = std::filesystem::absolute(directory).lexically_normal();
  const std::string name =
      whole.filename().empty() ? whole.parent_path().filename().string() : whole.filename().string();
  return name.empty() ? "run" : name;
}

std::string subtitle_of(const RunRecord& run) {
  std::string text;
  for (const char* wanted : {"version", "commit", "cpu", "isa", "instruction set", "threads"})
    for (const auto& [name, value] : run.environment)
      if (name == wanted && !value.empty())
        text += (text.empty() ? "" : " · ") + (name == "version"   ? "lithe " + value
                                               : name == "threads" ? value + (value == "1" ? " thread" : " threads")
                                                                   : cut(clean_text(value), 60));
  return text;
}

std::string page_of(const RunRecord& run, const Path& directory) {
  Page page(title_of(directory), subtitle_of(run), "Training run");
  headline(page, run);
  notices(page, run);
  task(page, run);
  learning(page, run);
  by_position(page, run);
  part_statistics(page, run.statistics);
  memory(page, run);
  samples(page, run);
  cost(page, run);
  background(page, run);
  return page.html();
}

}  // namespace

std::string number_or_dash(double value, int digits) { return std::isnan(value) ? "–" : format_number(value, digits); }

std::string integer_text(double value) {
  return std::abs(value) < 1e18 ? format_integer(int64_t(value)) : format_number(value);
}

Cell integer_cell(double value) {
  Cell cell(std::isnan(value) ? "–" : integer_text(value));
  cell.key = value;
  return cell;
}

Cell number_cell(double value) { return std::isnan(value) ? Cell("–") : Cell(value, Quantity::number, 4); }

std::string at_step(double step) { return "step " + integer_text(step); }

bool any_finite(const std::vector<double>& values) {
  return std::any_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); });
}
}  // namespace lithe::report

namespace lithe {

std::string run_report(const Path& run_directory) {
  return report::page_of(report::read_run_record(run_directory), run_directory);
}

void write_run_report(const Path& run_directory) {
  write_file(run_directory / "report.html", run_report(run_directory));
}

}  // namespace lithe
