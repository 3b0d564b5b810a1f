#include "lithe/model/model.h"

#include <algorithm>

#include "lithe/base/json.h"
#include "lithe/model/quantized_weights.h"
#include "lithe/model/safetensors.h"
#include "lithe/ops/basic.h"

namespace lithe {

int64_t DecodeState::bytes() const {
  int64_t total = 0;
  for (const auto& layer : layers_)
    if (layer) total += layer->bytes();
  return total;
}

void DecodeState::reorder(const std::vector<int64_t>& from) {
  std::vector<int64_t> lengths;
  for (int64_t i : from) {
    check(i >= 0 && i < sequences(), "state", "reorder from sequence ", i, " of ", sequences());
    lengths.push_back(length(i));
  }
  for (const auto& layer : layers_)
    if (layer) layer->reorder(from);
  lengths_ = std::move(lengths);
}

void DecodeState::truncate(int64_t sequence, int64_t tokens) {
  check(sequence >= 0 && sequence < sequences() && tokens >= 0 && tokens <= length(sequence), "state",
        "cannot truncate sequence ", sequence, " to ", tokens, " tokens");
  for (const auto& layer : layers_)
    if (layer) layer->truncate(sequence, tokens);
  lengths_[size_t(sequence)] = tokens;
}

void DecodeState::advance(const Sequences& added) {
  for (int64_t b = 0; b < sequences(); ++b) lengths_[size_t(b)] += added.length(b);
}

Model::Model(const ModelConfig& config, const ModelOptions& options) : config_(config) {
  config_.validate();
  context_ = {.parameters = &parameters_,
              .device = options.device,
              .dtype = options.dtype,
              .compute = options.compute,
              .init = config.init,
              .seed = options.seed,
              .layers = config.num_hidden_layers,
              .trainable = options.trainable,
              .integers = options.integers ? *options.integers : std::set<std::string>{}};
  const Registry& registry = Registry::instance();
  const Scope root(context_);
  const int64_t d = config.hidden_size, width = std::max<int64_t>(config.token_width, 1);
  embedding_ = registry.make<Embedding>(config.embedding, root / "embedding",
                                        {.vocab_size = config.vocab_size, .hidden_size = d, .token_width = width});
  position_ = registry.make<Position>(config.position, root / "position",
                                      {.hidden_size = d, .max_position_embeddings = config.max_position_embeddings});
  if (config.embedding_norm)
    embedding_norm_ = registry.make<Norm>(config.norm, root / "embedding_norm", {.hidden_size = d});
  embedding_dropout_ = Dropout(root / "embedding", config.hidden_dropout);
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const Scope scope = (root / "layers" / std::to_string(i)).in_layer(i);
    Block block;
    block.name = scope.path();
    const auto norm = [&](const char* name) {
      return registry.make<Norm>(config.norm, scope / name, {.hidden_size = d});
    };
    block.mixer_norm = norm("mixer_norm");
    block.mixer = registry.make<Mixer>(config.mixer_of(i), scope / "mixer",
                                       {.hidden_size = d,
                                        .max_position_embeddings = config.max_position_embeddings,
                                        .causal = config.architecture == "decoder",
                                        .position = position_.get()});
    block.ffn_norm = norm("ffn_norm");
    block.ffn = registry.make<Ffn>(config.ffn, scope / "ffn", {.hidden_size = d});
    block.mixer_dropout = Dropout(scope / "mixer", config.hidden_dropout);
    block.ffn_dropout = Dropout(scope / "ffn", config.hidden_dropout);
    blocks_.push_back(std::move(block));
  }
  // The wiring points into the blocks, which stay where they are from here on.
  bool ends_with_norm = registry.make<Residual>(config.residual, root / "residual", {})->final_norm();
  for (Block& block : blocks_) {
    const Scope scope(context_, block.name);
    block.mixer_residual = registry.make<Residual>(config.residual, scope / "mixer_residual",
                                                   {.norm = block.mixer_norm.get(), .dropout = &block.mixer_dropout});
    block.ffn_residual = registry.make<Residual>(config.residual, scope / "ffn_residual",
                                                 {.norm = block.ffn_norm.get(), .dropout = &block.ffn_dropout});
  }
  if (ends_with_norm) final_norm_ = registry.make<Norm>(config.norm, root / "final_norm", {.hidden_size = d});
  set_up_companions();
  Parameter* table = embedding_->table();
  check_usage(table || !config.tie_word_embeddings, "model", "tie_word_embeddings needs an embedding with a table; '",
              config.embedding.type, "' has none");
  head_ = registry.make<Head>(config.head, root / "head",
                              {.vocab_size = config.vocab_size,
                               .hidden_size = d,
                               .num_labels = config.num_labels,
                               .tied = config.tie_word_embeddings ? table : nullptr,
                               .causal = config.architecture == "decoder"});
}

