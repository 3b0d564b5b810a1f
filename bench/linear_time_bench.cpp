// Single mixers, width 512, 8 heads, by the length of sequences: forward and backward passes at equal tokens a step,
// and decoding at positions. Measured in turns; medians, and the fastest. One line of key=value pairs a case, a table,
// and with --json FILE a file of the same.
//   linear_time_bench train f32|bf16 T,T,... [tokens a step] [repeats] [name ...] [--json FILE]
//   linear_time_bench decode f32|bf16 POSITION,... [sequences] [repeats] [name ...] [--json FILE]
// Names: those of mixer recipes below, "name: {options}" of any mixer, or core:linear, core:decay, core:gated and
// core:delta, the recurrence without its products. Attention decodes from a prefill, whose time grows with the square
// of the position: leave it out beyond 10,000, or wait.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "lithe/base/files.h"
#include "lithe/base/json.h"
#include "lithe/base/machine.h"
#include "lithe/base/node.h"
#include "lithe/bench/timing.h"
#include "lithe/nn/registry.h"
#include "lithe/ops/linear_recurrence.h"

namespace {

using namespace lithe;
using namespace lithe::bench;

constexpr int64_t kWidth = 512, kHeads = 8;

const std::vector<std::pair<std::string, std::string>> kMixers = {
    {"attention", "{num_attention_heads: 8}"},
    {"linear_attention", "{num_attention_heads: 8}"},
    {"retention", "{num_attention_heads: 8}"},
    {"gated_linear_attention", "{num_attention_heads: 8, normalise: false}"},
    {"delta_rule", "{num_attention_heads: 8}"},
    {"selective_ssm", "{num_heads: 8}"},
    {"ssm", "{complex: true}"},
    {"linear_rnn", "{gate: forget, projections: true}"},
    {"moving_average", "{}"},
    {"lstm", "{}"},
    {"gru", "{}"},
    {"convolution", "{kernel_size: 4}"},
    {"light_convolution", "{}"}};

struct Layer {
  std::string name;
  Parameters parameters;
  BuildContext context;
  std::unique_ptr<Mixer> mixer;  // none: the core alone
  std::map<std::string, Var> core;
  std::vector<double> times;
  double state_bytes = 0;

  Layer(const std::string& what, DType compute, bool trainable)
      : name(what.substr(0, what.find(": {"))),
        context{.parameters = &parameters, .compute = compute, .layers = 1, .trainable = trainable} {
    if (name.rfind("core:", 0) == 0) return;
    std::string options = what == name ? "{}" : what.substr(name.size() + 2);
    for (const auto& [known, its] : kMixers)
      if (what == known) options = its;
    mixer = Registry::instance().make<Mixer>({name, parse_yaml(options, "linear_time_bench")}, Scope(context, "layer"),
                                             {.hidden_size = kWidth, .max_position_embeddings = 1 << 20});
  }
  Var run(const Var& x, const Sequences& sequences, State* state) {
    if (mixer) return mixer->forward({x, sequences, state});
    const std::string kind = name.substr(5);
    const auto given = [&](const char* key, const Tensor& value) {
      Var& v = core[key];
      if (!v.defined()) v = Var::leaf(value);
      return v;
    };
    const Var v = given("v", clone(x.value())), k = given("k", clone(x.value()));
    const Shape heads{x.rows(), kHeads};
    Var decay, write;
    if (kind == "decay") decay = given("decay", minus_tenth({kHeads}));
    if (kind == "gated") decay = given("decay", minus_tenth(heads));
    if (kind == "delta") write = given("write", minus_tenth(heads));
    return linear_recurrence(x, k, v, decay, write, sequences,
                             {.heads = kHeads, .normalise = kind == "linear", .delta = kind == "delta"});
  }
  void forget_gradients() {
    for (Parameter& p : parameters.all()) p.master.ref()->grad = Tensor();
    for (auto& [key, v] : core) v.ref()->grad = Tensor();
  }

