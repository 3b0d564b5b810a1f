// Prefill and greedy decoding of GPT-2 124M (12 layers, 768 channels, 12 heads, vocabulary 50257, learned positions,
// layer norms, gelu, tied head, random weights) in one sequence: tokens/s and the process's peak resident memory.
//   generate_bench make DIRECTORY f32|bf16|int8|int4
//   generate_bench DIRECTORY f32|bf16 [repeats | turns]
//   generate_bench DIRECTORY f32|bf16 turns BATCHES LENGTHS
//   generate_bench DIRECTORY f32|bf16 endless [tokens]
// The first writes the model, the second runs it with rows of that type, a line of key=value pairs each: a prompt of
// 512 tokens up to the logits of its last, and 128 tokens after a prompt of 16, with the GB/s of weights that they
// read and their share of a plain read of as much memory in the same turns. Run each case in a fresh process.
// With `turns` for the number the second runs its cases as bench/peers/turns.py asks. The third does so with any run: a
// prompt of 512 tokens, and 8 tokens in each of a number of texts, which have a length before; BATCHES and LENGTHS are
// such numbers with commas. The last lets any run generate that many (100,000) and prints tokens/s and resident memory
// after every thousandth. bench/peers/generate.sh and large.sh run the same work in other programs.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "bench/turns.h"
#include "lithe/base/machine.h"
#include "lithe/base/threads.h"
#include "lithe/bench/ceilings.h"
#include "lithe/bench/timing.h"
#include "lithe/compress/quantize.h"
#include "lithe/infer/sampler.h"
#include "lithe/model/packable.h"
#include "lithe/model/quantized_weights.h"
#include "lithe/ops/basic.h"

namespace {

using namespace lithe;
using namespace lithe::bench;

constexpr int64_t kPositions = 1024, kPrefill = 512, kPrompt = 16, kNew = 128, kSteps = 8;

constexpr const char* kGpt2 = R"({hidden_size: 768, num_hidden_layers: 12, vocab_size: 50257,
  max_position_embeddings: 1024, position: learned, mixer: {type: attention, num_attention_heads: 12,
  attention_bias: true, output_bias: true}, ffn: gelu, norm: {type: layer, eps_mode: variance}})";

void make(const Path& directory, const std::string& weights) {
  const DType dtype = weights == "bf16" ? DType::bf16 : DType::f32;
  const Model model(read_model_config(parse_yaml(kGpt2, "generate_bench")), {.dtype = dtype, .compute = dtype});
  std::filesystem::create_directories(directory);
  const Path file = directory / "model.safetensors";
  if (weights == "f32" || weights == "bf16") {
    save_weights(model, file);
    return save_config(model.config(), directory / "config.json");
  }
  std::vector<QuantizedLayer> layers;
  const auto format = weights == "int8" ? kernels::PackedFormat::int8 : kernels::PackedFormat::int4;
  save_config(quantize_model(model, {.format = format}, file, layers)->config(), directory / "config.json");
}

// Texts of one length that grow.
class Texts {
 public:
  Texts(const Model& model, int64_t batch, int64_t capacity)
      : model_(model), state_(model.make_state(batch, capacity)) {}
  /// Appends equally many tokens to each; what follows them, by the highest logit.
  std::vector<int32_t> next_after(const std::vector<int32_t>& ids) {
    const NoGrad no_grad;
    const int64_t batch = state_->sequences(), each = int64_t(ids.size()) / batch;
    const Sequences sequences = model_.continue_sequences(*state_, std::vector<int64_t>(size_t(batch), each));
    Pass pass;
    const Rows rows = model_.run({tensor_of({int64_t(ids.size())}, ids), sequences}, pass, state_.get());
    const Tensor logits = cast(model_.logits(rows, sequences.last_rows()), DType::f32).value();
    std::vector<int32_t> next;
    for (int64_t i = 0; i < batch; ++i)
      next.push_back(
          choose_token({logits.data<float>() + i * logits.cols(), size_t(logits.cols())}, {}, greedy_, 0, 0));
    return next;
  }
  /// Seconds for some tokens more in each, from `tokens` on.
  double decode_seconds(std::vector<int32_t> tokens, int64_t steps) {
    return seconds([&] {
      for (int64_t i = 0; i < steps; ++i) tokens = next_after(tokens);
    });
  }
  void truncate(int64_t length) {
    for (int64_t i = 0; i < state_->sequences(); ++i) state_->truncate(i, length);
  }

