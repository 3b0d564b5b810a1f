#include "lithe/model/backbone.h"

#include "lithe/ops/basic.h"

namespace lithe {

Backbone::Backbone(const ModelConfig& config, const Scope& scope, const Embedding& embedding)
    : config_(config), compute_(scope.context().compute), device_(scope.context().device), embedding_(&embedding) {
  const Registry& registry = Registry::instance();
  const auto stack_wiring = registry.make<Residual>(config.residual, scope / "residual", {});
  streams_ = stack_wiring->streams();
  check_usage(streams_ != Residual::Streams::split || config.hidden_size % 2 == 0, "model",
              "residual split into two streams needs an even hidden_size, got ", config.hidden_size,
              "; change it, or set streams: duplicate");
  check_usage(streams_ != Residual::Streams::split || config.architecture != "encoder_decoder", "model",
              "a decoder whose streams are split has half of the channels of the rows that its cross-attention reads; "
              "set model.residual: {type: reversible, streams: duplicate} (model.encoder.residual may split)");
  width_ = streams_ == Residual::Streams::split ? config.hidden_size / 2 : config.hidden_size;
  position_ = registry.make<Position>(
      config.position, scope / "position",
      {.hidden_size = config.hidden_size, .max_position_embeddings = config.max_position_embeddings});
  if (config.embedding_norm)
    embedding_norm_ = registry.make<Norm>(config.norm, scope / "embedding_norm", {.hidden_size = config.hidden_size});
  embedding_dropout_ = Dropout(scope / "embedding", config.hidden_dropout);
  for (int64_t i = 0; i < config.num_hidden_layers; ++i)
    blocks_.push_back(make_block((scope / "layers" / std::to_string(i)).in_layer(i), config.mixer_of(i)));
  // The wiring points into the blocks, which stay where they are from here on.
  for (size_t i = 0; i < blocks_.size(); ++i) {
    Block& block = blocks_[i];
    const auto wire = [&](const char* name, const std::unique_ptr<Norm>& norm, const Dropout& dropout) {
      return registry.make<Residual>(config.residual, scope / "layers" / std::to_string(i) / name,
                                     {.norm = norm.get(), .dropout = &dropout});
    };
    block.mixer_residual = wire("mixer_residual", block.mixer_norm, block.mixer_dropout);
    if (block.cross) block.cross_residual = wire("cross_residual", block.cross_norm, block.cross_dropout);
    block.ffn_residual = wire("ffn_residual", block.ffn_norm, block.ffn_dropout);
  }
  final_norm_name_ = (scope / "final_norm").path();
  if (stack_wiring->final_norm())
    final_norm_ = registry.make<Norm>(config.norm, scope / "final_norm", {.hidden_size = config.hidden_size});
  set_up_companions();
}

// spec: arch.decoder | architecture | causal self-attention, cross-attention to the source, FFN | TB Eq 6.7-6.9, 6.45
Backbone::Block Backbone::make_block(const Scope& scope, const PartChoice& mixer) const {
  const Registry& registry = Registry::instance();
  const int64_t d = width_;
  const bool causal = config_.architecture != "encoder";
  Mixer::Args args{.hidden_size = d,
                   .max_position_embeddings = config_.max_position_embeddings,
                   .causal = causal,
                   .position = position_.get()};
  const auto norm = [&](const char* name) {
    return registry.make<Norm>(config_.norm, scope / name, {.hidden_size = d});
  };
  const auto dropout = [&](const char* name) { return Dropout(scope / name, config_.hidden_dropout); };
  Block block;
  block.name = scope.path();
  block.mixer_norm = norm("mixer_norm");
  block.mixer = registry.make<Mixer>(mixer, scope / "mixer", args);
  block.mixer_dropout = dropout("mixer");
  if (config_.architecture == "encoder_decoder") {
    args.causal = false, args.cross = true;
    block.cross_norm = norm("cross_norm");
    block.cross = registry.make<Mixer>(config_.cross_mixer(mixer), scope / "cross", args);
    block.cross_dropout = dropout("cross");
  }
  block.ffn_norm = norm("ffn_norm");
  block.ffn = registry.make<Ffn>(config_.ffn, scope / "ffn", {.hidden_size = d});
  block.ffn_dropout = dropout("ffn");
  return block;
}

// One reference sequence serves all layers that ask for one.
void Backbone::set_up_companions() {
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
  size_t last = blocks_.size() - 1;
  while (blocks_[last].companion != Companion::Kind::reference) --last;
  check_usage(
      last == 0 || !blocks_[0].cross, "model", blocks_[last].name,
      ": the reference sequence that this layer reads has no source for the cross-attention of the layers below; "
      "give the decoder another mixer");
  const MemoryScope memory(MemoryClass::weights);
  reference_start_ = reference_start(config_.max_position_embeddings);
}

int64_t Backbone::position_limit() const {
  int64_t least = position_->limit();
  for (const Block& block : blocks_)
    if (const int64_t limit = block.skip_mixer ? 0 : block.mixer->limit())
      least = least ? std::min(least, limit) : limit;
  return least;
}

constexpr const char* kReference = "reference";  // names its random numbers

Tensor Backbone::reference_start(int64_t rows) const {
  if (!reference_.text) {
    const Tensor noise = empty({rows, config_.hidden_size}, compute_, device_);
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
  const Tensor ids = empty({rows}, DType::i32, device_);
  for (int64_t i = 0; i < rows && !ids.is_meta(); ++i)
    ids.data<int32_t>()[i] = int32_t(given ? reference_.ids[size_t(i)]
                                           : int64_t(random_below(key, uint64_t(i), uint64_t(config_.vocab_size))));
  return ids;
}

// What each layer's mixer reads of the reference sequence's first `count` rows; nothing for layers that do not ask.
std::vector<Var> Backbone::reference_rows(int64_t count) const {
  std::vector<Var> out(blocks_.size());
  if (reference_.kind == Companion::Kind::none) return out;
  const kernels::PartScope part("reference", true);
  size_t last = blocks_.size() - 1;
  while (blocks_[last].companion != Companion::Kind::reference) --last;
  const Tensor start = count <= reference_start_.dim(0) ? reference_start_.slice(0, count) : reference_start(count);
  const Sequences sequences = Sequences::single(count, device_);
  Streams x = begin(reference_.text ? embed(start, sequences) : Var(start));
  const Var embedded = read_of(x);
  for (size_t i = 0;; ++i) {
    const Block& block = blocks_[i];
    if (block.companion == Companion::Kind::reference) out[i] = block.mixer_residual->input(read_of(x));
    if (i == last) return out;
    x = run_block(block, x, {{}, sequences, nullptr, companion_of(block, embedded, {})}, nullptr);
  }
}

Var Backbone::companion_of(const Block& block, const Var& embedded, const Var& reference) const {
  if (block.companion == Companion::Kind::embedding) {
    const Var rows = block.mixer_residual->input(embedded);
    return reshape(rows, rows.shape());  // a Var of its own also where the input is the embedding itself
  }
  return block.companion == Companion::Kind::reference ? reference : Var();
}

std::vector<MixerMaps> Backbone::maps(const Tensor& ids, const Memory* memory) const {
  const NoGrad no_grad;
  const Sequences sequences = Sequences::single(ids.dim(0), device_);
  Streams x = begin(embed(ids, sequences));
  const Var embedded = read_of(x);
  const std::vector<Var> reference = reference_rows(ids.dim(0));
  std::vector<MixerMaps> out;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const Block& block = blocks_[i];
    const Var companion = companion_of(block, embedded, reference[i]);
    out.push_back(block.skip_mixer
                      ? MixerMaps{}
                      : block.mixer->maps({block.mixer_residual->input(read_of(x)), sequences, nullptr, companion}));
    x = run_block(block, x, {{}, sequences, nullptr, companion, memory}, nullptr);
  }
  return out;
}

// spec: decon.config_skip | pattern | a trained model without some layers, or without their mixers | TH 4.4.2, 4.5
void Backbone::skip(const std::vector<int64_t>& layers, bool mixers_only) {
  for (int64_t i : layers) {
    check(i >= 0 && i < int64_t(blocks_.size()), "skip", "there is no layer ", i, " among ", blocks_.size());
    blocks_[size_t(i)].skip_mixer = true;
    blocks_[size_t(i)].skip_ffn = !mixers_only;
  }
}

Var Backbone::embed(const Tensor& ids, const Sequences& sequences) const {
  const kernels::PartScope part("embedding");
  const Var rows = position_->add_to(embedding_->forward(ids), sequences);
  return embedding_dropout_(embedding_norm_ ? embedding_norm_->forward(rows) : rows);
}

// The rows of [N, 2W] as [2N, W] and back: first the left halves, then the right ones.
static std::vector<int64_t> halves_first(int64_t rows) {
  std::vector<int64_t> from;
  for (int64_t half : {0, 1})
    for (int64_t n = 0; n < rows; ++n) from.push_back(2 * n + half);
  return from;
}
static std::vector<int64_t> halves_beside(int64_t rows) {
  std::vector<int64_t> from;
  for (int64_t n = 0; n < rows; ++n) from.insert(from.end(), {n, rows + n});
  return from;
}

Streams Backbone::begin(const Var& rows) const {
  if (streams_ == Residual::Streams::one) return {{}, rows};
  const Var wide = cast(rows, compute_ == DType::bf16 ? DType::f32 : compute_);
  if (streams_ == Residual::Streams::duplicate) return {wide, wide};
  const int64_t n = rows.rows();
  const Var halves = pick_rows(reshape(wide, {2 * n, width_}), halves_first(n));
  return {slice_rows(halves, 0, n), slice_rows(halves, n, 2 * n)};
}

Var Backbone::read_of(const Streams& x) const { return cast(x.read, compute_); }

Var Backbone::end(const Streams& x) const {
  if (streams_ == Residual::Streams::one) return x.read;
  if (streams_ == Residual::Streams::duplicate) return cast(add(x.other, x.read, 0.5, 0.5), compute_);
  const int64_t n = x.read.rows();
  return cast(reshape(pick_rows(concatenate_rows({x.other, x.read}), halves_beside(n)), {n, 2 * width_}), compute_);
}

Var Backbone::run_sub_layer(const Block& block, Sub sub, const Var& x, const MixerInput& in, MixerState* cross) const {
  switch (sub) {
    case Sub::mixer:
      return block.mixer_residual->forward(x, [&](const Var& rows) {
        const kernels::PartScope part(block.name + ".mixer");
        return block.mixer->forward({rows, in.sequences, in.state, in.companion});
      });
    case Sub::cross:
      return block.cross_residual->forward(x, [&](const Var& rows) {
        const kernels::PartScope part(block.name + ".cross");
        return block.cross->forward({rows, in.sequences, cross, {}, in.memory});
      });
    case Sub::ffn: break;
  }
  return block.ffn_residual->forward(x, [&](const Var& rows) {
    const kernels::PartScope part(block.name + ".ffn");
    return block.ffn->forward(rows);
  });
}

Streams Backbone::run_block(const Block& block, Streams x, const MixerInput& in, MixerState* cross) const {
  for (const Sub sub : block.subs())
    if (streams_ != Residual::Streams::one)
      x = {x.read, block.skips(sub) ? x.other : add(x.other, run_sub_layer(block, sub, read_of(x), in, cross))};
    else if (!block.skips(sub))
      x.read = run_sub_layer(block, sub, x.read, in, cross);
  return x;
}

// All layers as one chain, which keeps its end alone.
Streams Backbone::run_reversible(Streams x, const Sequences& sequences, const Var& embedded,
                                 const std::vector<Var>& reference, const Memory* memory) const {
  std::vector<Var> inputs{embedded, memory ? memory->rows : Var()};
  inputs.insert(inputs.end(), reference.begin(), reference.end());
  std::vector<ReversibleStep> steps;
  for (size_t i = 0; i < blocks_.size(); ++i)
    for (const Sub sub : blocks_[i].subs()) {
      steps.emplace_back();
      if (blocks_[i].skips(sub)) continue;
      steps.back() = [this, i, sub, sequences, keys = memory ? memory->sequences : Sequences()](
                         const Var& rows, const std::vector<Var>& in) {
        const Block& block = blocks_[i];
        const kernels::PartScope part(block.name);
        const Var companion = sub == Sub::mixer ? companion_of(block, in[0], in[2 + i]) : Var();
        const Memory source{in[1], keys};
        return run_sub_layer(block, sub, cast(rows, compute_), {{}, sequences, nullptr, companion, &source}, nullptr);
      };
    }
  return reversible(steps, std::move(x), inputs);
}

Var Backbone::forward(const Tensor& ids, const Sequences& sequences, DecodeState* state, const Memory* memory) const {
  const int64_t width = std::max<int64_t>(config_.token_width, 1);
  check(ids.dim(0) == sequences.rows() && ids.numel() == width * sequences.rows(), "model", "tokens of ", width,
        " ints for sequences of ", sequences.rows(), " rows must be [", sequences.rows(),
        width > 1 ? cat(",", width) : "", "], got ", ids.shape());
  if (const int64_t limit = position_->limit())
    for (int64_t b = 0; b < sequences.count(); ++b)
      check(sequences.past(b) + sequences.length(b) <= limit, "model", "a sequence of ",
            sequences.past(b) + sequences.length(b), " tokens is longer than max_position_embeddings ", limit,
            "; shorten it, or train with more positions");
  Streams x = begin(embed(ids, sequences));
  // A Var of its own gathers the companions' gradients, in one order whether layers are recomputed or not.
  const Var embedded = wants_embedding_ ? reshape(read_of(x), x.read.shape()) : Var();
  int64_t longest = 0;
  for (int64_t b = 0; b < sequences.count(); ++b) longest = std::max(longest, sequences.length(b));
  const std::vector<Var> reference = state ? state->reference : reference_rows(longest);
  const bool keeps = Tape::current() && !state, undone = keeps && streams_ != Residual::Streams::one;
  if (undone) x = run_reversible(std::move(x), sequences, embedded, reference, memory);
  for (size_t i = 0; !undone && i < blocks_.size(); ++i) {
    const Block& block = blocks_[i];
    const kernels::PartScope part(block.name);
    MixerState* layer = state ? state->layer(int64_t(i)) : nullptr;
    const Var companion = companion_of(block, embedded, reference[i]);
    // As above: the layer's own Var gathers its gradients of the source's rows.
    const Memory source = memory ? Memory{reshape(memory->rows, memory->rows.shape()), memory->sequences} : Memory{};
    if (recompute_ && keeps)
      x.read = recompute(
          [this, &block, sequences, keys = source.sequences](const std::vector<Var>& in) {
            const Memory again{in[2], keys};
            return run_block(block, {{}, in[0]}, {{}, sequences, nullptr, in[1], &again}, nullptr).read;
          },
          {x.read, companion, source.rows});
    else
      x = run_block(block, x, {{}, sequences, layer, companion, memory ? &source : nullptr},
                    state ? state->cross(int64_t(i)) : nullptr);
  }
  if (state) state->advance(sequences);
  const Var rows = end(x);
  if (!final_norm_) return rows;
  const kernels::PartScope part(final_norm_name_);
  return final_norm_->forward(rows);
}

DType Backbone::state_type(const Mixer& mixer, std::optional<DType> cache) const {
  return cache && mixer.keeps_rows() ? *cache : compute_;
}

std::unique_ptr<DecodeState> Backbone::make_state(int64_t sequences, int64_t capacity,
                                                  std::optional<DType> cache) const {
  const bool keeps = std::any_of(blocks_.begin(), blocks_.end(), [](const Block& b) { return b.mixer->keeps_rows(); });
  check_usage(!cache || keeps, "model", "a cache of another type (", cache.value_or(DType::f32),
              ") needs a layer that keeps rows of past tokens; no mixer here does");
  DecodeState::States layers, cross;
  for (const Block& block : blocks_) {
    const auto state_of = [&](const Mixer& mixer) {
      return block.skip_mixer ? nullptr : mixer.make_state(sequences, capacity, state_type(mixer, cache), device_);
    };
    layers.push_back(state_of(*block.mixer));
    if (block.cross) cross.push_back(state_of(*block.cross));
  }
  auto state = std::make_unique<DecodeState>(std::move(layers), std::move(cross), sequences, capacity);
  const NoGrad no_grad;
  const MemoryScope constant(MemoryClass::weights);  // a function of the weights alone
  int64_t reach = capacity;
  if (const int64_t limit = position_limit()) reach = std::min(reach, limit);
  state->reference = reference_rows(reach);
  return state;
}

void Backbone::read_memory(DecodeState& state, const Memory& memory) const {
  const NoGrad no_grad;
  for (size_t i = 0; i < blocks_.size(); ++i)
    if (MixerState* cross = state.cross(int64_t(i))) {
      const kernels::PartScope part(blocks_[i].name + ".cross");
      blocks_[i].cross->read_memory(*cross, memory);
    }
}

int64_t Backbone::state_bytes(const std::vector<int64_t>& tokens, const std::vector<int64_t>& memory_tokens,
                              std::optional<DType> cache) const {
  int64_t total = 0;
  for (const Block& block : blocks_)
    if (!block.skip_mixer)
      total += block.mixer->state_bytes(tokens, state_type(*block.mixer, cache)) +
               (block.cross ? block.cross->state_bytes(memory_tokens, compute_) : 0);
  return total;
}

}  // namespace lithe