 private:
  static Tensor minus_tenth(const Shape& shape) {
    const Tensor out = empty(shape, DType::f32);
    for (int64_t i = 0; i < out.numel(); ++i) out.data<float>()[i] = -0.1f;
    return out;
  }
};

Tensor rows_of_numbers(int64_t rows, DType type) {
  const Tensor x = empty({rows, kWidth}, type);
  const RandomKey key{.seed = 1, .purpose = purpose_of("linear_time_bench")};
  for (int64_t i = 0; i < x.numel(); ++i) set_value(x, i, random_uniform(key, uint64_t(i)));
  return x;
}

void train(Layer& layer, const Tensor& x, int64_t T) {
  std::vector<int64_t> offsets{0};
  while (offsets.back() < x.rows()) offsets.push_back(offsets.back() + T);
  const Sequences sequences(offsets);
  const Var in = Var::leaf(x);
  layer.forget_gradients();
  layer.times.push_back(seconds([&] {
    Tape tape;
    tape.backward(layer.run(in, sequences, nullptr), x);
  }));
}

// A token for each sequence, `times` of them.
void decode(Layer& layer, const Tensor& x, State& state, int64_t sequences, int64_t position, int64_t times) {
  const NoGrad no_grad;
  std::vector<int64_t> offsets{0};
  for (int64_t b = 0; b < sequences; ++b) offsets.push_back(b + 1);
  layer.times.push_back(seconds([&] {
                          for (int64_t i = 0; i < times; ++i)
                            layer.mixer->forward(
                                {Var(x.slice(0, sequences)),
                                 Sequences(offsets, std::vector<int64_t>(size_t(sequences), position + i)), &state});
                        }) /
                        double(times));
  layer.state_bytes = double(state.bytes()) / double(sequences);
}

std::unique_ptr<State> state_at(Layer& layer, const Tensor& x, int64_t sequences, int64_t position, int64_t more) {
  const NoGrad no_grad;
  auto state = layer.mixer->make_state({.sequences = sequences, .capacity = position + more, .dtype = x.dtype()});
  for (int64_t at = 0; at < position;) {
    const int64_t n = std::min<int64_t>({position - at, x.rows() / sequences, 1024});
    std::vector<int64_t> offsets{0};
    for (int64_t b = 0; b < sequences; ++b) offsets.push_back(offsets.back() + n);
    layer.mixer->forward(
        {Var(x.slice(0, n * sequences)), Sequences(offsets, std::vector<int64_t>(size_t(sequences), at)), state.get()});
    at += n;
  }
  return state;
}

std::vector<int64_t> numbers_of(const char* text) {
  std::vector<int64_t> out;
  for (char* end = nullptr; *text; text = *end ? end + 1 : end) {
    out.push_back(std::strtoll(text, &end, 10));
    if (end == text || out.back() < 1) return {};
  }
  return out;
}

/// Virtual processors that were idle take some tenths of a second to reach their speed.
void wake(const Tensor& x) {
  Layer layer("linear_rnn", x.dtype(), true);
  for (const double start = now(); now() - start < 0.5;) train(layer, x, x.rows());
}

int usage() {
  std::fprintf(
      stderr,
      "usage: linear_time_bench train f32|bf16 T,T,... [tokens a step] [repeats] [name ...] [--json FILE]\n"
      "       linear_time_bench decode f32|bf16 POSITION,... [sequences] [repeats] [name ...] [--json FILE]\n");
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  const double at_start = double(peak_resident_bytes());
  std::vector<std::string> given(argv + 1, argv + argc);
  std::string file;
  if (given.size() >= 2 && given[given.size() - 2] == "--json") file = given.back(), given.resize(given.size() - 2);
  if (given.size() < 3 || (given[0] != "train" && given[0] != "decode") || (given[1] != "f32" && given[1] != "bf16"))
    return usage();
  const bool training = given[0] == "train";
  const DType type = given[1] == "f32" ? DType::f32 : DType::bf16;
  const std::vector<int64_t> lengths = numbers_of(given[2].c_str());
  const int64_t size = given.size() > 3 ? std::atoll(given[3].c_str()) : training ? 32768 : 1;
  const int repeats = given.size() > 4 ? std::max(1, std::atoi(given[4].c_str())) : 3;
  std::vector<std::string> names(given.begin() + std::min<int64_t>(5, int64_t(given.size())), given.end());
  if (lengths.empty() || size < 1) return usage();
  for (const int64_t T : lengths)
    if (training && size % T) {
      std::fprintf(stderr, "linear_time_bench: %ld tokens a step are no multiple of T = %ld\n", long(size), long(T));
      return 2;
    }
  if (names.empty())
    for (const auto& [name, options] : kMixers) names.push_back(name);

  const Tensor x = rows_of_numbers(training ? size : std::max<int64_t>(1024, size), type);
  wake(x);
  const char* unit = training ? "T" : "position";
  Json all = Json::array();
  std::map<std::string, std::map<int64_t, double>> rates, bytes;
  for (const int64_t T : lengths) {
    std::vector<std::unique_ptr<Layer>> layers;
    std::vector<std::unique_ptr<State>> states;
    const int64_t steps = 16;
    for (const std::string& name : names) {
      layers.push_back(std::make_unique<Layer>(name, type, training));
      if (!training) {
        if (!layers.back()->mixer) return usage();
        states.push_back(state_at(*layers.back(), x, size, T, steps * (repeats + 1)));
      }
    }
    for (int round = 0; round <= repeats; ++round)
      for (size_t i = 0; i < layers.size(); ++i) {
        training ? train(*layers[i], x, T) : decode(*layers[i], x, *states[i], size, T + round * steps, steps);
        if (round == 0) layers[i]->times.clear();  // a warm-up
      }
    for (const auto& layer : layers) {
      const double middle = median(layer->times), best = *std::min_element(layer->times.begin(), layer->times.end());
      rates[layer->name][T] = double(size) / best, bytes[layer->name][T] = layer->state_bytes;
      Json row = {{"mixer", layer->name},
                  {"dtype", given[1]},
                  {unit, T},
                  {"threads", threads()},
                  {"tok/s", size / middle},
                  {"fastest", size / best},
                  {"ms", 1e3 * middle},
                  {"peakRSS_MB", double(peak_resident_bytes()) / 1048576}};
      if (!training) row["state_bytes"] = layer->state_bytes;
      all.push_back(row);
      const double peak = double(peak_resident_bytes());
      std::printf(
          "lithe case=%s dtype=%s %s=%ld threads=%d tok/s=%.1f fastest=%.1f ms=%.3f peakRSS_MB=%.0f grownRSS_MB=%.0f",
          layer->name.c_str(), given[1].c_str(), unit, long(T), threads(), size / middle, size / best, 1e3 * middle,
          peak / 1048576, (peak - at_start) / 1048576);
      std::printf(training ? "\n" : " state_bytes=%.0f\n", layer->state_bytes);
    }
    std::fflush(stdout);
  }
  std::printf("\n%-26s", training ? "tokens/s, fastest" : "tokens/s, state bytes");
  for (const int64_t T : lengths) std::printf(training ? " %9ld" : " %20ld", long(T));
  std::printf("\n");
  for (const auto& [name, by_length] : rates) {
    std::printf("%-26s", name.c_str());
    for (const auto& [T, rate] : by_length)
      training ? std::printf(" %9.0f", rate) : std::printf(" %9.0f %10.0f", rate, bytes[name][T]);
    std::printf("\n");
  }
  if (!file.empty()) write_file(file, dump(all, 2) + "\n");
  return 0;
}
