#include "lithe/fit/fit.h"

#include <algorithm>

#include "lithe/base/log.h"
#include "lithe/base/machine.h"
#include "lithe/base/new_directory.h"
#include "lithe/base/stop.h"
#include "lithe/base/threads.h"
#include "lithe/compress/receipt.h"
#include "lithe/fit/proposals.h"
#include "lithe/fit/workshop.h"
#include "lithe/infer/weights_file.h"
#include "lithe/report/format.h"
#include "lithe/train/plan.h"

namespace lithe::fit {
namespace {

constexpr int kRealRuns = 3;
constexpr int kRounds = 3;  // of chains that are still smaller

Json settings_of_fit(const Request& request) {
  return {{"weights", cat(weights_fingerprint(request.run, request.weights))},
          {"text", request.text},
          {"trial_steps", request.trial_steps},
          {"batches", request.batches},
          {"scan_tokens", request.scan_tokens},
          {"calibration_tokens", request.calibration_tokens},
          {"length", request.length},
          {"machine", machine().cpu},
          {"threads", threads()}};
}

// Points of other settings are not comparable.
void open_work(const Request& request, const Path& work) {
  const Path file = work / "settings.json";
  const Json settings = settings_of_fit(request);
  if (std::filesystem::exists(file) && parse_json(read_file(file), file.string()) != settings) {
    check_usage(request.overwrite, "fit", "'", work.string(),
                "' holds trials with other settings; give --overwrite to start over, or another --out");
    std::filesystem::remove_all(work);
  }
  make_directory(work);
  write_file(file, dump(settings, 2) + "\n");
}

// Of several runs of a process: the least time, since other programs lengthen it, and the most memory.
std::optional<RealRun> real_run(const RunReally& run_really, const RealUse& use) {
  RealRun out;
  for (int i = 0; i < kRealRuns; ++i) {
    check_not_stopped("fit", "the trials are kept; the same command goes on");
    const auto one = run_really(use);
    if (!one) {
      check_not_stopped("fit", "the trials are kept; the same command goes on");
      return {};
    }
    out.memory = std::max(out.memory, one->memory);
    if (one->seconds > 0) out.seconds = out.seconds > 0 ? std::min(out.seconds, one->seconds) : one->seconds;
  }
  return out;
}

// No other point is at least as good in all respects and better in one.
void number_front(std::vector<Point>& points) {
  const auto beats = [](const Point& a, const Point& b) {
    const bool as_good = a.change <= b.change && a.figures.latency <= b.figures.latency &&
                         a.figures.memory <= b.figures.memory && a.figures.size <= b.figures.size;
    return as_good && (a.change < b.change || a.figures.latency < b.figures.latency ||
                       a.figures.memory < b.figures.memory || a.figures.size < b.figures.size);
  };
  std::stable_sort(points.begin(), points.end(), [](const Point& a, const Point& b) { return a.change < b.change; });
  int number = 0;
  for (Point& p : points)
    p.number = std::none_of(points.begin(), points.end(), [&](const Point& q) { return beats(q, p); }) ? ++number : 0;
}

// Of the weights in a directory, and of its drafter's.
int64_t weights_size(const Path& directory) {
  auto out = int64_t(std::filesystem::file_size(directory / "model.safetensors"));
  const Path drafter = directory / kDrafter / "model.safetensors";
  if (std::filesystem::exists(drafter)) out += int64_t(std::filesystem::file_size(drafter));
  return out;
}

Json json_of_figures(const Figures& f) {
  return {{"latency_seconds", f.latency}, {"memory_bytes", f.memory}, {"size_bytes", f.size}};
}

Json json_of_point(const Point& p) {
  Json out = {{"number", p.number},
              {"chain", p.chain.name()},
              {"exchange", p.chain.exchange},
              {"share", p.chain.share},
              {"format", p.chain.format},
              {"method", p.chain.method},
              {"parameters", p.parameters},
              {"loss", p.loss},
              {"loss_change", {{"mean", p.loss_change}}},
              {"change", {{"mean", p.change}, {"standard_error", p.error}}},
              {"options", p.chain.options("OUT")},
              {"measured", json_of_figures(p.figures)},
              {"fits", p.fits}};
  for (const auto& [name, value] : p.scores) out["scores"][name] = value;
  if (p.predicted.size) out["predicted"] = json_of_figures(p.predicted);
  if (!p.failed.empty()) out["failed"] = p.failed;
  return out;
}

std::string say(const Figures& f, const Budget& budget) {
  const auto part = [](double is, double most, const std::string& text, const std::string& limit) {
    return most > 0 ? cat(text, is > most ? " (above " : " (within ", limit, ")") : text;
  };
  const auto ms = [](double seconds) { return report::format_number(1e3 * seconds, 3) + " ms"; };
  return cat(part(f.latency, budget.latency, ms(f.latency), ms(budget.latency)), ", ",
             part(double(f.memory), double(budget.memory), format_bytes(double(f.memory)) + " of memory",
                  format_bytes(double(budget.memory))),
             ", ",
             part(double(f.size), double(budget.size), format_bytes(double(f.size)) + " on disk",
                  format_bytes(double(budget.size))));
}

class Fitting {
 public:
  Fitting(const Request& request, const RunReally& run_really, const std::function<void(const Path& to)>& companions)
      : request_(request), run_really_(run_really), shop_(request, companions) {
    for (const std::string& exchange : request.exchanges) shop_.exchanged_config(exchange);
  }

