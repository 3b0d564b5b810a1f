// Encoding throughput of a BERT-base (12 layers, 768 channels, 12 heads, feed-forward 3072, random weights, no head):
// forward without a tape on sequences of 128 tokens, batch 1 and 16, the cases in turns: weights and rows f32 or bf16,
// and 8-bit weights (lithe quantize --weights int8) with rows of either.
//   encoder_bench [repeats]
//   encoder_bench --turns
//   encoder_bench --sentences FILE
// Prints a line of key=value pairs a case: sequences/s (median), GFLOP/s, and its share of what a matrix product of
// those types free to batch rows, [2048,768] x [768,3072], reached in the same turns. --turns: as bench/peers/turns.py
// asks. With sentences: the file's first 128 lines of text, in batches of 16 as they come, a word a token: sequences/s
// packed, and padded to the longest of the batch, the fastest of three turns a batch. bench/peers/encode.sh runs the
// same work in other programs.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <span>
#include <sstream>

#include "bench/turns.h"
#include "lithe/base/files.h"
#include "lithe/base/threads.h"
#include "lithe/bench/timing.h"
#include "lithe/compress/quantize.h"
#include "lithe/kernels/gemm/gemm.h"
#include "lithe/kernels/quantized_product/quantized_product.h"
#include "lithe/model/model.h"
#include "lithe/model/packable.h"

namespace {

using namespace lithe;
using namespace lithe::bench;

constexpr int64_t kTokens = 128, kVocabulary = 30522, kLines = 128, kBatch = 16;

ModelConfig bert_base() {
  return read_model_config(parse_yaml(
      cat("{architecture: encoder, hidden_size: 768, num_hidden_layers: 12, vocab_size: ", kVocabulary,
          ", max_position_embeddings: 512, position: learned, embedding_norm: true, mixer: {type: attention, "
          "num_attention_heads: 12, attention_bias: true, output_bias: true}, ffn: {type: gelu}, norm: {type: layer, "
          "eps_mode: variance}, residual: {type: post}, head: {type: tag}, num_labels: 2, tie_word_embeddings: false}"),
      "encoder_bench"));
}

std::vector<int64_t> equal(int64_t count, int64_t length) { return std::vector<int64_t>(size_t(count), length); }

// Sequences of these lengths, one after the other.
Sequences packed(const std::vector<int64_t>& lengths, Device device = Device::cpu) {
  std::vector<int64_t> offsets{0};
  for (const int64_t length : lengths) offsets.push_back(offsets.back() + length);
  return Sequences(offsets, {}, device);
}

Tensor random_ids(int64_t n) {
  const Tensor ids = empty({n}, DType::i32);
  const RandomKey key{.seed = 1, .purpose = purpose_of("encoder_bench")};
  for (int64_t i = 0; i < n; ++i)
    ids.data<int32_t>()[i] = int32_t(random_below(key, uint64_t(i), uint64_t(kVocabulary)));
  return ids;
}

// FLOPs of a forward pass, by the kernels' own count.
double flops_of(int64_t batch) {
  const Model model(bert_base(), {.device = Device::meta});
  const NoGrad no_grad;
  const kernels::CostMeter meter;
  Pass pass;
  model.run({empty({batch * kTokens}, DType::i32, Device::meta), packed(equal(batch, kTokens), Device::meta)}, pass);
  return meter.total().flops;
}

// A forward pass on sequences of these lengths.
double forward_seconds(const Model& model, const std::vector<int64_t>& lengths) {
  const NoGrad no_grad;
  const Sequences sequences = packed(lengths);
  const Tensor ids = random_ids(sequences.rows());
  return seconds([&] {
    Pass pass;
    model.run({ids, sequences}, pass);
  });
}

std::unique_ptr<Model> random_model(DType rows, bool integers) {
  const auto packed = integers ? std::map<std::string, bool>{} : packed_products(bert_base());
  auto model = std::make_unique<Model>(bert_base(), ModelOptions{.dtype = rows, .compute = rows, .packed = &packed});
  if (!integers) return model;
  std::string file = (std::filesystem::temp_directory_path() / "encoder_bench.XXXXXX").string();
  ::close(::mkstemp(file.data()));
  std::vector<QuantizedLayer> layers;
  model = quantize_model(*model, {}, file, layers);
  std::filesystem::remove(file);
  return model;
}

// One type of weights and rows: a model, its cases, and the product that bounds it.
struct Type {
  const char* weights;
  DType rows;
  std::unique_ptr<Model> model;
  Tensor a, b, c;
  const kernels::PackedMatrix* integers = nullptr;  // in place of b
  std::map<int64_t, std::vector<double>> forward;   // by batch
  std::vector<double> product;