 private:
  const Model& model_;
  const GenerateConfig greedy_{.do_sample = false};
  std::unique_ptr<DecodeState> state_;
};

std::vector<int32_t> random_ids(const Model& model, int64_t n) {
  const RandomKey key{.seed = 1, .purpose = purpose_of("generate_bench")};
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < n; ++i)
    ids.push_back(int32_t(random_below(key, uint64_t(i), uint64_t(model.config().vocab_size))));
  return ids;
}

double prefill_seconds(const Model& model) {
  Texts text(model, 1, kPrefill);
  const std::vector<int32_t> prompt = random_ids(model, kPrefill);
  return seconds([&] { text.next_after(prompt); });
}

double decode_seconds(const Model& model) {
  Texts text(model, 1, kPrompt + kNew);
  return text.decode_seconds(text.next_after(random_ids(model, kPrompt)), kNew);
}

// Texts of a length, with room for kSteps tokens more.
std::unique_ptr<Texts> texts_of(const Model& model, int64_t batch, int64_t length) {
  auto texts = std::make_unique<Texts>(model, batch, length + kSteps);
  const std::vector<int32_t> text = random_ids(model, length);
  for (int64_t at = 0; at < length; at += kPrefill) {
    std::vector<int32_t> ids;
    const int64_t end = std::min(length, at + kPrefill);
    for (int64_t i = 0; i < batch; ++i) ids.insert(ids.end(), text.begin() + at, text.begin() + end);
    texts->next_after(ids);
  }
  return texts;
}

// Bytes of weights that a token reads: all but the positions of others.
double weight_bytes(const Model& model) {
  int64_t bytes = 0;
  for (const Parameter& p : model.parameters().all())
    if (p.master.shape()[0] != kPositions) bytes += p.bytes();
  return double(bytes);
}

Model load(const Path& directory, DType dtype) {
  const ModelConfig config = load_config(directory / "config.json");
  const Path file = directory / "model.safetensors";
  const std::set<std::string> integers = integer_weights(file);
  const std::map<std::string, bool> packed = packed_products(config);
  Model model(config,
              {.dtype = dtype, .compute = dtype, .integers = &integers, .packed = &packed, .initialised = false});
  load_weights(model, file);
  return model;
}

double resident_mb() {
  int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return double(resident) * double(::sysconf(_SC_PAGESIZE)) / 1048576;
}

int run_endless(const Path& directory, const std::string& rows, int64_t tokens) {
  constexpr int64_t kPart = 1000;
  const Model model = load(directory, dtype_named(rows));
  Texts text(model, 1, tokens);
  std::vector<int32_t> token{1};
  for (int64_t at = 0; at < tokens; at += kPart) {
    const int64_t count = std::min(kPart, tokens - at);
    const double time = seconds([&] {
      for (int64_t i = 0; i < count; ++i) token = text.next_after(token);
    });
    std::printf("lithe work=endless mode=rows-%s threads=%d tokens=%lld tok/s=%.0f RSS_MB=%.2f\n", rows.c_str(),
                threads(), (long long)(at + count), double(count) / time, resident_mb());
  }
  return 0;
}

std::string weights_of(const Model& model, const std::string& rows) {
  const Node* bits = model.config().quantization_config.find("bits");
  return bits ? "int" + bits->text() : rows;
}

int run_turns(const Path& directory, const std::string& rows) {
  const Model model = load(directory, dtype_named(rows));
  const std::string more = cat(" weights=", weights_of(model, rows), " mode=rows-", rows, " count=");
  take_turns({{cat("lithe work=prefill", more, kPrefill), [&] { return prefill_seconds(model); }},
              {cat("lithe work=decode", more, kNew), [&] { return decode_seconds(model); }}});
  return 0;
}

std::vector<int64_t> numbers_of(const std::string& text) {
  std::vector<int64_t> numbers;
  std::istringstream in(text);
  for (std::string one; std::getline(in, one, ',');) numbers.push_back(std::stoll(one));
  return numbers;
}