  const Path& work() const { return shop_.work(); }

  Result run() {
    proposals_.emplace(shop_, request_);
    if (!try_chains()) return {Outcome::stopped, {}};
    const std::string shown = request_.choose ? shown_as(request_.choose) : "";
    for (int round = 0;; ++round) {
      for (Point& p : points_) p.fits = p.failed.empty() && p.figures.within(request_.budget);
      number_front(points_);
      write_page(shop_.work());
      if (has_fitting() && request_.plan_only) return {Outcome::planned, json_};
      if (has_fitting() && !request_.choose) {
        Result result = carry_out(fitting());
        if (result.outcome != Outcome::nothing_fits) return result;
      }
      const bool shows = request_.choose && (shown.empty() ? has_fitting() : find(shown) != nullptr);
      // What was measured, here or in real runs, may be above what was predicted: smaller ones may fit all the same.
      std::vector<Chain> more;
      if (!shows && round < kRounds && request_.shares.empty()) more = proposals_->still_smaller(points_);
      if (more.empty()) return request_.choose ? carry_out({chosen(shown)}) : nothing_fits();
      const size_t before = points_.size();
      for (const Chain& chain : more)
        if (!add_if_possible(chain)) return {Outcome::stopped, {}};
      for (size_t i = before; i < points_.size(); ++i) as_the_system_sees(points_[i]);
    }
  }

 private:
  const Request& request_;
  const RunReally& run_really_;
  Workshop shop_;
  std::optional<Proposals> proposals_;
  std::vector<Point> points_;
  std::string text_;               // of real runs
  double own_time_ = 0;            // seconds that the program takes for a token beside the model
  double program_ = 0, rate_ = 1;  // memory as the system sees it: the program's own, and bytes a byte of the ledger
  Json json_;

  bool has_fitting() const {
    return std::any_of(points_.begin(), points_.end(), [](const Point& p) { return p.fits; });
  }
  RealUse real_use(const Path& directory, const Chain& chain) const {
    const UseShape& shape = shop_.shape();
    return {directory, chain.options(directory), text_, shape.continues ? shape.length / 2 : 0, shape.translates};
  }

  // What the system sees of the original and of its 8 bits says what it will see of others.
  void calibrate(const Point& original, const Point& rounded) {
    text_ = shop_.text();
    const auto first = real_run(run_really_, real_use(request_.run, {}));
    const auto second = real_run(run_really_, real_use(rounded.directory, {}));
    if (!first || !second) {
      check(!request_.budget.memory, "fit", "no process could use the model, so nobody can see whether --memory ",
            format_bytes(double(request_.budget.memory)),
            " is kept; mend the cause in the warning above, or limit --size");
      log_warning("no process could use the model: memory is lithe's own count, without the program itself");
      return;
    }
    if (first->seconds > 0) own_time_ = std::max(0.0, first->seconds - original.figures.latency);
    const auto apart = double(original.figures.memory - rounded.figures.memory);
    if (apart > 0) rate_ = std::clamp(double(first->memory - second->memory) / apart, 1.0, 3.0);
    program_ = std::max(0.0, double(first->memory) - rate_ * double(original.figures.memory));
  }
  int64_t seen(int64_t bytes) const { return int64_t(program_ + rate_ * double(bytes)); }

  bool add(const Chain& chain) {
    bool stopped = false;
    std::optional<Point> p = shop_.point(chain, stopped);
    if (p) points_.push_back(*p);
    return !stopped;
  }
  // A part may refuse what others take; what the user asked for by name must be possible.
  bool add_if_possible(const Chain& chain) {
    try {
      return add(chain);
    } catch (const Error& error) {
      leave_out(chain, error);
    }
    return true;
  }
  void leave_out(const Chain& chain, const Error& error) {
    if (stop_signal() || error.code() != ExitCode::usage) throw;
    if (!chain.exchange.empty() && !request_.exchanges.empty()) throw;
    log_warning(chain.name(), " is left out: ", error.what());
    json_["left_out"].push_back({{"chain", chain.name()}, {"why", error.what()}});
  }