  Type(const char* weights, DType rows)
      : weights(weights), rows(rows), model(random_model(rows, !std::strcmp(weights, "int8"))) {
    a = empty({2048, 768}, rows), b = empty({768, 3072}, rows), c = empty({2048, 3072}, rows);
    for (const Tensor& x : {a, b}) initialise(x, {}, InitRole::matrix, "encoder_bench", 1, -1, 0);
    for (const Parameter& p : model->parameters().all())
      if (p.master.shape() == Shape{768, 3072} && kernels::integers(p.master.packed()->format))
        integers = p.master.packed();
  }
  void multiply() const {
    if (integers)
      kernels::quantized_product({.x = a, .w = integers, .y = c});
    else
      kernels::gemm({.a = a, .b = b, .c = c});
  }
  void measure(bool warm) {
    const auto keep = [warm](std::vector<double>& to, double time) {
      if (!warm) to.push_back(time);
    };
    for (const int64_t batch : {int64_t(1), kBatch}) {
      for (int i = 0; i < (batch == 1 ? 5 : 1); ++i)
        keep(forward[batch], forward_seconds(*model, equal(batch, kTokens)));
      keep(product, seconds([&] { multiply(); }));
    }
  }
  void print() const {
    const double ceiling = 2.0 * 2048 * 768 * 3072 / median(product) * 1e-9;
    for (const auto& [batch, times] : forward) {
      const double time = median(times), rate = flops_of(batch) / time * 1e-9;
      std::printf(
          "lithe mode=rows-%s dtype=%s batch=%ld threads=%d seq/s=%.2f ms=%.1f min=%.1f max=%.1f GFLOP/s=%.0f "
          "product=%.0f "
          "share=%.2f\n",
          name_of(rows), weights, long(batch), threads(), double(batch) / time, 1e3 * time,
          1e3 * *std::min_element(times.begin(), times.end()), 1e3 * *std::max_element(times.begin(), times.end()),
          rate, ceiling, rate / ceiling);
    }
  }
};

// Words of the first lines of a file that have any, at most as many as the model has positions.
std::vector<int64_t> line_lengths(const char* file) {
  std::istringstream text(read_file(file));
  std::vector<int64_t> lengths;
  for (std::string line, word; int64_t(lengths.size()) < kLines && std::getline(text, line);) {
    int64_t words = 0;
    for (std::istringstream in(line); in >> word;) ++words;
    if (words) lengths.push_back(std::min<int64_t>(words, 512));
  }
  check_usage(!lengths.empty(), "encoder_bench", file, " has no words");
  return lengths;
}

// Packed against padded in turns, batch after batch; the fastest turn counts, so that other work disturbs little.
void compare_packing(const Type& type, const std::vector<int64_t>& lengths) {
  double packed_seconds = 0, padded_seconds = 0;
  int64_t tokens = 0, padded_tokens = 0;
  const auto count = int64_t(lengths.size());
  for (int64_t i = 0; i < count; i += kBatch) {
    const std::vector<int64_t> batch(lengths.begin() + i, lengths.begin() + std::min(count, i + kBatch));
    const std::vector<int64_t> padded = equal(int64_t(batch.size()), *std::max_element(batch.begin(), batch.end()));
    double best = INFINITY, best_padded = INFINITY;
    for (int turn = 0; turn < 3; ++turn) {
      best = std::min(best, forward_seconds(*type.model, batch));
      best_padded = std::min(best_padded, forward_seconds(*type.model, padded));
    }
    packed_seconds += best;
    padded_seconds += best_padded;
    for (const int64_t length : batch) tokens += length;
    padded_tokens += int64_t(padded.size()) * padded[0];
  }
  std::printf(
      "sentences=%ld rows=%s dtype=%s threads=%d tokens=%ld padded_tokens=%ld (%.2fx) packed_seq/s=%.1f "
      "padded_seq/s=%.1f "
      "gain=%.2f\n",
      long(count), name_of(type.rows), type.weights, threads(), long(tokens), long(padded_tokens),
      double(padded_tokens) / double(tokens), double(count) / packed_seconds, double(count) / padded_seconds,
      padded_seconds / packed_seconds);
}

std::vector<TurnCase> turn_cases(std::span<const Type> types) {
  std::vector<TurnCase> cases;
  for (const Type& type : types)
    for (const int64_t batch : {int64_t(1), kBatch})
      cases.push_back(
          {cat("lithe mode=rows-", name_of(type.rows), " dtype=", type.weights, " batch=", batch, " count=", batch),
           [&type, batch] { return forward_seconds(*type.model, equal(batch, kTokens)); }});
  return cases;
}

int run(int repeats, const char* sentences, bool turns) {
  Type types[] = {{"f32", DType::f32}, {"bf16", DType::bf16}, {"int8", DType::f32}, {"int8", DType::bf16}};
  if (turns) {
    take_turns(turn_cases(types));
    return 0;
  }
  if (sentences) {
    const std::vector<int64_t> lengths = line_lengths(sentences);
    for (const Type& type : types) compare_packing(type, lengths);
    return 0;
  }
  for (int i = 0; i <= repeats; ++i)
    for (Type& type : types) type.measure(i == 0);
  for (const Type& type : types) type.print();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  int repeats = 3;
  const char* sentences = nullptr;
  bool turns = false;
  for (int i = 1; i < argc; ++i) {
    if (!std::strcmp(argv[i], "--turns")) {
      turns = true;
    } else if (!std::strcmp(argv[i], "--sentences") && i + 1 < argc) {
      sentences = argv[++i];
    } else if (repeats = std::atoi(argv[i]); repeats < 1) {
      std::fprintf(stderr, "usage: encoder_bench [repeats] | --turns | --sentences FILE\n");
      return 2;
    }
  }
  try {
    return run(repeats, sentences, turns);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
