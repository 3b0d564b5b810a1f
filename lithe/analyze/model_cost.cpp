#include "lithe/analyze/model_cost.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "lithe/data/tree_columns.h"

namespace lithe::analyze {
namespace {

// All other kernels are elementwise, reductions or copies.
bool is_product(const std::string& kernel) {
  return kernel == "gemm" || kernel == "grouped_gemm" || kernel == "attention" || kernel == "taylor_attention";
}

// Costs by part, in the order in which parts are first named.
class Parts {
 public:
  explicit Parts(const ModelConfig& config) : config_(config) {
    if (reads_source(config.architecture)) source_config_ = config.encoder_config();
  }

  CostOfPart& of(const std::string& name) {
    const std::string key = merged(name);
    const auto found = std::find_if(all.begin(), all.end(), [&](const CostOfPart& p) { return p.part == key; });
    if (found != all.end()) return *found;
    all.push_back({.part = key});
    return all.back();
  }

  // layers.3.mixer.heads.q.weight -> layers.*.mixer; decoder.layers.3.cross -> decoder.layers.*.cross
  std::string merged(const std::string& name) const {
    // Rows that no part holds lie between the layers; an encoder-decoder's are the decoder's.
    if (name.empty() && reads_source(config_.architecture)) return "decoder." + merged(name, config_);
    for (const std::string side : {"encoder.", "decoder."})
      if (name.starts_with(side))
        return side + merged(name.substr(side.size()), side == "encoder." ? source_config_ : config_);
    return merged(name, config_);
  }

  std::vector<CostOfPart> all;

 private:
  const ModelConfig& config_;
  ModelConfig source_config_;  // of an encoder-decoder

