#include <algorithm>
#include <memory>

#include "lithe/base/random.h"
#include "lithe/bench/bench.h"
#include "lithe/compare/decoding.h"
#include "lithe/infer/load.h"
#include "lithe/model/packable.h"
#include "lithe/model/quantized_weights.h"
#include "lithe/train/plan.h"

namespace lithe::bench {
namespace {

using compare::Decoding;

constexpr int64_t kDecodeTokens = 32;  // of one sample at most

Ceiling products_of(DType type) { return type == DType::bf16 ? Ceiling::bf16 : Ceiling::f32; }

// Tokens that the model accepts: ids of its vocabulary, or ordinary codes.
std::vector<int32_t> random_tokens(const Subject& s, int64_t width, int64_t count) {
  const RandomKey key{.seed = 1, .purpose = purpose_of("bench")};
  std::vector<int32_t> out(size_t(count * width), 0);
  for (int64_t i = 0; i < count; ++i) {
    const auto below = [&](int64_t bound) { return random_below(key, uint64_t(i), uint64_t(bound)); };
    int32_t* token = &out[size_t(i * width)];
    if (width == 1) {
      token[0] = int32_t(below(s.model.vocab_size));
      continue;
    }
    token[0] = code_ordinary;
    switch (s.code.payload) {
      case TokenCode::Payload::bits: {
        const int64_t unused = std::max<int64_t>(0, 32 - s.code.size);
        token[1] = int32_t(uint32_t(below(int64_t(1) << 32)) >> unused << unused);
        break;
      }
      case TokenCode::Payload::features:
        for (int64_t j = 0; j < s.code.size; ++j)
          token[1 + j] = code_of_number(float(random_normal(key, uint64_t(i * s.code.size + j))));
        break;
      case TokenCode::Payload::character: token[1] = int32_t('a' + below(26)); break;
      default: token[1] = int32_t(below(s.code.size));
    }
  }
  return out;
}

Batch random_batch(const Subject& s, const Model& model, const Objective& objective, const TrainConfig& train) {
  Batch batch = batch_of_shape(model, objective, {train.micro_batch_tokens()}, s.sequence_length);
  batch.tokens = random_tokens(s, batch.token_width, batch.rows());
  const RandomKey key{.seed = 1, .purpose = purpose_of("bench labels")};
  const int64_t predicted = int64_t(batch.predicted.size());
  for (int64_t i = 0; i < predicted; ++i) batch.predicted[size_t(i)] = i * batch.rows() / predicted;
  const int64_t classes =
      predicted ? s.model.vocab_size : model.label_count(Sequences(batch.offsets, {}, Device::meta)).classes;
  for (size_t i = 0; i < batch.labels.size(); ++i) batch.labels[i] = int32_t(random_below(key, i, uint64_t(classes)));
  for (size_t i = 0; i < batch.values.size(); ++i) batch.values[i] = float(random_normal(key, i));
  return batch;
}

// A model in training, one step after another on one batch.
struct Training {
  TrainConfig config;
  Model model;
  TrainedObjective objective;
  AdamW optimizer;
  std::vector<DeviceBatch> batches;
  int64_t steps = 0;

  Training(const Subject& s, const TrainConfig& train)
      : config(train),
        model(
            s.model,
            {.dtype = train.parameter_dtype(), .compute = train.compute(), .trainable = true, .frozen = train.freeze}),
        objective(train, model),
        optimizer({&model.parameters(), &objective.parameters()}, train) {
    model.set_recompute(train.gradient_checkpointing);
    const Batch batch = random_batch(s, model, objective.main(), train);
    for (int64_t i = 0; i < train.gradient_accumulation_steps; ++i) batches.push_back(to_device(batch, Device::cpu));
  }
  void step() { take_step(model, objective, optimizer, batches, config, ++steps, config.learning_rate * 1e-3); }
};

// What the cases of one subject for inference share.
struct Inference {
  std::unique_ptr<Model> model;
  std::vector<int32_t> tokens;
};

bool predicts_next(const ModelConfig& config) {
  try {
    Model(config, {.device = Device::meta}).check_predicts_next("bench");
    return true;
  } catch (const Error&) {
    return false;
  }
}

class Uses {
 public:
  Uses(const Subject& subject, const Options& options, const Ceilings& ceilings, std::vector<std::string>& skipped)
      : s_(subject), options_(options), ceilings_(ceilings), skipped_(skipped) {}

