// Rows through the layers, and the states that they keep.
#include <algorithm>
#include <numeric>

#include "lithe/autograd/piece.h"
#include "lithe/model/backbone.h"
#include "lithe/model/layer_watch.h"
#include "lithe/model/layer_weights.h"
#include "lithe/nn/recalling_embedding.h"
#include "lithe/nn/sharing.h"
#include "lithe/ops/basic.h"
#include "lithe/parallel/operations.h"

namespace lithe {

// spec: app.mm_encoder_cls | architecture | text and patches of pictures in one encoder | TB 6.5.5, Fig 6.20a
// Tokens of other kinds take the places of those in their rows: of those that position_ places, or of the others.
Var Backbone::with_guests(const Var& rows, const ModelInput& input, const Pass& pass, bool placed) const {
  if (std::ranges::none_of(input.modalities, [&](const auto& of) { return is_placed(of.first) == placed; }))
    return rows;
  std::vector<Var> parts{rows};
  std::vector<int64_t> from(static_cast<size_t>(rows.rows()));
  std::iota(from.begin(), from.end(), int64_t(0));
  int64_t made = rows.rows();
  for (const auto& [name, guests] : input.modalities) {
    if (is_placed(name) != placed) continue;
    parts.push_back(modalities_.at(name)->forward(guests.tokens, pass));
    for (const int64_t row : guests.rows) from[size_t(row)] = made++;
  }
  return pick_rows(concatenate_rows(parts), from);
}

// The sequences in which rows that have places of their own do not count.
Sequences Backbone::counted_places(const ModelInput& input) const {
  const Sequences& sequences = input.sequences;
  std::vector<bool> apart(size_t(sequences.rows()), false);
  bool any = false;
  for (const auto& [name, guests] : input.modalities)
    if (is_placed(name))
      for (const int64_t row : guests.rows) any = apart[size_t(row)] = true;
  if (!any) return sequences;
  const Tensor positions = empty_like(sequences.positions());
  if (!positions.is_meta())
    for (int64_t b = 0; b < sequences.count(); ++b) {
      int32_t next = 0;
      for (int64_t row = sequences.offset(b); row < sequences.offset(b + 1); ++row)
        positions.data<int32_t>()[row] = apart[size_t(row)] ? 0 : next++;
    }
  return sequences.at(positions);
}

Var Backbone::embed(const ModelInput& input, const Pass& pass) const {
  const kernels::PartScope part("embedding");
  const Sequences& sequences = input.sequences;
  if (embeds_around_) Pass(pass).give("positions", sequences.positions());  // a handle of the same
  const auto* recalling = embedding_->recalling();
  State* const before = recalling && pass.state() ? pass.state()->of(count(), 0, 0) : nullptr;
  const Var tokens =
      recalling ? recalling->read(input.tokens, sequences, before) : embedding_->forward(input.tokens, pass);
  const Var text = with_guests(tokens, input, pass, false);
  const Var rows = with_guests(position_->add_to(text, counted_places(input)), input, pass, true);
  return embedding_dropout_(embedding_norm_ ? embedding_norm_->forward(rows) : rows);
}

// The source as a cross-attention reads it.
Rows Backbone::source_of(const Place& place, Rows source) {
  if (source.embedded.defined() && place.part->reads_embedding())
    source.embedded = place.residual->input(source.embedded);
  return source;
}

// wire(residual, f) is the residual's forward() or change().
template <class Wire>
Var Backbone::run_place(int64_t layer, int64_t sub_layer, double gain, const Rows& x, const Pass& pass,
                        Wire wire) const {
  const Place& place = *layers_[size_t(layer)].places[size_t(sub_layer)];
  const double scale = place.scale * gain;
  const DecodeState* state = pass.state();
  std::optional<Rows> source;
  if (!place.source.empty() && !state && (source = pass.source(place.source)))
    source = source_of(place, std::move(*source));
  int64_t evaluated = 0;
  const Var out = wire(*place.residual, [&](const Var& rows, int64_t stage) {
    const kernels::PartScope part(place.name);
    evaluated = stage + 1;
    const SubLayerInput in{.x = rows,
                           .sequences = x.sequences,
                           .state = state ? state->of(layer, sub_layer, stage) : nullptr,
                           .pass = pass,
                           .source = source ? &*source : nullptr,
                           .wired = [&place](const Var& other) { return place.residual->input(other); },
                           .stage = stage,
                           .log_presence = x.log_presence};
    if (place.kind == SubLayerConfig::Kind::mixer && pass.wants(Tap::Kind::map) && !training()) {
      const MixerMaps maps = place.part->maps(in);
      if (maps.heads) pass.put(Tap::Kind::map, maps.weights);
      if (maps.logits.defined()) pass.put(Tap::Kind::map_logits, maps.logits);
    }
    const Var y = place.part->forward(in);
    return scale == 1 ? y : lithe::scale(y, scale);
  });
  if (state && place.keeps_target) skip_stages(layer, sub_layer, evaluated, {out, x.sequences}, pass);
  return out;
}

// A sub-layer that is left out for good has no state; another one keeps it right.
void Backbone::skip_place(int64_t layer, int64_t sub_layer, const Rows& x, const Pass& pass) const {
  const Place& place = *layers_[size_t(layer)].places[size_t(sub_layer)];
  if (pass.state() && place.keeps_target) skip_stages(layer, sub_layer, 0, x, pass);
}

// Brings the states of the stages from `first` on forward over rows that they are not evaluated for.
void Backbone::skip_stages(int64_t layer, int64_t sub_layer, int64_t first, const Rows& x, const Pass& pass) const {
  const Place& place = *layers_[size_t(layer)].places[size_t(sub_layer)];
  for (int64_t stage = first; stage < place.residual->stages(); ++stage)
    if (State* state = pass.state()->of(layer, sub_layer, stage)) {
      const kernels::PartScope part(place.name);
      place.part->skip({.x = place.residual->input(x.x),
                        .sequences = x.sequences,
                        .state = state,
                        .pass = pass,
                        .wired = [&place](const Var& other) { return place.residual->input(other); },
                        .stage = stage});
    }
}

// Tap::Kind::row_of, from the last compressor to the first.
static Tensor rows_of_tokens(const Rows& x) {
  std::vector<int64_t> of(size_t(x.x.rows()));
  std::iota(of.begin(), of.end(), 0);
  for (const Shortening* s = x.shortened.get(); s; s = s->before.shortened.get()) {
    std::vector<int64_t> before;
    for (const int64_t row : s->row_of) before.push_back(row < 0 ? -1 : of[size_t(row)]);
    of = std::move(before);
  }
  const Tensor out = empty({int64_t(of.size()), 1}, DType::i32, Device::cpu);
  std::copy(of.begin(), of.end(), out.data<int32_t>());
  return out;
}

Rows Backbone::run_layer(int64_t index, const Rows& in, const Pass& pass, const std::vector<double>& gains) const {
  const Layer& layer = layers_[size_t(index)];
  const kernels::PartScope part(layer.name);
  if (LayerWeights* const weights = LayerWeights::current()) weights->need(index);  // again, backwards
  Rows x = in;
  x.log_presence = from_outside(in.log_presence);
  if (layer.compressor) {
    Compressor::Shorter shorter = layer.compressor->forward(x, pass);
    x = std::move(shorter.rows);
    x.shortened = std::make_shared<Shortening>(Shortening{in, std::move(shorter.row_of)});
  } else if (layer.expander) {
    check_usage(in.shortened != nullptr, "model", layer.name, ": stack ", config_.stack.type,
                " does not hand on the rows that stood before the compressor, which the expander gives back; set "
                "model.stack: plain");
    const int64_t most = layer.expander->undoes();
    for (int64_t undone = 0; x.shortened && (most == 0 || undone < most); ++undone) {
      Shortening from = *x.shortened;
      from.before.x = from_outside(from.before.x);
      x = {layer.expander->forward(x, from, pass),
           from.before.sequences,
           in.embedded,
           from.before.shortened,
           nullptr,
           from.before.log_presence};
    }
  }
  for (size_t i = 0; i < layer.places.size(); ++i) {
    const Place& place = *layer.places[i];
    if (pass.wants(Tap::Kind::input) && (place.kind == SubLayerConfig::Kind::mixer || place.part->reference()))
      pass.put(Tap::Kind::input, place.residual->input(x.x));
    if (pass.ended()) return x;
    const double gain = gains.empty() ? 1 : gains[i];
    if (place.scale * gain == 0)
      skip_place(index, int64_t(i), x, pass);
    else
      x.x = run_place(index, int64_t(i), gain, x, pass,
                      [&](const Residual& residual, auto&& f) { return residual.forward(x.x, f); });
  }
  if (pass.wants(Tap::Kind::row_of) && x.shortened) pass.put(Tap::Kind::row_of, rows_of_tokens(x));
  if (pass.wants(Tap::Kind::rows)) pass.put(Tap::Kind::rows, x.x);
  return x;
}

// Rows come from the stage before and go to the next one; what is left of them here is what waits for their gradient.
Rows Backbone::run(int64_t layer, const Rows& x, const Pass& pass, const std::vector<double>& gains) const {
  if (!division_) {
    const LayerWeights::Hold weights(layer);
    LayerWatch::begins(layer);
    return run_here(layer, x, pass, gains);
  }
  if (layer < stage_.first || layer >= stage_.second) return x;
  const Group& stages = division_->layout().pipeline();
  Rows in = x;
  if (layer == stage_.first && stage_.first > 0)
    in.x = receive_rows(x.x.shape(), x.x.dtype(), device_, stages, stages.rank - 1);
  Rows out = run_here(layer, in, pass, gains);
  if (layer + 1 == stage_.second && stage_.second < count()) out.x = send_rows(out.x, stages, stages.rank + 1);
  return out;
}

Rows Backbone::run_here(int64_t layer, const Rows& x, const Pass& pass, const std::vector<double>& gains) const {
  const Pass within = pass.within(layer);
  if (within.ended()) return x;
  // Layers above read what stood before a compressor by the rows that entered this one, not by those inside.
  const auto outside = [&](Rows y) {
    if (layers_[size_t(layer)].compressor && y.shortened)
      y.shortened = std::make_shared<Shortening>(Shortening{x, y.shortened->row_of});
    return y;
  };
  if (!Tape::current() || pass.state()) return run_layer(layer, x, within, gains);
  if (!recompute_) {
    const Piece piece(Piece::Mode::gather);
    return outside(run_layer(layer, x, within, gains));
  }
  // What the first run leaves besides its rows says what the results of both are.
  struct First {
    std::optional<Pass> notes;
    Rows rows = {};  // without numbers
    bool weakens = false;
  };
  const bool expands = bool(layers_[size_t(layer)].expander);
  const auto first = std::make_shared<First>();
  const std::vector<Var> made = recompute(
      [this, layer, x, pass, gains, first, expands](const std::vector<Var>& in) {
        const Pass mine = pass.apart(layer);
        const Rows y = run_layer(layer, {in[0], x.sequences, {}, x.shortened, nullptr, x.log_presence}, mine, gains);
        const bool weakens = layers_[size_t(layer)].compressor && y.log_presence.defined();
        if (!first->notes)
          *first = {
              mine, {{}, y.sequences, {}, y.shortened, nullptr, expands ? y.log_presence : x.log_presence}, weakens};
        std::vector<Var> out = mine.noted();
        if (weakens) out.insert(out.begin(), y.log_presence);
        out.insert(out.begin(), y.x);
        return out;
      },
      {x.x});
  pass.take(*first->notes, made, first->weakens ? 2 : 1);
  first->rows.x = made[0];
  if (first->weakens) first->rows.log_presence = made[1];
  return outside(std::exchange(first->rows, {}));
}

void Backbone::skip(int64_t layer, const Rows& x, const Pass& pass) const {
  for (int64_t i = 0; i < sub_layers(layer); ++i) skip_place(layer, i, x, pass.within(layer));
}

Var Backbone::change(int64_t layer, int64_t sub_layer, const Rows& x, const Pass& pass) const {
  const kernels::PartScope part(layers_[size_t(layer)].name);
  const Place& place = *layers_[size_t(layer)].places[size_t(sub_layer)];
  if (!pass.ended() && place.part->reference() && pass.wants(Tap::Kind::input))
    pass.put(Tap::Kind::input, place.residual->input(x.x));
  if (pass.ended()) return {};
  if (place.scale == 0) {
    skip_place(layer, sub_layer, x, pass);
    return {};
  }
  return run_place(layer, sub_layer, 1, x, pass,
                   [&](const Residual& residual, auto&& f) { return residual.change(x.x, f); });
}

Var Backbone::predict(int64_t exit, const Rows& x) const {
  check(bool(predict_), "model", "the rows of exit ", exit, " have no head here; only a model's own stack has exits");
  return predict_(exit, {end_rows(x.x), x.sequences});
}

Var Backbone::end_rows(const Var& x) const {
  if (!final_norm_ || stage_.second < count()) return x;
  const kernels::PartScope part(final_norm_name_);
  return final_norm_->forward(x);
}

namespace {

// Where each sequence begins, and the number of rows: i32 [B + 1].
Tensor first_rows(const Sequences& sequences, Device device) {
  const Tensor out = empty({sequences.count() + 1}, DType::i32, device);
  for (int64_t b = 0; b <= sequences.count() && !out.is_meta(); ++b)
    out.data<int32_t>()[b] = int32_t(sequences.offset(b));
  return out;
}

void check_tokens(const Tensor& tokens, int64_t rows, int64_t width, const std::string& what) {
  check(tokens.defined() && tokens.dim(0) == rows && tokens.numel() == width * rows, "model", what, " of ", width,
        " ints for sequences of ", rows, " rows must be [", rows, width > 1 ? cat(",", width) : "", "], got ",
        tokens.defined() ? tokens.shape() : Shape{});
}

}  // namespace

namespace {

// What each row is: 0 text, else the number of its modality by name, from 1. i32 [N].
Tensor kinds_of(const ModelInput& input) {
  const Tensor out = zeros({input.sequences.rows()}, DType::i32, input.tokens.device());
  int32_t kind = 0;
  for (const auto& [name, guests] : input.modalities) {
    ++kind;
    for (const int64_t row : guests.rows)
      if (!out.is_meta()) out.data<int32_t>()[row] = kind;
  }
  return out;
}

}  // namespace

void Backbone::check_input(const ModelInput& input) const {
  const Sequences& sequences = input.sequences;
  check_tokens(input.tokens, sequences.rows(), std::max<int64_t>(config_.token_width, 1), "tokens");
  for (const auto& [name, part] : columns_)
    check_usage(name == kTokenColumn || input.columns.count(name), "model", part, " reads the column '", name,
                "' of the input, which has none of this name; give it one number a token");
  for (const auto& [name, column] : input.columns)
    check(column.defined() && column.dim(0) == sequences.rows(), "model", "column '", name, "' must have ",
          sequences.rows(), " rows, one a token, got ", column.defined() ? column.shape() : Shape{});
  for (const auto& [name, guests] : input.modalities) {
    const auto found = modalities_.find(name);
    check_usage(found != modalities_.end(), "model", "the input has tokens of the modality '", name,
                "', which model.modalities does not define");
    check_tokens(guests.tokens, int64_t(guests.rows.size()), found->second->width(), name + " tokens");
    int64_t before = -1;
    for (const int64_t row : guests.rows) {
      check(row > before && row < sequences.rows(), "model", "the rows of '", name, "' must increase below ",
            sequences.rows(), ", the number of tokens, got ", row, " after ", before);
      before = row;
    }
  }
  std::vector<int64_t> counted(size_t(sequences.count()));
  for (int64_t b = 0; b < sequences.count(); ++b) counted[size_t(b)] = sequences.past(b) + sequences.length(b);
  for (const auto& [name, guests] : input.modalities)
    if (is_placed(name))
      for (int64_t b = 0; const int64_t row : guests.rows) {
        while (row >= sequences.offset(b + 1)) ++b;
        --counted[size_t(b)];
      }
  if (const int64_t limit = position_->limit())
    for (const int64_t rows : counted)
      check(rows <= limit, "model", "a sequence of ", rows, " tokens is longer than max_position_embeddings ", limit,
            "; shorten it, or train with more positions");
}

Rows Backbone::forward(const ModelInput& input, const Pass& pass, DecodeState* state) const {
  const Sequences& sequences = input.sequences;
  check_input(input);
  if (state && Tape::current()) state->check_differentiable();
  pass.set_state(state);
  for (const auto& [name, column] : input.columns) Pass(pass).give(name, column);  // a handle of the same
  for (const auto& [name, part] : columns_)
    if (name == kTokenColumn) Pass(pass).give(name, input.tokens);
  if (!input.modalities.empty()) Pass(pass).give("modality", kinds_of(input));
  if (input.columns.count("transcript")) Pass(pass).give("first rows", first_rows(sequences, input.tokens.device()));
  for (const int64_t layer : reads_below_)
    for (const Tap::Kind kind : layers_[size_t(layer)].compressor->reads_below()) Pass(pass).want({kind, layer - 1});
  const Var x =
      stage_.first > 0 ? Var(empty({sequences.rows(), config_.hidden_size}, compute_, device_)) : embed(input, pass);
  // A Var of its own gathers the gradients of those who read it, in one order whether layers are recomputed or not.
  if (pass.wants(Tap::Kind::rows)) pass.put(Tap::Kind::rows, x);  // of layer -1: what enters the first
  if (reads_embedding_ || gives_embedding_) pass.set_embedded(reshape(x, x.shape()));
  if (reference_) {
    int64_t longest = 0;
    for (int64_t b = 0; b < sequences.count(); ++b) longest = std::max(longest, sequences.length(b));
    if (sees_ahead(config_.architecture)) {  // rows see all of the reference, whatever the batch
      check_usage(longest <= reference_start_.dim(0), "model", "a sequence of ", longest,
                  " tokens is longer than the reference sequence of ", reference_start_.dim(0),
                  "; raise max_position_embeddings");
      longest = reference_start_.dim(0);
    }
    pass.set_references(state ? state->references : reference_rows(longest));
  }
  Rows rows = stack_->forward(*this, {x, sequences}, pass);
  if (state) state->advance(sequences);
  rows.x = end_rows(rows.x);
  if (gives_embedding_) rows.embedded = pass.embedded();
  return rows;
}

DType Backbone::state_type(const Place& place, std::optional<DType> cache) const {
  return cache && place.part->keeps_rows() ? *cache : compute_;
}

std::unique_ptr<DecodeState> Backbone::make_state(int64_t sequences, int64_t capacity, std::optional<DType> cache,
                                                  int64_t layers) const {
  bool keeps = false;
  DecodeState::Entries entries;
  for (const Layer& layer : layers_) {
    const bool kept = int64_t(entries.size()) < layers;
    entries.emplace_back();
    for (const auto& place : layer.places) {
      keeps = keeps || place->part->keeps_rows();
      DecodeState::Entry& entry = entries.back().emplace_back();
      entry.part = place->name;
      entry.source = place->source;
      entry.keeps_target = place->keeps_target;
      for (int64_t stage = 0; stage < place->residual->stages() && place->scale != 0 && kept; ++stage)
        entry.stages.push_back(place->part->make_state({sequences, capacity, state_type(*place, cache), device_}));
      if (!place->map_of || place->scale == 0) continue;
      const auto [layer_of, place_of] = *place->map_of;
      const auto& lender = entries[size_t(layer_of)][size_t(place_of)].stages;
      check_usage(!lender.empty(), "model", place->name, " takes the attention map of ",
                  entries[size_t(layer_of)][size_t(place_of)].part, ", which is left out; leave both out");
      if (entry.stages[0]) place->part->shared_map()->borrow_keys(*entry.stages[0], *lender[0]);
    }
  }
  check_usage(!cache || keeps, "model", "a cache of another type (", cache_type_name(cache.value_or(DType::f32)),
              ") needs a layer that keeps rows of past tokens; no mixer here does");
  if (const auto* recalling = embedding_->recalling()) {  // behind the layers
    DecodeState::Entry& entry = entries.emplace_back().emplace_back();
    entry.part = "embedding";
    entry.stages.push_back(recalling->make_state({sequences, capacity, compute_, device_}));
  }
  auto state = std::make_unique<DecodeState>(std::move(entries), sequences, capacity);
  if (!reference_) return state;
  const NoGrad no_grad;
  const MemoryScope constant(MemoryClass::weights);  // a function of the weights alone
  int64_t reach = capacity;
  if (const int64_t limit = position_limit()) reach = std::min(reach, limit);
  state->references = reference_rows(reach);
  return state;
}

void Backbone::read_source(DecodeState& state, const std::string& name, const Rows& source) const {
  const NoGrad no_grad;
  for (size_t i = 0; i < layers_.size(); ++i)
    for (size_t j = 0; j < layers_[i].places.size(); ++j) {
      const Place& place = *layers_[i].places[j];
      if (place.source != name) continue;
      const kernels::PartScope part(place.name);
      const Rows rows = source_of(place, source);
      for (const auto& stage : state.entries()[i][j].stages) place.part->read_source(*stage, rows);
    }
}

int64_t Backbone::state_bytes(const std::vector<int64_t>& tokens, const std::vector<int64_t>& source_tokens,
                              std::optional<DType> cache) const {
  int64_t total = 0;
  for (const Layer& layer : layers_)
    for (const auto& place : layer.places)
      if (place->scale != 0)
        total += place->residual->stages() *
                 place->part->state_bytes(place->kind == SubLayerConfig::Kind::cross ? source_tokens : tokens,
                                          state_type(*place, cache));
  if (const auto* recalling = embedding_->recalling()) total += recalling->state_bytes(int64_t(tokens.size()));
  return total;
}

}  // namespace lithe