// One reference sequence serves all layers that ask for one.
void Model::set_up_companions() {
  for (Block& block : blocks_) {
    const Companion wanted = block.mixer->companion();
    block.companion = wanted.kind;
    wants_embedding_ = wants_embedding_ || wanted.kind == Companion::Kind::embedding;
    if (wanted.kind != Companion::Kind::reference) continue;
    check_usage(reference_.kind == Companion::Kind::none || reference_ == wanted, "model", block.name,
                ": all layers that read a reference sequence must name the same one");
    reference_ = wanted;
  }
  if (reference_.kind == Companion::Kind::none) return;
  const MemoryScope memory(MemoryClass::weights);
  reference_start_ = reference_start(config_.max_position_embeddings);
}

int64_t Model::position_limit() const {
  int64_t least = position_->limit();
  for (const Block& block : blocks_)
    if (const int64_t limit = block.skip_mixer ? 0 : block.mixer->limit())
      least = least ? std::min(least, limit) : limit;
  return least;
}

constexpr const char* kReference = "reference";  // names its random numbers

Tensor Model::reference_start(int64_t rows) const {
  if (!reference_.text) {
    const Tensor noise = empty({rows, config_.hidden_size}, context_.compute, context_.device);
    initialise(noise, {.std = reference_.std}, InitRole::embedding, kReference, uint64_t(reference_.seed), -1, 0);
    return noise;
  }
  check_usage(config_.token_width <= 1, "model", "a reference sequence of tokens needs ids, but a token is ",
              config_.token_width, " ints here; choose another tokenizer than a vocabulary-free one, or noise");
  const auto given = int64_t(reference_.ids.size());
  check_usage(!given || rows <= given, "model", "reference_ids has ", given, " tokens, ", rows,
              " are needed; give at least max_position_embeddings (data.sequence_length where that is 0) of them");
  for (const int64_t id : reference_.ids)
    check_usage(id >= 0 && id < config_.vocab_size, "model", "reference_ids has token ", id,
                ", the vocabulary's are 0 to ", config_.vocab_size - 1);
  const RandomKey key{.seed = uint64_t(reference_.seed), .purpose = purpose_of(kReference)};
  const Tensor ids = empty({rows}, DType::i32, context_.device);
  for (int64_t i = 0; i < rows && !ids.is_meta(); ++i)
    ids.data<int32_t>()[i] = int32_t(given ? reference_.ids[size_t(i)]
                                           : int64_t(random_below(key, uint64_t(i), uint64_t(config_.vocab_size))));
  return ids;
}

// What each layer's mixer reads of the reference sequence's first `count` rows; nothing for layers that do not ask.
std::vector<Var> Model::reference_rows(int64_t count) const {
  std::vector<Var> out(blocks_.size());
  if (reference_.kind == Companion::Kind::none) return out;
  const kernels::PartScope part("reference", true);
  size_t last = blocks_.size() - 1;
  while (blocks_[last].companion != Companion::Kind::reference) --last;
  const Tensor start = count <= reference_start_.dim(0) ? reference_start_.slice(0, count) : reference_start(count);
  const Sequences sequences = Sequences::single(count, context_.device);
  Var x = reference_.text ? embed(start, sequences) : Var(start);
  const Var embedded = x;
  for (size_t i = 0;; ++i) {
    const Block& block = blocks_[i];
    if (block.companion == Companion::Kind::reference) out[i] = block.mixer_residual->input(x);
    if (i == last) return out;
    x = run_block(block, x, {{}, sequences, nullptr, companion_of(block, embedded, {})});
  }
}

Var Model::companion_of(const Block& block, const Var& embedded, const Var& reference) const {
  if (block.companion == Companion::Kind::embedding) {
    const Var rows = block.mixer_residual->input(embedded);
    return reshape(rows, rows.shape());  // a Var of its own also where the input is the embedding itself
  }
  return block.companion == Companion::Kind::reference ? reference : Var();
}

std::vector<MixerMaps> Model::maps(const Tensor& ids) const {
  const NoGrad no_grad;
  const Sequences sequences = Sequences::single(ids.dim(0), context_.device);
  const Var embedded = embed(ids, sequences);
  const std::vector<Var> reference = reference_rows(ids.dim(0));
  std::vector<MixerMaps> out;
  Var x = embedded;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const Block& block = blocks_[i];
    const Var companion = companion_of(block, embedded, reference[i]);
    out.push_back(block.skip_mixer
                      ? MixerMaps{}
                      : block.mixer->maps({block.mixer_residual->input(x), sequences, nullptr, companion}));
    x = run_block(block, x, {{}, sequences, nullptr, companion});
  }
  return out;
}