  std::vector<Case> take() { return std::move(cases_); }

  /// Runs `make`; what it cannot do is noted.
  template <class F>
  void attempt(const char* group, F&& make) {
    try {
      make();
    } catch (const Error& error) {
      skip(group, error.what());
    }
  }
  void skip(const std::string& group, const std::string& reason) {
    skipped_.push_back(cat(group, " of ", s_.name, ": ", reason));
  }

  void train() {
    if (quantized()) return skip("train", "integer weights are for inference");
    TrainConfig config = s_.train;
    if (!options_.precision.empty()) config.precision = options_.precision;
    config.validate(s_.sequence_length);
    // Its peak is known before anything is allocated; a measured one says that it holds.
    const Plan plan = plan_training(s_.model, config, {.sequence_length = s_.sequence_length}, false);
    const int64_t before = ledger(Device::cpu).current();
    ledger(Device::cpu).reset_peak();
    const auto training = std::make_shared<Training>(s_, config);
    training->step();
    Case c = new_case("train", cat(config.batch_tokens, " tokens ", config.precision), "tokens",
                      double(config.batch_tokens), plan.step, config.compute());
    c.what.peak_bytes = ledger(Device::cpu).peak() - before;
    c.run = [training] { training->step(); };
    cases_.push_back(std::move(c));
  }

  void prefill() {
    inference();
    const int64_t length = options_.length;
    check_reaches("prefill", length);
    Case c = new_case("prefill", cat(length, " tokens ", dtype_), "tokens", double(length),
                      decode_cost(1, length, 0, true), dtype_);
    const auto decoding = std::make_shared<std::unique_ptr<Decoding>>();
    c.prepare = [in = in_, decoding, length] {
      *decoding = std::make_unique<Decoding>(*in->model, 1, length, 0, in->tokens);
    };
    c.prepare_each_run = true;
    c.run = [decoding] { (*decoding)->prefill(); };
    cases_.push_back(std::move(c));
  }

  void decode(int64_t batch) {
    inference();
    // After a prompt of that length when it was asked for, else within the length of the recipe.
    const int64_t tokens = options_.fixed_length ? kDecodeTokens
                                                 : std::clamp<int64_t>(options_.length / 2, 1, kDecodeTokens),
                  length = std::max<int64_t>(1, options_.fixed_length ? options_.length : options_.length - tokens);
    check_reaches("decode", length + tokens);
    Case c = new_case("decode", cat("batch ", batch, " after ", length, " ", dtype_), "tokens", double(batch),
                      decode_cost(batch, length, tokens, false), dtype_);
    const auto decoding = std::make_shared<std::unique_ptr<Decoding>>();
    c.prepare = [in = in_, decoding, batch, length, tokens] {
      *decoding = std::make_unique<Decoding>(*in->model, batch, length, tokens, in->tokens);
      (*decoding)->prefill();
    };
    c.runs_at_most = tokens;
    c.run = [decoding] { (*decoding)->decode(); };
    cases_.push_back(std::move(c));
  }

  void encode(int64_t batch) {
    inference();
    const int64_t length = options_.length, width = std::max<int64_t>(1, s_.model.token_width), rows = batch * length;
    std::vector<int64_t> offsets{0};
    check_reaches("encode", length);
    while (offsets.back() < rows) offsets.push_back(offsets.back() + length);
    const Shape shape = width == 1 ? Shape{rows} : Shape{rows, width};
    const NoGrad no_grad;
    const kernels::CostMeter meter;
    Pass pass;
    meta_->run({empty(shape, DType::i32, Device::meta), Sequences(offsets, {}, Device::meta)}, pass);
    Case c =
        new_case("encode", cat(batch, "x", length, " ", dtype_), "sequences", double(batch), meter.total(), dtype_);
    const Tensor ids = tensor_of(shape, random_tokens(s_, width, rows));
    c.run = [in = in_, ids, sequences = Sequences(offsets)] {
      const NoGrad no_tape;
      Pass pass;
      in->model->run({ids, sequences}, pass);
    };
    cases_.push_back(std::move(c));
  }

