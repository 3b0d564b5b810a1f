#include "lithe/analyze/model_cost.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace lithe::analyze {
namespace {

// All other kernels are elementwise, reductions or copies.
bool is_product(const std::string& kernel) {
  return kernel == "gemm" || kernel == "attention" || kernel == "taylor_attention";
}

// Costs by part, in the order in which parts are first named.
class Parts {
 public:
  explicit Parts(const ModelConfig& config) : config_(config) {}

  CostOfPart& of(const std::string& name) {
    const std::string key = merged(name);
    const auto found = std::find_if(all.begin(), all.end(), [&](const CostOfPart& p) { return p.part == key; });
    if (found != all.end()) return *found;
    all.push_back({.part = key});
    return all.back();
  }

  // layers.3.mixer.heads.q.weight -> layers.*.mixer
  std::string merged(const std::string& name) const {
    const std::string between = "layers.* norms, sums";
    if (name.empty()) return between;
    if (!name.starts_with("layers.")) return name.substr(0, name.find('.'));
    const size_t number_end = name.find('.', 7);
    if (number_end == std::string::npos) return between;
    const std::string part = name.substr(number_end + 1, name.find('.', number_end + 1) - number_end - 1);
    if (part != "mixer" && part != "ffn") return between;
    const std::string kind = part == "mixer" ? config_.mixer_name(std::stoll(name.substr(7))) : "";
    return "layers.*." + part + (kind.empty() ? "" : " (" + kind + ")");
  }

  std::vector<CostOfPart> all;

 private:
  const ModelConfig& config_;
};

Tensor meta_tokens(const Model& model, int64_t count) {
  const int64_t width = model.config().token_width;
  return empty(width > 1 ? Shape{count, width} : Shape{count}, DType::i32, Device::meta);
}

// Logits of each text's last token.
Var last_logits(const Model& model, const Tensor& ids, const Sequences& sequences, DecodeState* state) {
  const Var rows = model.forward(ids, sequences, state);
  return model.logits(Var(empty({sequences.count(), rows.cols()}, rows.dtype(), Device::meta)));
}

Sequences texts(int64_t batch, int64_t length) {
  std::vector<int64_t> offsets;
  for (int64_t b = 0; b <= batch; ++b) offsets.push_back(b * length);
  return Sequences(offsets, std::vector<int64_t>(size_t(batch), 0), Device::meta);
}

void add_to(CostOfPart& sum, const CostOfPart& part) {
  sum.parameters += part.parameters;
  sum.forward_flops += part.forward_flops;
  sum.forward_products += part.forward_products;
  sum.prefill_flops += part.prefill_flops;
  sum.decode_flops += part.decode_flops;
  sum.prefill_products += part.prefill_products;
  sum.decode_products += part.decode_products;
  sum.activation_bytes += part.activation_bytes;
  sum.cache_bytes += part.cache_bytes;
}

void add_published(Parts& parts, const ModelConfig& config, const CostOptions& options) {
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    PublishedCost& sum = parts.of("layers." + std::to_string(i) + ".mixer").published;
    const PublishedCost one = published_cost(config, config.mixer_of(i), options);
    for (auto field : {&PublishedCost::parameters, &PublishedCost::prefill_flops, &PublishedCost::decode_flops,
                       &PublishedCost::activation_bytes, &PublishedCost::cache_bytes})
      if (one.*field) sum.*field = (sum.*field).value_or(0) + *(one.*field);
  }
}

}  // namespace

ModelCost model_cost(const ModelConfig& config, const CostOptions& o) {
  check_usage(o.batch >= 1 && o.length >= 1, "cost", "batch and length must be at least 1, got ", o.batch, " and ",
              o.length);
  Parts parts(config);
  {
    Model model(config, {.device = Device::meta, .dtype = o.dtype, .compute = o.compute, .trainable = true});
    model.set_recompute(o.recompute);
    for (const Parameter& p : model.parameters().all()) parts.of(p.name).parameters += p.master.value().numel();
    const Tensor ids = meta_tokens(model, o.batch * o.length), labels = empty({ids.dim(0)}, DType::i32, Device::meta);
    {
      kernels::CostMeter meter;
      Tape tape;
      const Var loss = model.loss(ids, labels, texts(o.batch, o.length), 0, 1);
      for (const auto& kept : meter.kept()) parts.of(kept.part).activation_bytes += kept.bytes;
    }
    const NoGrad no_grad;
    const auto measure = [&](double CostOfPart::*flops, double CostOfPart::*products, auto&& work) {
      const kernels::CostMeter meter;
      work();
      for (const auto& e : meter.entries()) {
        parts.of(e.part).*flops += e.cost.flops;
        if (is_product(e.kernel)) parts.of(e.part).*products += e.cost.flops;
      }
    };
    const auto add_tokens = [&](DecodeState& state, int64_t count) {
      const std::vector<int64_t> counts(size_t(o.batch), count);
      last_logits(model, meta_tokens(model, o.batch * count), model.continue_sequences(state, counts), &state);
    };
    measure(&CostOfPart::forward_flops, &CostOfPart::forward_products,
            [&] { last_logits(model, ids, texts(o.batch, o.length), nullptr); });
    auto state = model.make_state(o.batch, o.length);
    measure(&CostOfPart::prefill_flops, &CostOfPart::prefill_products, [&] { add_tokens(*state, o.length); });
    for (int64_t i = 0; i < config.num_hidden_layers; ++i)
      if (state->layer(i)) parts.of("layers." + std::to_string(i) + ".mixer").cache_bytes += state->layer(i)->bytes();
    state = model.make_state(o.batch, o.length);
    if (o.length > 1) add_tokens(*state, o.length - 1);
    measure(&CostOfPart::decode_flops, &CostOfPart::decode_products, [&] { add_tokens(*state, 1); });
  }
  add_published(parts, config, o);
  ModelCost cost;
  cost.parts = std::move(parts.all);
  cost.total.part = "total";
  for (const CostOfPart& part : cost.parts) add_to(cost.total, part);
  return cost;
}

}  // namespace lithe::analyze
