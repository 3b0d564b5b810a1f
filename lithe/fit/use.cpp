#include "lithe/fit/use.h"

#include <algorithm>
#include <chrono>

#include "lithe/base/machine.h"
#include "lithe/base/stop.h"
#include "lithe/model/exits.h"
#include "lithe/model/packable.h"

namespace lithe::fit {
namespace {

constexpr int64_t kTexts = 9;

using UseClock = std::chrono::steady_clock;

// Logits of the last row of tokens [begin, begin + count) behind what the state holds; without one, of all of them.
void read(const Model& model, const Tensor& ids, const Sequences& sequences, DecodeState* state,
          ExitRun* exits = nullptr) {
  Pass pass;
  pass.set_exits(exits);
  const Rows rows = model.run({ids, sequences}, pass, state);
  if (state)
    model.logits(rows, {rows.sequences.rows() - 1});
  else
    model.logits(rows);
}

double use_median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

template <class F>
double timed(F&& f) {
  const auto start = UseClock::now();
  f();
  return std::chrono::duration<double>(UseClock::now() - start).count();
}

}  // namespace

void heed() { check_not_stopped("fit", "the measurements are kept; the same command goes on"); }

Use measure_use(const Model& model, const std::vector<int32_t>& tokens, const UseShape& shape,
                const std::string& exit) {
  const NoGrad no_grad;
  const int64_t before = ledger(Device::cpu).current();
  ledger(Device::cpu).reset_peak();
  const auto ids = [&](int64_t begin, int64_t count) {
    return tensor_of({count}, std::vector<int32_t>(tokens.begin() + begin, tokens.begin() + begin + count));
  };
  std::optional<ExitRun> run = exit_run_of(model, exit);
  ExitRun* const exits = run ? &*run : nullptr;
  std::vector<double> seconds;
  if (shape.continues) {
    const int64_t prompt = shape.length / 2;
    for (int turn = 0; turn < 3; ++turn) {
      heed();
      const auto state = model.make_state(1, shape.length);
      read(model, ids(0, prompt), model.continue_sequences(*state, {prompt}), state.get(), exits);
      for (int64_t t = prompt; t < shape.length; ++t)
        seconds.push_back(
            timed([&] { read(model, ids(t, 1), model.continue_sequences(*state, {1}), state.get(), exits); }));
      if (turn == 0) seconds.clear();  // a warm-up
    }
  } else {
    for (int64_t i = 0; i <= kTexts; ++i) {
      heed();
      const double taken = timed([&] {
        read(model, ids(0, shape.length), Sequences({0, shape.length}), nullptr, exits);
      });
      if (i > 0) seconds.push_back(taken);
    }
  }
  return {use_median(seconds), model.parameters().bytes() + ledger(Device::cpu).peak() - before};
}

kernels::Cost use_cost(const ModelConfig& config, const UseShape& shape, int64_t rows) {
  const NoGrad no_grad;
  const std::map<std::string, bool> packed = packed_products(config);
  const Model model(config, {.device = Device::meta, .packed = &packed});
  const auto ids = [](int64_t count) { return empty({count}, DType::i32, Device::meta); };
  if (shape.translates) {
    const auto sources = [&](int64_t texts) {
      std::vector<int64_t> offsets;
      for (int64_t i = 0; i <= texts; ++i) offsets.push_back(i * shape.length);
      ModelInput input;
      input.tokens = ids(texts * shape.length);
      input.sequences = Sequences(offsets, {}, Device::meta);
      return std::map<std::string, ModelInput>{{model.config().source_names().at(0), input}};
    };
    kernels::Cost total;
    {
      const kernels::CostMeter meter;
      model.read_sources(*model.make_state(1, shape.length + 1), sources(1));
      total += meter.total();
    }
    const auto state = model.make_state(shape.beams, shape.length + 1);
    model.read_sources(*state, sources(shape.beams));
    for (int64_t t = 0; t < shape.length; ++t) {
      const kernels::CostMeter meter;
      const std::vector<int64_t> one(size_t(shape.beams), 1);
      read(model, ids(shape.beams), model.continue_sequences(*state, one), state.get());
      total += meter.total();
    }
    return total;
  }
  if (!shape.continues) {
    const kernels::CostMeter meter;
    read(model, ids(shape.length), Sequences({0, shape.length}, {}, Device::meta), nullptr);
    return meter.total();
  }
  const int64_t prompt = shape.length / 2;
  const auto state = model.make_state(1, shape.length + rows);
  read(model, ids(prompt), model.continue_sequences(*state, {prompt}), state.get());
  const kernels::CostMeter meter;
  read(model, ids(rows), model.continue_sequences(*state, {rows}), state.get());
  return meter.total();
}

MachineRates MachineRates::measured() {
  const bench::Ceilings ceilings;
  using bench::Ceiling;
  const auto rate = [&](Ceiling c) {
    double best = 0;
    for (int i = 0; i < 3; ++i) best = std::max(best, ceilings.probe(c));
    return best;
  };
  return {.f32 = rate(Ceiling::f32),
          .bf16 = rate(ceilings.best(Ceiling::bf16)),
          .int8 = rate(ceilings.best(Ceiling::int8)),
          .memory = rate(Ceiling::read),
          .cache = ceilings.has(Ceiling::l3) ? rate(Ceiling::l3) : 0};
}

double MachineRates::least_seconds(const kernels::Cost& cost, const std::string& format, double weight_bytes,
                                   double weight_bytes_f32) const {
  const double operations = format == "f32" ? f32 : format == "bf16" ? bf16 : int8;
  const double bytes = cost.bytes * weight_bytes / weight_bytes_f32;
  const bool in_cache = cache > 0 && weight_bytes < double(last_cache_bytes()) / 2;
  return std::max(cost.flops / operations, bytes / (in_cache ? cache : memory));
}

}  // namespace lithe::fit