  bool try_chains() {
    for (const Chain& chain : proposals_->whole())
      if (!add(chain)) return false;
    const auto of = [&](const char* format) -> const Point& {
      return *std::find_if(points_.begin(), points_.end(), [&](const Point& p) { return p.chain.format == format; });
    };
    calibrate(of("f32"), of("int8"));
    proposals_->learn(
        points_, [&](int64_t bytes) { return seen(bytes); }, own_time_);
    for (const std::vector<Chain>& chains : {proposals_->smaller(), proposals_->exchanged(), proposals_->ways()})
      for (const Chain& chain : chains)
        if (!add_if_possible(chain)) return false;
    for (const Chain& chain : proposals_->mixed(points_))
      if (!add_if_possible(chain)) return false;
    for (Point& p : points_) as_the_system_sees(p);
    return true;
  }
  void as_the_system_sees(Point& p) const {
    p.predicted = proposals_->predicted(p.chain, p.ratio);
    p.figures.memory = seen(p.figures.memory);
    p.figures.latency += own_time_;
  }

  Json budget_json() const {
    const Budget& b = request_.budget;
    return {{"memory_bytes", b.memory}, {"latency_seconds", b.latency}, {"size_bytes", b.size}};
  }
  void write_page(const Path& directory) {
    json_["run"] = request_.run.string();
    json_["machine"] = machine().cpu;
    json_["threads"] = threads();
    json_["budget"] = budget_json();
    json_["use"] = {{"continues", shop_.shape().continues},
                    {"translates", shop_.shape().translates},
                    {"length", shop_.shape().length}};
    json_["quality"] = shop_.quality();
    json_["measured_on"] = shop_.data().name;
    json_["rates"] = proposals_->rates_json();
    json_["program_memory_bytes"] = int64_t(program_);
    json_["program_seconds"] = own_time_;
    json_["trial_steps"] = request_.trial_steps;
    json_["chains"] = Json::array();
    for (const Point& p : points_) json_["chains"].push_back(json_of_point(p));
    json_["matrices"] = Json::array();
    for (const MatrixBits& bits : shop_.bits({})) {
      json_["matrices"].push_back({{"name", bits.name}});
      for (const BitChoice& c : bits.choices)
        if (c.format != "kept") json_["matrices"].back()[c.format] = c.change;
    }
    write_file(directory / "fit.json", dump(json_, 2) + "\n");
    write_file(directory / "fit.html", fit_page(json_));
  }

  // The name of the chain that the page of the same budget shows under this number; none where there is no such page.
  std::string shown_as(int number) const {
    const Path file = shop_.work() / "fit.json";
    if (!std::filesystem::exists(file)) return {};
    const Json page = parse_json(read_file(file), file.string());
    if (page["budget"] != budget_json()) return {};
    for (const Json& chain : page["chains"])
      if (chain["number"] == number) return chain["chain"];
    return {};
  }
  Point* find(const std::string& name) {
    const auto found =
        std::find_if(points_.begin(), points_.end(), [&](const Point& p) { return p.chain.name() == name; });
    return found == points_.end() ? nullptr : &*found;
  }
  Point* chosen(const std::string& shown) {
    if (!shown.empty()) {
      Point* found = find(shown);
      check_usage(found, "fit", "--choose ", request_.choose, ": '", shown,
                  "' is not among the chains now; lithe fit --plan shows them");
      return found;
    }
    int most = 0;
    for (Point& p : points_) {
      if (p.number == request_.choose) return &p;
      most = std::max(most, p.number);
    }
    fail_usage("fit", "--choose ", request_.choose, ": the front has chains 1 to ", most,
               "; lithe fit --plan shows them");
  }
  // In the order in which they are tried.
  std::vector<Point*> fitting() {
    std::vector<Point*> out;
    for (Point& p : points_)
      if (p.fits) out.push_back(&p);
    return out;
  }

  Result carry_out(const std::vector<Point*>& candidates) {
    for (Point* p : candidates) {
      bool stopped = false;
      try {
        if (make(*p, stopped)) return {p->failed.empty() ? Outcome::carried_out : Outcome::nothing_fits, json_};
      } catch (const Error& error) {
        if (request_.choose) throw;
        leave_out(p->chain, error);
        p->fits = false, p->failed = error.what();
      }
      if (stopped) return {Outcome::stopped, {}};
    }
    return nothing_fits();
  }

  Result nothing_fits() {
    const auto nearest = std::min_element(points_.begin(), points_.end(), [&](const Point& a, const Point& b) {
      return a.figures.excess(request_.budget) < b.figures.excess(request_.budget);
    });
    json_["nearest"] = {{"chain", nearest->chain.name()},
                        {"why", nearest->failed.empty() ? say(nearest->figures, request_.budget) : nearest->failed}};
    write_page(shop_.work());
    return {Outcome::nothing_fits, json_};
  }