// spec: decon.config_skip | pattern | a trained model without some layers, or without their mixers | TH 4.4.2, 4.5
void Model::skip(const std::vector<int64_t>& layers, bool mixers_only) {
  for (int64_t i : layers) {
    check(i >= 0 && i < int64_t(blocks_.size()), "skip", "there is no layer ", i, " among ", blocks_.size());
    blocks_[size_t(i)].skip_mixer = true;
    blocks_[size_t(i)].skip_ffn = !mixers_only;
  }
}

Var Model::embed(const Tensor& ids, const Sequences& sequences) const {
  const kernels::PartScope part("embedding");
  const Var rows = position_->add_to(embedding_->forward(ids), sequences);
  return embedding_dropout_(embedding_norm_ ? embedding_norm_->forward(rows) : rows);
}

Var Model::run_block(const Block& block, const Var& x, const MixerInput& in) const {
  Var out = x;
  if (!block.skip_mixer)
    out = block.mixer_residual->forward(out, [&](const Var& rows) {
      const kernels::PartScope part(block.name + ".mixer");
      return block.mixer->forward({rows, in.sequences, in.state, in.companion});
    });
  if (!block.skip_ffn)
    out = block.ffn_residual->forward(out, [&](const Var& rows) {
      const kernels::PartScope part(block.name + ".ffn");
      return block.ffn->forward(rows);
    });
  return out;
}

Var Model::forward(const Tensor& ids, const Sequences& sequences, DecodeState* state) const {
  const int64_t width = std::max<int64_t>(config_.token_width, 1);
  check(ids.dim(0) == sequences.rows() && ids.numel() == width * sequences.rows(), "model", "tokens of ", width,
        " ints for sequences of ", sequences.rows(), " rows must be [", sequences.rows(),
        width > 1 ? cat(",", width) : "", "], got ", ids.shape());
  if (const int64_t limit = position_->limit())
    for (int64_t b = 0; b < sequences.count(); ++b)
      check(sequences.past(b) + sequences.length(b) <= limit, "model", "a sequence of ",
            sequences.past(b) + sequences.length(b), " tokens is longer than max_position_embeddings ", limit,
            "; shorten it, or train with more positions");
  Var x = embed(ids, sequences);
  // A Var of its own gathers the companions' gradients, in one order whether layers are recomputed or not.
  const Var embedded = wants_embedding_ ? reshape(x, x.shape()) : Var();
  int64_t longest = 0;
  for (int64_t b = 0; b < sequences.count(); ++b) longest = std::max(longest, sequences.length(b));
  const std::vector<Var> reference = state ? state->reference : reference_rows(longest);
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const Block& block = blocks_[i];
    const kernels::PartScope part(block.name);
    MixerState* layer = state ? state->layer(int64_t(i)) : nullptr;
    const Var companion = companion_of(block, embedded, reference[i]);
    if (recompute_ && Tape::current())
      x = recompute(
          [this, &block, sequences](const std::vector<Var>& in) {
            return run_block(block, in[0], {{}, sequences, nullptr, in[1]});
          },
          {x, companion});
    else
      x = run_block(block, x, {{}, sequences, layer, companion});
  }
  if (state) state->advance(sequences);
  if (!final_norm_) return x;
  const kernels::PartScope part("final_norm");
  return final_norm_->forward(x);
}

Var Model::logits(const Var& rows, const Sequences& sequences) const {
  const kernels::PartScope part("head");
  return head_->logits(rows, sequences);
}

Var Model::loss(const Tensor& ids, const Tensor& labels, const Sequences& sequences, double smoothing, double scale,
                LossSums* sums, Tensor row_nll, const std::vector<int64_t>& predicted) const {
  return loss_of(forward(ids, sequences), predicted,
                 {.sequences = sequences,
                  .labels = labels,
                  .smoothing = smoothing,
                  .scale = scale,
                  .sums = sums,
                  .row_nll = std::move(row_nll)});
}

Var Model::loss_of(const Var& rows, const std::vector<int64_t>& predicted, LossArgs args) const {
  const kernels::PartScope part("head");
  return head_->loss(predicted.empty() ? rows : pick_rows(rows, predicted), args);
}

void Model::check_predicts_next(const char* operation) const {
  const Head::LabelCount two = label_count(Sequences::single(2, device()));
  check_usage(
      config_.architecture == "decoder" && two.labels == 2 && two.classes == config_.vocab_size, operation,
      "needs a model that predicts the next token: architecture decoder with head lm; this one is architecture ",
      config_.architecture, " with head ", config_.head.type);
}

DType Model::state_type(const Block& block, std::optional<DType> cache) const {
  return cache && block.mixer->keeps_rows() ? *cache : context_.compute;
}

