#include "lithe/fit/fit.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>

#include "lithe/base/log.h"
#include "lithe/base/stop.h"
#include "lithe/base/threads.h"
#include "lithe/cli/command.h"
#include "lithe/interchange/import_parts.h"
#include "lithe/report/format.h"
#include "lithe/train/plan.h"

namespace lithe {
namespace {

struct FitOptions {
  fit::Request request;
  std::string model, out, memory, latency, size;
  bool json = false;
};

// What a child printed, the time from the first of it to the last, and the most memory that it had. None where it
// failed, after a warning.
struct ChildOutput {
  std::string text;
  double seconds = 0;
  int64_t memory = 0;
};

// The largest resident set of a process so far; 0 once it has none. What wait4() tells counts the set of the process
// that it was spawned from, too.
int64_t largest_resident(pid_t process) {
  std::ifstream status(cat("/proc/", process, "/status"));
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) * 1024;
  return 0;
}

// `errors`: a file for what it says of its errors, of which the last line becomes a warning.
std::optional<ChildOutput> run_child(const std::vector<std::string>& words, const Path& errors) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  std::vector<char*> arguments{const_cast<char*>(program.c_str())};
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  ::posix_spawn_file_actions_addopen(&actions, 2, errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  pid_t child = -1;
  const int failed = ::posix_spawn(&child, program.c_str(), &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  ChildOutput out;
  std::chrono::steady_clock::time_point first;
  constexpr int kMilliseconds = 2;
  for (bool open = !failed; open;) {
    out.memory = std::max(out.memory, largest_resident(child));
    pollfd end{.fd = ends[0], .events = POLLIN, .revents = 0};
    if (::poll(&end, 1, kMilliseconds) <= 0) continue;
    char buffer[4096];
    const ssize_t got = ::read(ends[0], buffer, sizeof buffer);
    if (got > 0) {
      const auto now = std::chrono::steady_clock::now();
      if (out.text.empty()) first = now;
      out.seconds = std::chrono::duration<double>(now - first).count();
      out.text.append(buffer, size_t(got));
    }
    open = got > 0 || (got < 0 && errno == EINTR);
  }
  ::close(ends[0]);
  int status = 0;
  while (!failed && ::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return {};
  if (!failed && WIFEXITED(status) && WEXITSTATUS(status) == 0 && out.memory > 0) return out;
  if (stop_signal()) return {};
  std::string why = failed                ? std::strerror(failed)
                    : WIFSIGNALED(status) ? cat("signal ", WTERMSIG(status))
                                          : cat("exit code ", WEXITSTATUS(status));
  std::ifstream said(errors);
  for (std::string line; std::getline(said, line);)
    if (!line.empty()) why = line;
  log_warning("lithe ", words.front(), " could not use the model: ", why);
  return {};
}

// The program itself, as a person uses it: it adds tokens to the text, or reads it.
std::optional<fit::RealRun> run_program_on(const fit::RealUse& use, const Path& scratch) {
  const Path file = scratch / "text.txt";
  write_file(file, use.text + "\n");
  std::vector<std::string> words;
  if (use.translates)
    words = {"translate", use.directory.string(), file.string(), "--window", "1"};
  else if (use.new_tokens == 0)  // exits are of predictions
    words = {std::find(use.options.begin(), use.options.end(), "--exit") == use.options.end() ? "encode" : "predict",
             use.directory.string(), file.string()};
  else
    words = {"generate", use.directory.string(), "--prompts-file",    file.string(),
             "--greedy", "--max-new-tokens",     cat(use.new_tokens), "--times"};
  if (words.front() == "encode") {
    const Path rows = scratch / "rows.safetensors";
    std::filesystem::remove(rows);
    words.insert(words.end(), {"--out", rows.string()});
  } else {
    words.push_back("--json");
  }
  words.insert(words.end(), {"--threads", cat(threads())});
  words.insert(words.end(), use.options.begin(), use.options.end());
  const auto out = run_child(words, scratch / "errors.txt");
  if (!out) return {};
  if (use.translates) {
    // From the end of the first line to that of the last.
    const auto lines = std::count(out->text.begin(), out->text.end(), '\n');
    return fit::RealRun{.seconds = lines > 1 ? out->seconds / double(lines - 1) : 0, .memory = out->memory};
  }
  if (use.new_tokens == 0) return fit::RealRun{.memory = out->memory};
  fit::RealRun run{.memory = out->memory};
  const size_t last = out->text.rfind("{\"times\"");
  if (last == std::string::npos) return {};
  const Json times = parse_json(out->text.substr(last), "lithe generate --times")["times"];
  // Few tokens, where the model ended the text, tell little.
  if (double(times["new_tokens"]) >= 8) run.seconds = double(times["decode_seconds"]) / double(times["new_tokens"]);
  return run;
}

// "20ms", "0.5s", "800us" -> seconds.
double parse_seconds(const std::string& text) {
  size_t used = 0;
  double value = 0;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  const std::string unit = text.substr(used);
  const double factor = unit == "s" ? 1 : unit == "ms" ? 1e-3 : unit == "us" ? 1e-6 : 0;
  check_usage(used > 0 && value > 0 && factor > 0, "fit", "--latency must be a time like 20ms, 0.5s or 800us, not '",
              text, "'");
  return value * factor;
}

void print(const Json& json) {
  const std::string lost = json["quality"] == "loss" ? "change" : std::string(json["quality"]) + " lost";
  // Of the many ways to use a model and exchanges, those that are better than others in some respect.
  std::vector<const Json*> shown;
  int width = 5, others = 0;
  for (const Json& c : json["chains"]) {
    const bool plain = c["options"].empty() || c["options"][0] == "--precision";
    if (int(c["number"]) == 0 && (!plain || c["exchange"] != "")) {
      ++others;
      continue;
    }
    shown.push_back(&c);
    width = std::max(width, int(std::string(c["chain"]).size()));
  }
  std::printf("%-4s %-*s %10s %10s %10s %12s %12s  %s\n", "no.", width, "chain", "loss", lost.c_str(), "ms", "memory",
              "on disk", "fits");
  for (const Json* c : shown) {
    const Json& m = (*c)["measured"];
    const int number = (*c)["number"];
    std::printf("%-4s %-*s %10.4f %+10.4f %10.3f %12s %12s  %s\n", number ? cat(number).c_str() : "", width,
                std::string((*c)["chain"]).c_str(), double((*c)["loss"]), double((*c)["change"]["mean"]),
                1e3 * double(m["latency_seconds"]), format_bytes(double(m["memory_bytes"])).c_str(),
                format_bytes(double(m["size_bytes"])).c_str(), (*c)["fits"] ? "yes" : "no");
  }
  if (others > 0) std::printf("and %d others, which the report has\n", others);
}

int run_fit(FitOptions& o) {
  catch_stop_signals();
  fit::Request& r = o.request;
  r.run = o.model, r.out = o.out;
  if (!o.memory.empty()) r.budget.memory = parse_bytes(o.memory, "fit", "--memory");
  if (!o.size.empty()) r.budget.size = parse_bytes(o.size, "fit", "--size");
  if (!o.latency.empty()) r.budget.latency = parse_seconds(o.latency);
  const std::string work = fit::work_of(r.out).string();
  const auto go_on = [&] {
    log_info("stopped by signal ", stop_signal(), " and kept in ", work, "; the same command goes on");
    return 128 + stop_signal();
  };
  fit::Result result;
  try {
    result = fit::fit(
        r, [&](const fit::RealUse& use) { return run_program_on(use, work); },
        [&](const Path& to) { copy_companions(o.model, to); });
  } catch (const Error&) {
    if (!stop_signal()) throw;
    return go_on();
  }
  if (result.outcome == fit::Outcome::stopped) return go_on();
  if (o.json)
    std::cout << dump(result.json, 2) << "\n";
  else
    print(result.json);
  const bool kept = result.outcome != fit::Outcome::nothing_fits;
  if (result.json.contains("chosen")) {
    const Json &chosen = result.json["chosen"], &real = chosen["real_run"];
    log_info(std::string(chosen["chain"]), " is in '", o.out, "'; ",
             chosen["by_the_program"] ? "a real run took " : "no process could use it; by lithe's own count it takes ",
             report::format(double(real["latency_seconds"]), report::Quantity::seconds), ", ",
             format_bytes(double(real["memory_bytes"])), " of memory, and the file has ",
             format_bytes(double(real["size_bytes"])), chosen["options"].empty() ? "" : "; use it with",
             fit::words_of(chosen["options"]));
  }
  if (!o.json)
    std::printf("report %s/fit.html\n", kept && result.json.contains("chosen") ? o.out.c_str() : work.c_str());
  if (kept) return 0;
  std::string why = "no chain keeps the budget";
  if (result.json.contains("nearest"))
    why += cat("; nearest is '", std::string(result.json["nearest"]["chain"]),
               "': ", std::string(result.json["nearest"]["why"]));
  else if (result.json.contains("chosen"))
    why = cat("the chain that was chosen does not keep the budget: ", std::string(result.json["chosen"]["failed"]));
  throw Error("fit", why + "; allow more, or train a smaller model with lithe distill", ExitCode::memory);
}

}  // namespace

Command add_fit(CommandLine& app) {
  auto o = std::make_shared<FitOptions>();
  fit::Request& r = o->request;
  app.add_option("model", o->model, "directory of a training run").required();
  app.add_option("--out", o->out, "new directory for the model that fits; all trials are stored in OUT.fit")
      .output({.kind = OutputRule::Kind::new_directory})
      .required();
  app.add_flag("--overwrite", r.overwrite, "replace the output of an earlier lithe fit in --out, and nothing else");
  app.add_option("--memory", o->memory,
                 "memory limit of a process that uses the model, as the system counts it, for example 200MB");
  app.add_option("--latency", o->latency,
                 "time limit of one added token at batch 1 (of an encoder: of one text; of a translator: of one "
                 "sentence), for example 20ms");
  app.add_option(
      "--size", o->size,
      "size limit of the file of weights, together with the file of the drafter if there is one, for example 50MB");
  app.add_option("--text", r.text, "text file to measure on (repeatable); default: the held-out text of the run")
      .repeatable();
  app.add_option("--length", r.length,
                 "number of tokens of the text on which time and memory are measured; default: data.sequence_length of "
                 "the recipe, but at most 128; largest: the number of positions that the model is made for")
      .positive();
  app.add_flag("--plan", r.plan_only, "show the best chains, and make no model");
  app.add_option(
         "--choose", r.choose,
         "make the model of the chain with this number in the table; default: the best chain that keeps the budget")
      .positive();
  app.add_option("--shares", r.shares,
                 "shares of the parameters that stay after pruning: 0.7,0.5; default: the proposal of the cost model "
                 "for the budget")
      .delimiter(',');
  app.add_option("--exchange", r.exchanges,
                 "part to exchange, written as for lithe convert --set: model.mixer.heads.type=mqa (repeatable); "
                 "default: the proposals of the cost model")
      .repeatable();
  app.add_option("--trial-steps", r.trial_steps,
                 "steps of training after pruning or an exchange, before a chain is measured; default 30")
      .non_negative();
  app.add_option("--train-steps", r.train_steps, "steps of training for the model of the chosen chain; default 200")
      .non_negative();
  app.add_option("--batches", r.batches, "number of batches on which losses are measured; default 8").positive();
  app.add_option("--scan-tokens", r.scan_tokens,
                 "number of tokens on which the rounding of each single matrix is measured; default 512")
      .positive();
  app.add_option("--calibration-tokens", r.calibration_tokens,
                 "number of tokens from which gptq and awq learn; default 8192")
      .positive();
  app.add_option("--weights", r.weights,
                 "weights to begin with: best, averaged, or a safetensors file; default: those of the last checkpoint");
  app.add_flag("--json", o->json, "print the result as JSON");
  add_threads_option(app);
  app.footer(
      "Example: lithe fit runs/first --memory 60MB --latency 2ms --out runs/fitted\nThe command tries the model in "
      "fewer bits; the model pruned or with a part exchanged, then taught by the original;\nboth together; and the "
      "model used with early exits, drafts or fewer beams. It makes the best model that keeps the\nbudget, and checks "
      "this model in real runs of the program. If no model keeps the budget, the exit code is 4, and\nthe page shows "
      "the nearest one. After a stop the same command continues; with another budget it uses earlier trials.");
  return [o] { return run_fit(*o); };
}

}  // namespace lithe
