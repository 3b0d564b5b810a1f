// Decoding with a model: tokens/s, and GB/s of weights and cache read beside a plain read of as many bytes in the same
// round, medians of the rounds; and the fastest step of all. The cache is of the compute dtype unless named.
// decode_bench [--rounds N] [--dtype f32|bf16] [--cache f32|bf16|int8|int4] [--batch B]... [--context T]...
//              [--heads mha|mqa|mhe_mul|...]... [--position rotary|...] [--tokens N]
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <limits>

#include "lithe/base/threads.h"
#include "lithe/bench/ceilings.h"
#include "lithe/bench/timing.h"
#include "lithe/model/model.h"
#include "lithe/ops/basic.h"

namespace {

using namespace lithe;  // a program, not a library
using namespace lithe::bench;

struct Options {
  int rounds = 5, tokens = 8;
  std::string dtype = "f32", cache, position = "rotary";
  std::vector<std::string> heads{"mha"};
  std::vector<int64_t> batches{1, 8, 32}, contexts{128, 1024};
};

// 27 million parameters with heads mha.
std::unique_ptr<Model> model_of(const std::string& heads, const Options& o) {
  const std::string recipe =
      cat("{vocab_size: 8192, hidden_size: 512, num_hidden_layers: 6, max_position_embeddings: 16384, position: ",
          o.position, ", mixer: {type: attention, num_attention_heads: 8, heads: ", heads,
          "}, ffn: {type: swiglu, intermediate_size: 1536}, norm: rms}");
  const DType dtype = dtype_named(o.dtype);
  return std::make_unique<Model>(read_model_config(parse_yaml(recipe, "bench")),
                                 ModelOptions{.dtype = dtype, .compute = dtype});
}

std::unique_ptr<DecodeState> state_of(const Model& model, int64_t batch, int64_t capacity, const std::string& cache) {
  std::optional<DType> type;
  if (!cache.empty()) type = cache_type_named(cache);
  return model.make_state(batch, capacity, type);
}

struct Case {
  size_t model;
  int64_t batch, context;
  std::vector<double> seconds, gbs, probe;
  double fastest = std::numeric_limits<double>::infinity();  // step
};

class Decoding {
 public:
  Decoding(const Model& model, const Case& c, const Options& o)
      : model_(model), batch_(c.batch), state_(state_of(model, c.batch, c.context + o.tokens + 1, o.cache)) {
    for (int64_t at = 0; at < c.context; at += 128) feed(std::min<int64_t>(128, c.context - at));
    feed(1);
  }
  void feed(int64_t tokens) {
    const NoGrad no_grad;
    std::vector<int32_t> ids(size_t(tokens * batch_));
    for (int32_t& id : ids) id = int32_t(next_++ * 7919 % 8192);
    const Sequences sequences = model_.continue_sequences(*state_, std::vector<int64_t>(size_t(batch_), tokens));
    Pass pass;
    const Rows rows = model_.run({tensor_of({int64_t(ids.size())}, ids), sequences}, pass, state_.get());
    model_.logits(rows, sequences.last_rows());
  }
  int64_t bytes() const { return state_->bytes(); }

 private:
  const Model& model_;
  int64_t batch_;
  std::unique_ptr<DecodeState> state_;
  int64_t next_ = 1;
};

int run(const Options& o) {
  std::vector<std::unique_ptr<Model>> models;
  for (const std::string& heads : o.heads) models.push_back(model_of(heads, o));
  const Tensor memory = zeros({int64_t(1) << 28}, DType::u8);
  std::vector<Case> cases;
  for (int64_t batch : o.batches)
    for (int64_t context : o.contexts)
      for (size_t model = 0; model < models.size(); ++model)
        cases.push_back({.model = model, .batch = batch, .context = context});
  for (int round = 0; round < o.rounds; ++round)
    for (Case& c : cases) {
      const Model& model = *models[c.model];
      int64_t weights = 0;
      for (const Parameter& p : model.parameters().all()) weights += p.master.value().bytes();
      Decoding decoding(model, c, o);
      const double bytes = double(weights + decoding.bytes());
      const double probe = read_gbs(memory);
      double all = 0;
      for (int i = 0; i < o.tokens; ++i) {
        const double step = seconds([&] { decoding.feed(1); });
        all += step;
        c.fastest = std::min(c.fastest, step);
      }
      const double s = all / o.tokens;
      c.seconds.push_back(s);
      c.gbs.push_back(bytes / s / 1e9);
      c.probe.push_back(probe);
    }
  std::printf("%s, cache %s, %d threads\n%16s %6s %8s %10s %10s %10s %8s %8s\n", o.dtype.c_str(),
              o.cache.empty() ? o.dtype.c_str() : o.cache.c_str(), threads(), "heads", "batch", "context", "tokens/s",
              "ms a step", "fastest ms", "GB/s", "of read");
  for (const Case& c : cases)
    std::printf("%16s %6ld %8ld %10.1f %10.2f %10.2f %8.2f %8.2f\n", o.heads[c.model].c_str(), long(c.batch),
                long(c.context), double(c.batch) / median(c.seconds), median(c.seconds) * 1e3, c.fastest * 1e3,
                median(c.gbs), median(c.gbs) / median(c.probe));
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  Options o;
  CLI::App app("decoding speed");
  app.add_option("--rounds", o.rounds);
  app.add_option("--dtype", o.dtype)->check(CLI::IsMember({"f32", "bf16"}));
  app.add_option("--cache", o.cache)->check(CLI::IsMember({"f32", "bf16", "int8", "int4"}));
  app.add_option("--batch", o.batches);
  app.add_option("--context", o.contexts);
  app.add_option("--heads", o.heads);
  app.add_option("--position", o.position);
  app.add_option("--tokens", o.tokens);
  int threads = 0;
  app.add_option("--threads", threads);
  CLI11_PARSE(app, argc, argv);
  if (threads) set_threads(threads);
  return run(o);
} catch (const lithe::Error& error) {
  return std::fprintf(stderr, "decode_bench: %s\n", error.what()), 1;
}
