#include "lithe/parallel/layout.h"

#include <algorithm>
#include <array>

#include "lithe/base/error.h"

namespace lithe {
namespace {

thread_local const Layout* in_use = nullptr;

constexpr int64_t kMostRanks = 65536;

}  // namespace

// spec: hpc.parallel | training | one model over several ranks: tensor, expert, pipeline and sequence shares | TB 6.4.9
void ParallelConfig::fields(Fields& f) {
  f("data", data,
    "data parallelism: number of copies of the model, each with its share of the micro-batches; 0: as many as the "
    "ranks allow",
    between(0, kMostRanks));
  f("tensor", tensor,
    "tensor parallelism: ranks that share the heads of each attention and the hidden units of each ffn",
    between(1, kMostRanks));
  f("pipeline", pipeline,
    "pipeline parallelism: number of stages (groups of layers), each on its own rank; micro-batches pass them in turn",
    between(1, kMostRanks));
  f("sequence", sequence, "sequence parallelism: ranks that share the tokens of each sequence", between(1, kMostRanks));
  f("expert", expert, "expert parallelism: ranks that share the experts of each ffn moe", between(1, kMostRanks));
  f("weights", weights,
    "whole: every rank has all weights of the layers; sharded (ZeRO-3): each rank has its share, and gets the others "
    "while their layer runs: the same bits, less memory, more messages. Needs optimizer_states sharded and "
    "train.gradient_checkpointing",
    one_of({"whole", "sharded"}));
  f("optimizer_states", optimizer_states,
    "whole: every rank has all of Adam's moments; sharded (ZeRO-1): each rank has the moments of its share of the "
    "parameters, updates these and sends them to the others: the same bits, less memory",
    one_of({"whole", "sharded"}));
  f("messages", messages,
    "type of gradients that ranks exchange: f32; bf16: rounded, half the bytes, and results that differ from those of "
    "one rank and with the number of ranks",
    one_of({"f32", "bf16"}));
}

void ParallelConfig::validate() const {
  int64_t ranks = 1;
  for (const int64_t n : {tensor, pipeline, sequence, expert, std::max<int64_t>(1, data)}) {
    ranks *= n;
    check_usage(ranks <= kMostRanks, "train", "parallel {data: ", data, ", tensor: ", tensor, ", pipeline: ", pipeline,
                ", sequence: ", sequence, ", expert: ", expert, "} needs more than ", kMostRanks,
                " ranks; make the numbers smaller");
  }
}

void Layout::check(const ParallelConfig& config, int ranks) {
  const int64_t model = config.model(), data = config.data ? config.data : std::max<int64_t>(1, ranks / model);
  check_usage(data * model == ranks, "ranks", "train.parallel {data: ", data, ", tensor: ", config.tensor,
              ", pipeline: ", config.pipeline, ", sequence: ", config.sequence, ", expert: ", config.expert, "} needs ",
              data * model, data * model == 1 ? " rank" : " ranks", ", and the job has ", ranks,
              "; start it with mpirun -n ", data * model, ", or change the numbers");
}

Layout::Layout(const ParallelConfig& config, Communicator& all) : config_(config) {
  check(config, all.size());
  if (config_.data == 0) config_.data = all.size() / config_.model();
  place(&all, all.rank());
}

Layout::Layout(const ParallelConfig& config, int rank) : config_(config) {
  config_.data = std::max<int64_t>(1, config_.data);
  place(nullptr, rank);
}

void Layout::place(Communicator* all, int rank) {
  struct Dimension {
    Group* group;
    int64_t size;
  };
  const std::array<Dimension, 5> dimensions{{{&tensor_, config_.tensor},
                                             {&expert_, config_.expert},
                                             {&sequence_, config_.sequence},
                                             {&pipeline_, config_.pipeline},
                                             {&data_, config_.data}}};
  const auto split = [&](Group& group, int color, int of, int64_t size) {
    group = {nullptr, of, int(size)};
    if (!all || size == 1) return;
    made_.push_back(all->split(color));
    group.with = made_.back().get();
  };
  int stride = 1;
  for (const Dimension& d : dimensions) {
    const int at = rank / stride % int(d.size);
    split(*d.group, rank - at * stride, at, d.size);
    stride *= int(d.size);
  }
  const auto model = int(config_.model());
  split(model_, rank / model, rank % model, model);
}

Layout::Use::Use(const Layout* layout) : before_(in_use) { in_use = layout; }
Layout::Use::~Use() { in_use = before_; }
const Layout* Layout::current() { return in_use; }

}  // namespace lithe