int run_batches(const Path& directory, const std::string& rows, const std::string& batches,
                const std::string& lengths) {
  const Model model = load(directory, dtype_named(rows));
  const std::string more = cat(" weights=", directory.filename().string(), " mode=rows-", rows, " count=");
  std::vector<TurnCase> cases{
      {cat("lithe work=prefill texts=1 after=0", more, kPrefill), [&] { return prefill_seconds(model); }}};
  std::unique_ptr<Texts> now;  // of one case at a time
  size_t of = 0;
  for (const int64_t length : numbers_of(lengths))
    for (const int64_t batch : numbers_of(batches))
      cases.push_back({cat("lithe work=decode texts=", batch, " after=", length, more, batch * kSteps),
                       [&, length, batch, index = cases.size()] {
                         if (of != index) now = nullptr, now = texts_of(model, batch, length), of = index;
                         now->truncate(length);
                         return now->decode_seconds(std::vector<int32_t>(size_t(batch), 1), kSteps);
                       }});
  take_turns(cases);
  return 0;
}

int run(const Path& directory, const std::string& rows, int repeats) {
  const Model model = load(directory, dtype_named(rows));
  prefill_seconds(model);
  decode_seconds(model);
  const double peak = double(peak_resident_bytes()) / 1048576;  // without the probe's memory

  const Tensor memory = zeros({int64_t(1) << 28}, DType::u8);
  prefill_seconds(model);  // its memory may have become the probe's
  std::vector<double> prefill, decode, probe;
  for (int i = 0; i < repeats; ++i) {
    prefill.push_back(prefill_seconds(model));
    probe.push_back(read_gbs(memory));
    decode.push_back(decode_seconds(model));
    probe.push_back(read_gbs(memory));
  }
  const std::string weights = weights_of(model, rows);
  const double gbs = weight_bytes(model) * kNew / median(decode) * 1e-9;
  const auto print = [&](const char* work, int64_t tokens, const std::vector<double>& times) {
    std::printf("lithe work=%s weights=%s mode=rows-%s threads=%d tok/s=%.1f ms=%.1f min=%.1f max=%.1f peakRSS_MB=%.0f",
                work, weights.c_str(), rows.c_str(), threads(), double(tokens) / median(times), 1e3 * median(times),
                1e3 * *std::min_element(times.begin(), times.end()),
                1e3 * *std::max_element(times.begin(), times.end()), peak);
  };
  print("prefill", kPrefill, prefill);
  std::printf("\n");
  print("decode", kNew, decode);
  std::printf(" GB/s=%.1f probe=%.1f share=%.2f\n", gbs, median(probe), gbs / median(probe));
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  const auto is = [&](int i, std::initializer_list<std::string> of) {
    return i < argc && std::find(of.begin(), of.end(), argv[i]) != of.end();
  };
  if (argc == 4 && is(1, {"make"}) && is(3, {"f32", "bf16", "int8", "int4"})) return make(argv[2], argv[3]), 0;
  if (argc >= 4 && is(2, {"f32", "bf16"}) && is(3, {"endless"}))
    return run_endless(argv[1], argv[2], argc > 4 ? std::max(1LL, std::atoll(argv[4])) : 100000);
  if (argc == 4 && is(2, {"f32", "bf16"}) && is(3, {"turns"})) return run_turns(argv[1], argv[2]);
  if (argc == 6 && is(2, {"f32", "bf16"}) && is(3, {"turns"})) return run_batches(argv[1], argv[2], argv[4], argv[5]);
  if (argc >= 3 && is(2, {"f32", "bf16"})) return run(argv[1], argv[2], argc > 3 ? std::max(1, std::atoi(argv[3])) : 3);
  std::fprintf(stderr,
               "usage: generate_bench make DIRECTORY f32|bf16|int8|int4\n"
               "       generate_bench DIRECTORY f32|bf16 [repeats | turns]\n"
               "       generate_bench DIRECTORY f32|bf16 turns BATCHES LENGTHS\n"
               "       generate_bench DIRECTORY f32|bf16 endless [tokens]\n");
  return 2;
} catch (const std::exception& error) {
  return std::fprintf(stderr, "generate_bench: %s\n", error.what()), 1;
}