  // The model in `out`, if it keeps the budget there or was asked for. False: it does not, or (stopped) a signal came.
  bool make(Point& p, bool& stopped) {
    log_info("carrying out: ", p.chain.name());
    const int64_t steps = std::max(request_.train_steps, request_.trial_steps);
    const auto from = shop_.base(p.chain, steps, stopped);
    if (!from) return false;
    NewDirectory out(request_.out, "fit", request_.overwrite);
    if (!shop_.round_into(*from, p.chain, out.path(), steps)) {
      stopped = true;
      return false;
    }
    Figures real = p.figures;  // of a way; the program says what is so
    real.size = weights_size(out.path());
    if (shop_.shape().translates) {
      const Translated t = shop_.translated(out.path(), "", p.chain);
      real.latency = t.seconds + own_time_, real.memory = seen(t.peak);
    } else if (p.chain.way.plain()) {
      const MeasuredModel model(out.path(), "", p.chain.precision());
      const Use use = measure_use(model.model(), shop_.tokens(), shop_.shape());
      real.latency = use.seconds + own_time_, real.memory = seen(use.peak);
    }
    const auto run = real_run(run_really_, real_use(out.path(), p.chain));
    if (run) {
      real.memory = run->memory;
      if (run->seconds > 0) real.latency = run->seconds;
    }
    const bool known = run || !request_.budget.memory, kept = known && real.within(request_.budget);
    if (!known)
      p.failed = "no process could use the model, so its memory is not known";
    else if (!kept)
      p.failed = cat(run ? "in a real run: " : "by lithe's own count: ", say(real, request_.budget));
    if (!kept && !request_.choose) {
      p.fits = false;
      p.figures = real;
      log_warning(p.chain.name(), " does not keep the budget: ", p.failed);
      return false;
    }
    write_receipts(p, *from, out.path(), real);
    json_.erase("nearest");  // of an earlier round
    json_["chosen"] = {{"number", p.number},
                       {"chain", p.chain.name()},
                       {"options", p.chain.options(request_.out)},
                       {"real_run", json_of_figures(real)},
                       {"by_the_program", run.has_value()},
                       {"kept", kept}};
    if (!kept) json_["chosen"]["failed"] = p.failed;
    write_page(out.path());
    write_page(shop_.work());
    out.commit();
    return true;
  }

  void write_receipts(const Point& p, const Path& from, const Path& to, const Figures& real) {
    const bool first = p.chain.whole();
    if (!first && p.chain.format == "f32") {  // what came before was all, and its receipt says so
      for (const char* name : {"receipt.json", "receipt.html", "prune.json", "prune.html"})
        if (std::filesystem::exists(from / name)) write_file(to / name, read_file(from / name));
      return;
    }
    Json settings = {{"weights", p.chain.format}, {"method", p.chain.method}, {"chain", p.chain.name()}};
    if (!p.chain.way.plain()) {
      settings["options"] = p.chain.options(request_.out);
      settings["with_options"] = json_of_figures(real);
      settings["with_options"]["change"] = {{"mean", p.change}, {"standard_error", p.error}};
    }
    if (p.chain.target) settings["size"] = p.chain.target;
    write_receipt({.operation = p.chain.format == "f32" || p.chain.format == "bf16" ? "fit" : "quantize",
                   .parent = from,
                   .parent_weights = first ? request_.weights : std::string(),
                   .child = to,
                   .recipe = shop_.recipe(),
                   .batches = request_.batches,
                   .settings = settings,
                   .text = shop_.data().name == "given text" ? request_.text : std::vector<std::string>(),
                   .first_batch = request_.batches,  // not those that chose the chain
                   .baseline = false,
                   .child_precision = p.chain.precision()});
  }
};

}  // namespace

Result fit(const Request& request, const RunReally& run_really, const std::function<void(const Path& to)>& companions) {
  check_usage(request.budget.any() || request.plan_only, "fit",
              "there is no budget; give --memory, --latency or --size, or --plan to see what there is");
  check_usage(!request.choose || !request.plan_only, "fit", "--plan carries nothing out; leave out --choose");
  for (const double share : request.shares)
    check_usage(share > 0 && share < 1, "fit", "--shares are above 0 and below 1, the part that stays, not ", share);
  if (!request.plan_only) NewDirectory::check_place(request.out, "fit", request.overwrite);
  Fitting fitting(request, run_really, companions);  // refuses before anything is written
  open_work(request, fitting.work());
  return fitting.run();
}

}  // namespace lithe::fit
