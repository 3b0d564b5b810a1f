// Rows through the layers, and the states that they keep.
#include "lithe/autograd/piece.h"
#include "lithe/model/backbone.h"
#include "lithe/nn/sharing.h"
#include "lithe/ops/basic.h"

namespace lithe {

Var Backbone::embed(const Tensor& ids, const Sequences& sequences, const Pass& pass) const {
  const kernels::PartScope part("embedding");
  if (embeds_around_) Pass(pass).give("positions", sequences.positions());  // a handle of the same
  const Var rows = position_->add_to(embedding_->forward(ids, pass), sequences);
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
  if (place.kind == SubLayerConfig::Kind::cross && !state && (source = pass.source()))
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
                           .stage = stage};
    if (place.kind == SubLayerConfig::Kind::mixer && pass.wants(Tap::Kind::map)) {
      const MixerMaps maps = place.part->maps(in);
      if (maps.heads) pass.put(Tap::Kind::map, maps.weights);
      if (maps.logits.defined()) pass.put(Tap::Kind::map_logits, maps.logits);
    }
    const Var y = place.part->forward(in);
    return scale == 1 ? y : lithe::scale(y, scale);
  });
  if (state && place.kind != SubLayerConfig::Kind::cross)
    skip_stages(layer, sub_layer, evaluated, {out, x.sequences}, pass);
  return out;
}

// A sub-layer that is left out for good has no state; another one keeps it right.
void Backbone::skip_place(int64_t layer, int64_t sub_layer, const Rows& x, const Pass& pass) const {
  const Place& place = *layers_[size_t(layer)].places[size_t(sub_layer)];
  if (pass.state() && place.kind != SubLayerConfig::Kind::cross) skip_stages(layer, sub_layer, 0, x, pass);
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

Rows Backbone::run_layer(int64_t index, const Rows& in, const Pass& pass, const std::vector<double>& gains) const {
  const Layer& layer = layers_[size_t(index)];
  const kernels::PartScope part(layer.name);
  Rows x = layer.compressor ? layer.compressor->forward(in, pass) : in;
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
  if (pass.wants(Tap::Kind::rows)) pass.put(Tap::Kind::rows, x.x);
  return x;
}

Rows Backbone::run(int64_t layer, const Rows& x, const Pass& pass, const std::vector<double>& gains) const {
  const Pass within = pass.within(layer);
  if (within.ended()) return x;
  if (!Tape::current() || pass.state()) return run_layer(layer, x, within, gains);
  if (!recompute_) {
    const Piece piece(Piece::Mode::gather);
    return run_layer(layer, x, within, gains);
  }
  // What the first run leaves besides its rows says what the results of both are.
  struct First {
    std::optional<Pass> notes;
    Sequences sequences;
  };
  const auto first = std::make_shared<First>();
  const std::vector<Var> made = recompute(
      [this, layer, sequences = x.sequences, pass, gains, first](const std::vector<Var>& in) {
        const Pass mine = pass.apart(layer);
        const Rows y = run_layer(layer, {in[0], sequences}, mine, gains);
        if (!first->notes) *first = {mine, y.sequences};
        std::vector<Var> out = mine.noted();
        out.insert(out.begin(), y.x);
        return out;
      },
      {x.x});
  pass.take(*first->notes, made, 1);
  return {made[0], first->sequences};
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
  if (!final_norm_) return x;
  const kernels::PartScope part(final_norm_name_);
  return final_norm_->forward(x);
}

Rows Backbone::forward(const Tensor& ids, const Sequences& sequences, const Pass& pass, DecodeState* state,
                       const Rows* source) const {
  const int64_t width = std::max<int64_t>(config_.token_width, 1);
  check(ids.dim(0) == sequences.rows() && ids.numel() == width * sequences.rows(), "model", "tokens of ", width,
        " ints for sequences of ", sequences.rows(), " rows must be [", sequences.rows(),
        width > 1 ? cat(",", width) : "", "], got ", ids.shape());
  if (const int64_t limit = position_->limit())
    for (int64_t b = 0; b < sequences.count(); ++b)
      check(sequences.past(b) + sequences.length(b) <= limit, "model", "a sequence of ",
            sequences.past(b) + sequences.length(b), " tokens is longer than max_position_embeddings ", limit,
            "; shorten it, or train with more positions");
  if (state && Tape::current()) state->check_differentiable();
  pass.set_state(state);
  if (source) pass.set_source(*source);
  const Var x = embed(ids, sequences, pass);
  // A Var of its own gathers the gradients of those who read it, in one order whether layers are recomputed or not.
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
      entry.of_source = place->kind == SubLayerConfig::Kind::cross;
      for (int64_t stage = 0; stage < place->residual->stages() && place->scale != 0 && kept; ++stage)
        entry.stages.push_back(place->part->make_state({sequences, capacity, state_type(*place, cache), device_}));
      if (!place->map_of || place->scale == 0) continue;
      const auto [layer_of, place_of] = *place->map_of;
      const auto& lender = entries[size_t(layer_of)][size_t(place_of)].stages;
      check_usage(!lender.empty(), "model", place->name, " takes the attention map of ",
                  entries[size_t(layer_of)][size_t(place_of)].part, ", which is left out; leave both out");
      if (entry.stages[0]) dynamic_cast<const SharedMap&>(*place->part).borrow_keys(*entry.stages[0], *lender[0]);
    }
  }
  check_usage(!cache || keeps, "model", "a cache of another type (", cache.value_or(DType::f32),
              ") needs a layer that keeps rows of past tokens; no mixer here does");
  auto state = std::make_unique<DecodeState>(std::move(entries), sequences, capacity);
  if (!reference_) return state;
  const NoGrad no_grad;
  const MemoryScope constant(MemoryClass::weights);  // a function of the weights alone
  int64_t reach = capacity;
  if (const int64_t limit = position_limit()) reach = std::min(reach, limit);
  state->references = reference_rows(reach);
  return state;
}

void Backbone::read_source(DecodeState& state, const Rows& source) const {
  const NoGrad no_grad;
  for (size_t i = 0; i < layers_.size(); ++i)
    for (size_t j = 0; j < layers_[i].places.size(); ++j) {
      const Place& place = *layers_[i].places[j];
      if (place.kind != SubLayerConfig::Kind::cross) continue;
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
  return total;
}

}  // namespace lithe
