#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <iostream>
#include <new>

#include "lithe/base/counted.h"
#include "lithe/base/error.h"
#include "lithe/base/log.h"
#include "lithe/base/machine.h"
#include "lithe/base/stop.h"
#include "lithe/base/threads.h"
#include "lithe/cli/command.h"
#include "lithe/cli/options.h"
#include "lithe/kernels/kernel.h"
#include "lithe/parallel/job.h"

namespace lithe {

void add_weights_options(CommandLine& app, std::string& weights, std::string& precision) {
  app.add_option("--weights", weights,
                 "weights to load: best, averaged, or a safetensors file; default: those of the last checkpoint");
  app.add_option("--precision", precision, "number format of the computation: f32, bf16 or f64")
      .one_of({"f32", "bf16", "f64"});
}

void add_adapter_option(CommandLine& app, std::string& adapter) {
  app.add_option("--adapter", adapter,
                 "directory of a low-rank adapter to use with the weights: adapter/ of a run with train.adapters that "
                 "began with this model");
}

void add_el_rewrite_option(CommandLine& app, bool& el_rewrite) {
  app.add_flag("--el-rewrite", el_rewrite,
               "compute heads mha as el_rewrite: the same function with half the cache (not with rotary positions)");
}

Option add_threads_option(CommandLine& app) {
  return app
      .add_option(
          "--threads", [](int n) { set_threads(n); },
          "number of threads; default: as many as CPU affinity, cgroup and OMP_NUM_THREADS allow")
      .between(1, 1024);
}

void flush_results() {
  std::cout.flush();
  if (std::fflush(stdout) == 0 && !std::ferror(stdout) && std::cout) return;
  pollfd out{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  if (::poll(&out, 1, 0) == 1 &&
      (out.revents & POLLERR)) {  // a pipe whose reader has seen enough: no error, no message
    std::signal(SIGPIPE, SIG_DFL);
    std::raise(SIGPIPE);
  }
  fail("output", "the results could not be written to stdout: is its disk full?");
}

namespace {

std::string version_text() {
  const BuildInfo& b = build_info();
  return cat("lithe ", b.version, "\ncommit ", b.commit, "\nbuilt with ", b.compiler, ", ", b.build_type,
             "\ninstruction set ", kernels::name_of(kernels::usable_isa()), ", ", counted(threads(), "thread"));
}

// A stream that the caller closed would give its number to the next file that is opened, and results would be written
// into a checkpoint.
void occupy_standard_streams() {
  int fd = 0;
  while (fd >= 0 && fd <= STDERR_FILENO) fd = ::open("/dev/null", O_RDWR);
  if (fd > STDERR_FILENO) ::close(fd);
}

// A stack that ends in the middle of a call is a crash without a word. Threads get theirs when they begin.
void check_stack() {
  constexpr rlim_t kLeast = rlim_t(1) << 20, kUsual = rlim_t(8) << 20;
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= kLeast) return;
  check(limit.rlim_max == RLIM_INFINITY || limit.rlim_max >= kLeast, "memory", "the stack may have ",
        limit.rlim_max >> 10, " KiB here (ulimit -s), and lithe needs ", kLeast >> 10, "; raise the limit");
  limit.rlim_cur = std::min(kUsual, limit.rlim_max);
  check(::setrlimit(RLIMIT_STACK, &limit) == 0, "memory", "the limit of the stack cannot be raised; ulimit -s 8192");
  pthread_attr_t attributes;
  if (::pthread_attr_init(&attributes) != 0) return;
  if (::pthread_attr_setstacksize(&attributes, size_t(limit.rlim_cur)) == 0) ::pthread_setattr_default_np(&attributes);
  ::pthread_attr_destroy(&attributes);
}

int guarded(const std::function<int()>& work) {
  const auto failed = [](const std::string& what, int code) {
    say_in_job(what, code);
    return code;
  };
  const auto done = [&] {
    try {
      return work();
    } catch (const Error& error) {
      // Loops that a signal ends before there is something to save report it as an error.
      return failed(error.what(),
                    error.code() == ExitCode::failed && stop_signal() ? 128 + stop_signal() : int(error.code()));
    } catch (const std::bad_alloc&) {
      return failed("memory: out of memory; make the model, the batch or the texts smaller, or give --memory-budget",
                    int(ExitCode::failed));
    } catch (const std::exception& error) {
      return failed(cat("internal: ", error.what(), "; this is a bug in lithe, please report it with the command"),
                    int(ExitCode::failed));
    }
  };
  const int code = done();
  leave_job(code);
  return code;
}

}  // namespace

ProgramHelp program_help() {
  return {
      .name = "lithe",
      .description =
          "lithe: train, measure and run efficient Transformers on CPUs.\nResults go to stdout, log and progress to "
          "stderr.",
      .footer =
          "Start: lithe train recipes/quickstart.yaml --out runs/first\n"
          "Exit codes: 0 done, 1 failed while running, 2 wrong usage or recipe, 3 diverged,\n"
          "4 does not fit the memory budget, 128+n stopped by signal n after saving.",
      .version = ""};
}

std::span<const Verb> verbs() {
  static const Verb all[] = {
      {"train", "train a model from a recipe, or resume a run", add_train, true},
      {"init", "write a recipe's initial weights as a run, without training", add_init},
      {"eval", "measure loss and perplexity on text", add_eval, true},
      {"generate", "continue prompts", add_generate},
      {"chat", "talk with a model in the terminal", add_chat},
      {"serve", "serve models over HTTP with the interface of OpenAI", add_serve},
      {"translate", "translate sentences with an encoder-decoder", add_translate},
      {"plan", "state the cost of a recipe before it runs: parameters, FLOPs, peak memory", add_plan, true},
      {"compare", "train and measure variants under one budget, and say which differences exceed the noise",
       add_compare, true},
      {"finetune", "fine-tune pre-trained models on tasks; a table of scores and costs", add_finetune, true},
      {"predict", "predict labels, numbers, tags or answers with a model trained on a task", add_predict},
      {"transcribe", "write what a model hears in sounds, with times and error rates", add_transcribe},
      {"encode", "turn texts into vectors: similarities, nearest lines, or a file", add_encode},
      {"tokenize", "show how a tokenizer cuts texts: ids, pieces, places, hashes", add_tokenize, true},
      {"quantize", "round a trained model's weights to 8 or 4 bits, and say what that costs", add_quantize},
      {"import", "make a run from another program's model: Hugging Face directories, GGUF", add_import},
      {"export", "write a run as a directory for transformers, or as GGUF", add_export},
      {"convert", "exchange parts of a trained model, or fold novel ones into standard ones", add_convert},
      {"distill", "train a small model to do what a trained one does: its predictions, rows, relations, or its texts",
       add_distill},
      {"prune", "make a trained model smaller: heads, hidden units, experts, channels, layers", add_prune},
      {"fit", "make a trained model fit a budget of memory, latency or size: the best chain of pruning and few bits",
       add_fit},
      {"grow", "make a larger model of a trained one: more layers, or more channels", add_grow},
      {"search", "search a recipe's choices under budgets of size, work, memory or latency", add_search, true},
      {"inspect", "draw attention maps and indicators of trained models, as a page", add_inspect},
      {"probe", "measure what a model's rows and heads know of words, trees and facts, layer by layer", add_probe},
      {"synth", "write sequences that ask for recall, copying or induction, as a task", add_synth},
      {"datastore", "store a model's rows and the tokens that followed, for kNN-LM", add_datastore, true},
      {"bench", "measure this machine, and how close kernels and models come to its limits; find regressions",
       add_bench},
      {"list", "list parts, methods and recipe keys", add_list, true},
      {"doctor", "show the machine, its speed and its limits as lithe sees them", add_doctor, true},
      {"completion", "print the completion script of a shell", add_completion, true},
      {"man", "print the manual page of the program or of a subcommand", add_man, true},
  };
  return all;
}

int run_program(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a file at its limit is an error of writing, like a full disk
  occupy_standard_streams();
  return guarded([&] {
    check_stack();
    check_log_settings();
    ProgramHelp help = program_help();
    help.version = version_text();
    return run_verb(argc, argv, help, verbs());
  });
}

}  // namespace lithe
