#include <cstdio>
#include <iostream>

#include "lithe/base/json.h"
#include "lithe/base/log.h"
#include "lithe/base/stop.h"
#include "lithe/cli/command.h"
#include "lithe/compress/prune_run.h"
#include "lithe/interchange/import_parts.h"

namespace lithe {
namespace {

struct PruneOptions {
  PruneRequest request;
  std::string model, out, norm = "l2", across = "layer";
  std::vector<std::string> units{"heads", "ffn"};
  int64_t seed = 1;
  bool json = false;
};

void print(const Json& result, const std::string& out) {
  const Json &receipt = result["receipt"], &before = receipt["before"], &after = receipt["after"];
  // Where one of both could not be measured, it lacks some.
  const auto line = [&](const char* what, const char* key, const char* inner = "", double unit = 1) {
    if (!before.contains(key) || !after.contains(key)) return;
    const auto value = [&](const Json& of) { return double(*inner ? of[key][inner] : of[key]) / unit; };
    const double a = value(before), b = value(after);
    std::printf("%-28s %14.6g %14.6g  x %.3f\n", what, a, b, b / a);
  };
  std::printf("%-28s %14s %14s\n", "", "before", "after");
  line("parameters", "parameters");
  line("bytes on disk", "bytes_on_disk");
  line("peak memory, MiB", "peak_memory_bytes", "", 1 << 20);
  line("rows/s, forward", "forward_rows_per_second", "median");
  line("tokens/s, greedy, batch 1", "decode_tokens_per_second", "median");
  line("loss", "loss", "mean");
  for (const Json& round : result["rounds"])
    if (round.contains("counted"))
      std::printf("latency x %.3f, measured while choosing; the same choice: --budget %s --to %.6g\n",
                  double(round["latency_after"]) / double(round["latency_before"]),
                  std::string(round["counted"]["budget"]).c_str(), double(round["counted"]["to"]));
  for (const Json& left : result["rounds"].back()["left"]) std::printf("%s\n", std::string(left).c_str());
  std::printf("report %s/prune.html, receipt %s/receipt.html\n", out.c_str(), out.c_str());
}

int run_prune(PruneOptions& o) {
  catch_stop_signals();
  PruneRequest& r = o.request;
  r.model = o.model, r.out = o.out, r.seed = uint64_t(o.seed);
  r.units.clear();
  for (const std::string& unit : o.units) r.units.insert(prune_unit_named(unit));
  r.norm = o.norm == "l1" ? NormOf::l1 : o.norm == "output" ? NormOf::output : NormOf::l2;
  r.across_model = o.across == "model";
  Json result;
  if (!prune_run(
          r, [&](const Path& to) { copy_companions(o.model, to); }, result)) {
    log_info("stopped by signal ", stop_signal(), " and kept in ", o.out, ".rounds; the same command goes on");
    return 128 + stop_signal();
  }
  if (o.json)
    std::cout << dump(result, 2) << "\n";
  else
    print(result, o.out);
  return 0;
}

}  // namespace

Command add_prune(CommandLine& app) {
  auto o = std::make_shared<PruneOptions>();
  PruneRequest& r = o->request;
  app.add_option("model", o->model, "directory of a training run").required();
  app.add_option("--out", o->out, "new directory for the smaller model, which is an ordinary one")
      .output({.kind = OutputRule::Kind::new_directory})
      .required();
  app.add_flag("--overwrite", r.overwrite, "replace the output of an earlier lithe prune in --out, and nothing else");
  app.add_option("--to", r.to, "share of the budget that stays; default 0.5").share();
  app.add_option("--budget", r.budget,
                 "quantity of the budget: parameters, flops of a forward pass, memory of decoding, or latency: the "
                 "time of a step of decoding at batch 1 (of a forward pass where the model does not decode), measured "
                 "on this machine")
      .one_of({"parameters", "flops", "memory", "latency"});
  app.add_option("--units", o->units,
                 "units that can be removed: heads, ffn, experts, hidden, sub_layers, layers; default heads,ffn")
      .delimiter(',');
  app.add_option("--by", r.by,
                 "norm of the weights, gradient of the loss, activation (what a unit adds to the rows), the best of a "
                 "random pool, or learned gates")
      .one_of({"norm", "gradient", "activation", "random", "gates"});
  app.add_option("--norm", o->norm, "with --by norm: l2, l1, or l2 of the output's rows only")
      .one_of({"l2", "l1", "output"});
  app.add_option("--across", o->across, "every layer loses the same share, or units of the whole model compete")
      .one_of({"layer", "model"});
  app.add_option("--batches", r.batches,
                 "batches that gradients, activations, the pool and the receipt are measured on")
      .positive();
  app.add_option("--pool", r.pool, "with --by random: number of random choices").positive();
  app.add_option("--gate-steps", r.gate_steps, "with --by gates: training steps of the gates").positive();
  app.add_option("--multiple", r.multiple, "hidden units and channels stay a multiple of this").positive();
  app.add_option("--rounds", r.rounds, "number of rounds, with training after each").positive();
  app.add_option("--train-steps", r.train_steps, "steps of training after each round; default 0").non_negative();
  app.add_option("--learning-rate", r.learning_rate, "learning rate of that training; default: a fifth of the run's")
      .positive();
  app.add_flag("--distill", r.distil, "in that training, learn from the model before pruning");
  app.add_flag(
      "--from-scratch", r.from_scratch,
      "also train the smaller shape from random weights, for as many steps as all rounds together, and show it "
      "in the receipt");
  app.add_option("--seed", o->seed, "random seed of the pool").non_negative();
  app.add_option("--weights", r.weights, "best, averaged, or a safetensors file; default: the last checkpoint's");
  app.add_option("--set", r.set, "override a key of the run's recipe: data.files=[more.txt] (repeatable)").repeatable();
  app.add_flag("--json", o->json, "print the result as JSON");
  add_threads_option(app);
  app.footer(
      "Example: lithe prune runs/first --to 0.5 --by gradient --out runs/half\nThen: lithe prune runs/first --to 0.5 "
      "--rounds 3 --train-steps 200 --distill --out runs/half-trained");
  return [o] { return run_prune(*o); };
}

}  // namespace lithe