std::unique_ptr<DecodeState> Model::make_state(int64_t sequences, int64_t capacity, std::optional<DType> cache) const {
  const bool keeps = std::any_of(blocks_.begin(), blocks_.end(), [](const Block& b) { return b.mixer->keeps_rows(); });
  check_usage(!cache || keeps, "model", "a cache of another type (", cache.value_or(DType::f32),
              ") needs a layer that keeps rows of past tokens; no mixer here does");
  std::vector<std::unique_ptr<MixerState>> layers;
  for (const Block& block : blocks_)
    layers.push_back(block.skip_mixer
                         ? nullptr
                         : block.mixer->make_state(sequences, capacity, state_type(block, cache), context_.device));
  auto state = std::make_unique<DecodeState>(std::move(layers), sequences, capacity);
  const NoGrad no_grad;
  const MemoryScope constant(MemoryClass::weights);  // a function of the weights alone
  int64_t reach = capacity;
  if (const int64_t limit = position_limit()) reach = std::min(reach, limit);
  state->reference = reference_rows(reach);
  return state;
}

Sequences Model::continue_sequences(const DecodeState& state, const std::vector<int64_t>& counts) const {
  check(int64_t(counts.size()) == state.sequences(), "model", "the state has ", state.sequences(),
        " sequences, got counts for ", counts.size());
  std::vector<int64_t> offsets{0}, past;
  for (size_t b = 0; b < counts.size(); ++b) {
    offsets.push_back(offsets.back() + counts[b]);
    past.push_back(state.length(int64_t(b)));
  }
  return Sequences(offsets, past, context_.device);
}

int64_t Model::state_bytes(const std::vector<int64_t>& tokens, std::optional<DType> cache) const {
  int64_t total = 0;
  for (const Block& block : blocks_)
    if (!block.skip_mixer) total += block.mixer->state_bytes(tokens, state_type(block, cache));
  return total;
}

void save_weights(const Model& model, const Path& file) {
  std::map<std::string, Tensor> tensors;
  for (const Parameter& p : model.parameters().all()) tensors[p.name] = p.master.value();
  write_safetensors(file, tensors, {{"format", "lithe"}});
}

namespace {

void load(Model& model, const Path& file, bool with_head) {
  const auto wanted = [&](const std::string& name) { return with_head || !name.starts_with("head."); };
  const SafetensorsFile in(file);
  const QuantizedWeights quantized(in, file.string());
  for (const auto& [name, entry] : in.entries())
    check(!wanted(name) || model.parameters().find(name) || model.parameters().find(quantized.parameter_of(name)),
          "load", "'", file.string(), "' has a tensor '", name,
          "' that this model does not; its config.json must be the one the weights were saved with");
  for (Parameter& p : model.parameters().all()) {
    if (!wanted(p.name)) continue;
    if (quantized.has(p.name)) {
      quantized.check_fits(p);
      continue;
    }
    const auto entry = in.entries().find(p.name);
    check(entry != in.entries().end(), "load", "'", file.string(), "' has no tensor '", p.name, "' ", p.master.shape(),
          "; its config.json must be the one the weights were saved with");
    check(entry->second.shape == p.master.shape(), "load", "'", file.string(), "': tensor '", p.name, "' is ",
          entry->second.shape, ", the model needs ", p.master.shape());
  }
  for (Parameter& p : model.parameters().all())  // all fit: nothing is half loaded
    if (!wanted(p.name))
      continue;
    else if (quantized.has(p.name))
      quantized.load(p);
    else
      in.read(p.name, p.master.value());
  model.parameters().refresh_shadows();
}

}  // namespace

void load_weights(Model& model, const Path& file) { load(model, file, true); }
void load_backbone(Model& model, const Path& file) { load(model, file, false); }

void save_config(const ModelConfig& config, const Path& file) {
  ModelConfig copy = config;
  Node node = write_fields([&](Fields& f) { copy.fields(f); });
  Node out = Node::map();
  out.set("model_type", Node::scalar("lithe", {}, true));
  for (const auto& [key, value] : node.entries()) out.set(key, value);
  if (!config.quantization_config.is_null()) out.set("quantization_config", config.quantization_config);
  write_file(file, to_json(out));
}

ModelConfig load_config(const Path& file) {
  Node node = parse_json_node(read_file(file), file.string());
  const Node* type = node.find("model_type");
  check(type && type->text() == "lithe", "load", "'", file.string(), "' is not a lithe config.json (model_type is ",
        type ? type->text() : "missing", ")");
  node.erase("model_type");
  Node quantization;
  if (const Node* found = node.find("quantization_config")) quantization = *found;
  node.erase("quantization_config");
  ModelConfig config = read_model_config(node, "");
  config.quantization_config = quantization;
  config.validate();
  return config;
}

}  // namespace lithe