  static std::string merged(const std::string& name, const ModelConfig& config) {
    const std::string between = "layers.* norms, sums";
    if (name.empty()) return between;
    if (!name.starts_with("layers.")) return name.substr(0, name.find('.'));
    const size_t number_end = name.find('.', 7);
    if (number_end == std::string::npos) return between;
    const std::string part = name.substr(number_end + 1, name.find('.', number_end + 1) - number_end - 1);
    if (part != "mixer" && part != "cross" && part != "ffn") return between;
    const std::string kind = part == "mixer" ? config.layer_name(std::stoll(name.substr(7))) : "";
    return "layers.*." + part + (kind.empty() ? "" : " (" + kind + ")");
  }
};

Tensor meta_tokens(const Model& model, int64_t count) {
  const int64_t width = model.config().token_width;
  return empty(width > 1 ? Shape{count, width} : Shape{count}, DType::i32, Device::meta);
}

// Logits of each text's last token.
Var last_logits(const Model& model, const ModelInput& input, DecodeState* state = nullptr) {
  Pass pass;
  return model.logits(model.run(input, pass, state), input.sequences.last_rows());
}

Sequences texts(int64_t batch, int64_t length) {
  std::vector<int64_t> offsets;
  for (int64_t b = 0; b <= batch; ++b) offsets.push_back(b * length);
  return Sequences(offsets, std::vector<int64_t>(size_t(batch), 0), Device::meta);
}

// Texts that begin with their features, where they have room for them.
// With the columns that the model reads beside its tokens, or the encoder of `source` beside its own.
ModelInput input_of(const Model& model, const Sequences& sequences, const CostOptions& options,
                    const std::string& source = "") {
  ModelInput out{meta_tokens(model, sequences.rows()), sequences};
  for (const std::string& name : model.reads_columns(source))
    out.columns[name] =
        empty(name == "head_probabilities" ? Shape{sequences.rows(), 2 * kParserHeads} : Shape{sequences.rows()},
              DType::i32, Device::meta);
  int64_t all = 0;
  for (const auto& [name, shape] : options.features) all += shape.rows;
  for (int64_t b = 0; b < sequences.count(); ++b) {
    int64_t row = sequences.offset(b);
    if (sequences.length(b) < all) continue;
    for (const auto& [name, shape] : options.features)
      for (int64_t r = 0; r < shape.rows; ++r) out.modalities[name].rows.push_back(row++);
  }
  for (auto& [name, guests] : out.modalities)
    guests.tokens = empty({int64_t(guests.rows.size()), 1 + options.features.at(name).width}, DType::i32, Device::meta);
  return out;
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

// By the formulas, of all layers of one stack.
void add_published(Parts& parts, const std::string& scope, const ModelConfig& config, const CostOptions& options,
                   bool decodes) {
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const LayerConfig layer = config.layer(i);
    if (!layer.mixer()) continue;
    PublishedCost& sum = parts.of(cat(scope, "layers.", i, ".mixer")).published;
    PublishedCost one = published_cost(config, *layer.mixer(), options);
    if (!decodes) one.decode_flops = one.cache_bytes = std::nullopt;
    for (auto field : {&PublishedCost::parameters, &PublishedCost::prefill_flops, &PublishedCost::decode_flops,
                       &PublishedCost::activation_bytes, &PublishedCost::cache_bytes})
      if (one.*field) sum.*field = (sum.*field).value_or(0) + *(one.*field);
  }
}

}  // namespace

ModelCost model_cost(const ModelConfig& config, const CostOptions& o) {
  check_usage(o.batch >= 1 && o.length >= 1, "cost", "batch and length must be at least 1, got ", o.batch, " and ",
              o.length);
  const bool translates = reads_source(config.architecture);
  check_usage(translates || !o.source_length, "cost", "architecture ", config.architecture,
              " reads no source; leave the length of sources out");
  const bool decodes = !sees_ahead(config.architecture);
  const std::string scope = translates ? "decoder." : "";
  CostOptions of_source = o;
  if (o.source_length) of_source.length = o.source_length;
  Parts parts(config);
  {
    Model model(config, {.device = Device::meta, .dtype = o.dtype, .compute = o.compute, .trainable = true});
    model.set_recompute(o.recompute);
    for (const Parameter& p : model.parameters().all()) parts.of(p.name).parameters += p.master.value().numel();
    CostOptions text_alone = o;
    text_alone.features.clear();
    const Sequences sequences = texts(o.batch, o.length), sources = texts(o.batch, of_source.length);
    ModelInput input = input_of(model, sequences, translates ? text_alone : o);
    for (const std::string& name : config.source_names())
      input.sources[name] = input_of(model, sources, name == kSource ? of_source : text_alone, name);
    {
      kernels::CostMeter meter;
      Tape tape;
      const Var loss = [&] {  // rows live on only where the tape keeps them
        // A compressor makes the rows fewer, and a head may have a label a text.
        Pass pass;
        const Rows rows = model.run(input, pass);
        const Head::LabelCount count = model.label_count(rows.sequences);
        const Tensor labels = empty({count.labels}, count.classes ? DType::i32 : DType::f32, Device::meta);
        return model.loss_of(rows, {},
                             {.labels = labels, .label_sequences = count.own_lengths ? rows.sequences : Sequences()});
      }();
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
      const bool first = !translates && state.length(0) == 0;
      last_logits(model, input_of(model, model.continue_sequences(state, counts), first ? o : text_alone), &state);
    };
    const auto read_source = [&](DecodeState& state) {
      if (translates) model.read_sources(state, input.sources);
    };
    measure(&CostOfPart::forward_flops, &CostOfPart::forward_products, [&] {
      if (decodes) {
        last_logits(model, input);
        return;
      }
      Pass pass;
      model.logits(model.run(input, pass));
    });
    if (decodes) {
      auto state = model.make_state(o.batch, o.length);
      measure(&CostOfPart::prefill_flops, &CostOfPart::prefill_products, [&] {
        read_source(*state);
        add_tokens(*state, o.length);
      });
      for (const auto& layer : state->entries())
        for (const DecodeState::Entry& entry : layer)
          for (const auto& stage : entry.stages)
            if (stage) parts.of(entry.part).cache_bytes += stage->bytes();
      state = model.make_state(o.batch, o.length);
      read_source(*state);
      if (o.length > 1) add_tokens(*state, o.length - 1);
      measure(&CostOfPart::decode_flops, &CostOfPart::decode_products, [&] { add_tokens(*state, 1); });
    }
  }
  if (translates) add_published(parts, "encoder.", config.encoder_config(), of_source, false);
  add_published(parts, scope, config, o, decodes);
  ModelCost cost{.source_length = translates ? of_source.length : 0, .decodes = decodes};
  cost.parts = std::move(parts.all);
  cost.total.part = "total";
  for (const CostOfPart& part : cost.parts) add_to(cost.total, part);
  return cost;
}

}  // namespace lithe::analyze
