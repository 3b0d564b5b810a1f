#include "lithe/base/log.h"
#include "lithe/base/stop.h"
#include "lithe/cli/command.h"
#include "lithe/data/synthetic.h"

namespace lithe {
namespace {

struct SynthOptions {
  SyntheticConfig config;
  std::string out;
  bool overwrite = false;
};

int run_synth(const SynthOptions& o) {
  catch_stop_signals();
  write_synthetic(o.config, o.out, o.overwrite);
  const std::string made = cat(o.config.train, " examples to learn from and ", o.config.test, " to score, of ",
                               o.config.length, " words each");
  log_info(made, ", in '", o.out, "' (train.jsonl, test.jsonl, vocab.txt)");
  return 0;
}

}  // namespace

Command add_synth(CommandLine& app) {
  auto o = std::make_shared<SynthOptions>();
  SyntheticConfig& c = o->config;
  app.add_option("task", c.task, "recall, copy, selective_copy or induction").one_of(synthetic_tasks()).required();
  app.add_option("--out", o->out, "new directory for train.jsonl, test.jsonl and vocab.txt")
      .output({.kind = OutputRule::Kind::of_command})
      .required();
  app.add_flag("--overwrite", o->overwrite, "replace what synth wrote there before; other files are refused");
  app.add_option("--length", c.length, "words of a sequence; default 512").positive();
  app.add_option("--items", c.items, "pairs to recall, or symbols to copy; default 16").positive();
  app.add_option("--symbols", c.symbols, "different values or symbols, the labels; default 64").positive();
  app.add_option("--keys", c.keys, "recall: different keys; default: 4 times the items").positive();
  app.add_option("--train", c.train, "examples to learn from; default 10000").non_negative();
  app.add_option("--test", c.test, "examples to score; default 500").non_negative();
  app.add_option("--seed", c.seed, "random seed; the same options give the same files").non_negative();
  app.footer(
      "Example: lithe synth recall --items 16 --length 512 --out runs/recall\nThen: lithe train "
      "recipes/synthetic/recall.yaml --out runs/recall-model");
  return [o] { return run_synth(*o); };
}

}  // namespace lithe