 private:
  const Subject& s_;
  const Options& options_;
  const Ceilings& ceilings_;
  std::vector<std::string>& skipped_;
  std::vector<Case> cases_;
  std::shared_ptr<Inference> in_;
  std::unique_ptr<Model> meta_;
  DType dtype_ = DType::f32;

  bool quantized() const { return !s_.model.quantization_config.is_null(); }

  Case new_case(const std::string& group, const std::string& name, const std::string& unit, double amount,
                kernels::Cost cost, DType type) const {
    Measurement m{.group = group, .name = name, .variant = s_.name, .unit = unit, .amount = amount, .cost = cost};
    m.compute = ceilings_.best(quantized() ? Ceiling::int8 : products_of(type));
    return {.what = std::move(m)};
  }

  // Makes what they need, once.
  void inference() {
    if (in_) return;
    const std::string precision = options_.precision.empty() ? s_.train.precision : options_.precision;
    dtype_ = dtype_named(precision);
    auto made = std::make_shared<Inference>();
    const std::map<std::string, bool> packed = packed_products(s_.model);
    made->model = s_.run.empty() ? std::make_unique<Model>(
                                       s_.model, ModelOptions{.dtype = dtype_, .compute = dtype_, .packed = &packed})
                                 : load_model(s_.run, "", precision).model;
    made->tokens = random_tokens(s_, 1, 4096);
    const std::set<std::string> integers =
        s_.run.empty() ? std::set<std::string>() : integer_weights(s_.run / "model.safetensors");
    meta_ = std::make_unique<Model>(
        s_.model,
        ModelOptions{
            .device = Device::meta, .dtype = dtype_, .compute = dtype_, .integers = &integers, .packed = &packed});
    outline_integers(meta_->parameters(), {s_.run / "model.safetensors", integers});
    in_ = std::move(made);
  }

  // Fails where the positions do not reach so far.
  void check_reaches(const char* use, int64_t tokens) const {
    const int64_t limit = meta_->position_limit();
    check(!limit || tokens <= limit, use, "its positions end at ", limit, ", this needs ", tokens,
          "; give a smaller --length");
  }

  kernels::Cost decode_cost(int64_t batch, int64_t length, int64_t tokens, bool prefill) const {
    Decoding meta(*meta_, batch, length, tokens, {0});
    kernels::Cost prompt;
    {
      const kernels::CostMeter meter;
      meta.prefill();
      prompt = meter.total();
    }
    if (prefill) return prompt;
    const kernels::CostMeter meter;
    meta.decode();
    return meter.total();
  }
};

}  // namespace

std::vector<Case> model_cases(const Subject& s, const Options& options, const std::set<std::string>& sections,
                              const Ceilings& ceilings, std::vector<std::string>& skipped) {
  Uses uses(s, options, ceilings, skipped);
  const bool decoder = s.model.architecture == Architecture::decoder, encoder = sees_ahead(s.model.architecture);
  if (!decoder && !encoder) {
    uses.skip("all", cat("lithe bench measures decoders and encoders, not architecture ", s.model.architecture));
    return {};
  }
  const bool generates = decoder && predicts_next(s.model);
  const auto wants = [&](const char* section) { return sections.count(section) > 0; };
  if (wants("train")) uses.attempt("train", [&] { uses.train(); });
  if (generates && wants("prefill")) uses.attempt("prefill", [&] { uses.prefill(); });
  for (const int64_t batch : options.batches) {
    if (generates && wants("decode")) uses.attempt("decode", [&] { uses.decode(batch); });
    if (!generates && wants("encode")) uses.attempt("encode", [&] { uses.encode(batch); });
  }
  return uses.take();
}

}  // namespace lithe::bench
