#include "lithe/model/backbone.h"

#include <algorithm>

#include "lithe/nn/placed_embedding.h"
#include "lithe/nn/recalling_embedding.h"
#include "lithe/nn/sharing.h"

namespace lithe {

Backbone::Backbone(const ModelConfig& config, const Scope& scope, const Embedding& embedding)
    : config_(config),
      compute_(scope.context().compute),
      device_(scope.context().device),
      embedding_(&embedding),
      division_(Division::making()) {
  const Registry& registry = Registry::instance();
  std::vector<LayerConfig> layers;
  const int64_t count = config.num_hidden_layers;
  for (int64_t i = 0; i < count; ++i) layers.push_back(config.layer(i));
  stage_ = division_ ? division_->stage_of(count) : std::pair(int64_t(0), count);
  Division* const division = Division::making();
  const auto begins = [&](const Scope& at) { return stage_.first > 0 ? division->elsewhere(at) : at; };
  const auto ends = [&](const Scope& at) { return stage_.second < count ? division->elsewhere(at) : at; };
  position_args_ = position_args(config, layers);
  if (stage_.first > 0)
    position_ = registry.make<Position>(config.position, begins(scope / "position"), position_args_);
  if (!position_ || !position_->adds())
    position_ = registry.make<Position>(config.position, scope / "position", position_args_);
  if (config.embedding_norm)
    embedding_norm_ =
        registry.make<Norm>(config.norm, begins(scope / "embedding_norm"), {.hidden_size = config.hidden_size});
  embedding_dropout_ = Dropout(scope / "embedding", config.hidden_dropout);
  stack_ = registry.make<Stack>(
      config.stack, scope / "stack",
      {.hidden_size = config.hidden_size, .num_hidden_layers = config.num_hidden_layers, .compute = compute_});
  check_usage(sees_ahead(config.architecture) || registry.get(Stack::slot, config.stack.type, {}).info.causal, "model",
              "stack ", config.stack.type, " needs rows that see their whole sequence, which architecture ",
              config.architecture, " does not have; use it in an encoder, or set model.stack: plain");
  embeds_around_ = !registry.get(Embedding::slot, config.embedding.type, {}).info.causal;
  check_usage(sees_ahead(config.architecture) || !embeds_around_, "model", "embedding ", config.embedding.type,
              " reads the tokens around each one, which architecture ", config.architecture,
              " does not know while it generates; use it in an encoder, or set model.embedding: lookup");
  check_usage(!reads_source(config.architecture) || stack_->layer_width(config.hidden_size) == config.hidden_size,
              "model", "stack ", config.stack.type, " gives the decoder's layers ",
              stack_->layer_width(config.hidden_size), " channels, the rows that its cross-attention reads have ",
              config.hidden_size, "; set model.stack: {type: reversible, streams: duplicate} or plain ",
              "(model.encoder.stack may differ)");
  check_alike(layers);
  for (const auto& [name, part] : config.modalities.entries()) {
    modalities_[name] = registry.make<Embedding>(
        read_part(part, name, Embedding::slot, "model.modalities", config.embedding), scope / "modalities" / name,
        {.vocab_size = config.vocab_size, .hidden_size = config.hidden_size, .token_width = 0});
    const auto* placed = modalities_[name]->placed();
    if (placed && placed->places() && sees_ahead(config.architecture)) placed_.insert(name);
  }
  const auto scope_of = [&](int64_t layer, int64_t at) {
    return (scope / "layers" / std::to_string(at)).in_layer(layer);
  };
  for (int64_t i = 0; i < count; ++i)
    layers_.push_back(i < stage_.first || i >= stage_.second
                          ? Layer{.name = scope_of(i, i).path()}
                          : make_layer(scope_of(i, i), scope_of(i, config.share.owner(i, count)), layers[size_t(i)]));
  tie_maps();
  check_lengths();
  check_compressors();
  final_norm_name_ = (scope / "final_norm").path();
  Parameters unused;  // of a residual that is only asked
  BuildContext aside = scope.context();
  aside.parameters = &unused;
  if (registry.make<Residual>(config.residual, Scope(aside, "residual"), {.hidden_size = config.hidden_size})
          ->final_norm())
    final_norm_ = registry.make<Norm>(config.norm, ends(scope / "final_norm"), {.hidden_size = config.hidden_size});
  for (const Layer& layer : layers_)
    for (const auto& place : layer.places)
      if (place->part->reads_embedding()) {
        reads_embedding_ = true;
        if (!place->source.empty()) reads_source_embedding_.insert(place->source);
      }
  check_usage(!reads_embedding_ || !stack_->selective(), "model", "stack ", config.stack.type,
              " runs layers for some rows only, and a mixer here reads the embedded rows of all; choose other "
              "model.mixer.heads, or set model.stack: plain");
  set_up_reference();
  gather_columns();
}

// Who makes rows fewer, and who needs all of them.
void Backbone::check_lengths() {
  std::vector<const Layer*> shorter;  // whose compressors no expander has undone
  for (const Layer& layer : layers_) {
    if (layer.compressor) shorter.push_back(&layer);
    check_usage(!layer.expander || !shorter.empty(), "model", layer.name,
                ": the expander gives rows back that a compressor took, and no layer below has one left; give one of "
                "them a compressor, or leave the expander out");
    if (layer.expander) {
      const auto undone = size_t(layer.expander->undoes());
      shorter.resize(undone && undone < shorter.size() ? shorter.size() - undone : 0);
    }
    for (const auto& place : layer.places)
      check_usage(shorter.empty() || !place->part->reads_embedding(), "model", place->name,
                  " reads the embedded rows of all tokens, and the compressor of ",
                  shorter.empty() ? "" : shorter[0]->name,
                  " makes fewer rows of them; give it other heads than static_emb_qk, or the layer an expander");
  }
  if (!shorter.empty()) shortener_ = "a compressor in model.layers";
  for (const Layer* layer : shorter)
    if (dropper_.empty() && layer->compressor->drops()) dropper_ = "the compressor of " + layer->name;
  if (stack_->drops()) shortener_ = dropper_ = "stack " + config_.stack.type;
}

// Those that look at the layer below need one, and rows that are weakened need readers.
void Backbone::check_compressors() {
  const Layer* weakened = nullptr;
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    if (layer.compressor && !layer.compressor->reads_below().empty()) {
      check_usage(i > 0, "model", layer.name,
                  ": the compressor looks at the attention of the layer below, and this is the first; give it to a "
                  "layer above, or set importance: norm");
      reads_below_.push_back(int64_t(i));
    }
    check_usage(!weakened || !layer.compressor || layer.compressor->reads_presence(), "model", layer.name,
                ": the compressor of ", weakened ? weakened->name : "",
                " weakens rows while it trains (training: soft), and this one makes rows of several, which does not "
                "know how; set training: hard there");
    if (layer.compressor && layer.compressor->weakens()) weakened = &layer;
    if (!weakened) continue;
    for (const auto& place : layer.places)
      check_usage(place->kind != SubLayerConfig::Kind::mixer || place->part->reads_presence(), "model", place->name,
                  " takes every row as wholly there, and the compressor of ", weakened->name,
                  " weakens rows as keys while it trains (training: soft); give it mixer attention with a field and a "
                  "position that change no weights by key (full, rotary), or set training: hard, or weaken: rows");
  }
}

void Backbone::gather_columns() {
  const auto ask = [&](const Part* part, const std::string& name) {
    if (part)
      for (const std::string& column : part->reads_columns()) columns_.emplace_back(column, name);
  };
  ask(embedding_, "embedding " + config_.embedding.type);
  ask(position_.get(), "position " + config_.position.type);
  ask(stack_.get(), "stack " + config_.stack.type);
  for (const Layer& layer : layers_) {
    ask(layer.position.get(), layer.name + ".position");
    ask(layer.compressor.get(), layer.name + ".compressor");
    ask(layer.expander.get(), layer.name + ".expander");
    for (const auto& place : layer.places) ask(place->part.get(), place->name);
  }
  check_token_readers();
}

// The model gives them its tokens, one a row.
void Backbone::check_token_readers() const {
  const bool parts = division_ && !division_->layout().sequence().alone();
  check_usage(!parts || !embedding_->recalling(), "train.parallel", "embedding ", config_.embedding.type,
              " reads the tokens before each, which sequence gives to other ranks; leave it at 1");
  for (const Layer& layer : layers_)
    for (const auto& place : layer.places) {
      const std::vector<std::string> columns = place->part->reads_columns();
      if (std::find(columns.begin(), columns.end(), kTokenColumn) == columns.end()) continue;
      check_usage(!stack_->selective(), "model", place->name, " reads the tokens of its rows, and stack ",
                  config_.stack.type, " runs layers for some of them only; set model.stack: plain");
      check_usage(!parts, "train.parallel", place->name,
                  " reads the tokens before each, which sequence gives to other ranks; leave it at 1");
      check_usage(config_.token_width <= 1, "model", place->name, " reads ids, and a token is ", config_.token_width,
                  " ints here; set data.tokenizer to one with a vocabulary");
    }
}

std::vector<std::string> Backbone::reads_columns() const {
  std::vector<std::string> out;
  for (const auto& [name, part] : columns_)
    if (name != kTokenColumn && std::find(out.begin(), out.end(), name) == out.end()) out.push_back(name);
  return out;
}

Position::Args Backbone::position_args(const ModelConfig& config, const std::vector<LayerConfig>& layers) {
  std::optional<std::string> heads, of_cross;  // cross-attention takes no positions
  for (const LayerConfig& layer : layers)
    for (const SubLayerConfig& sub : layer.sub_layers)
      if (const Node* given = sub.part.options.find("num_attention_heads")) {
        auto& all = sub.kind == SubLayerConfig::Kind::cross ? of_cross : heads;
        all = !all || *all == given->text() ? given->text() : "0";
      }
  if (!heads) heads = of_cross;
  return {.hidden_size = config.hidden_size,
          .max_position_embeddings = config.max_position_embeddings,
          .num_attention_heads = heads ? std::stoll(*heads) : 0,
          .causal = !sees_ahead(config.architecture)};
}

// spec: arch.decoder | architecture | causal self-attention, cross-attention to the source, FFN | TB Eq 6.7-6.9, 6.45
Backbone::Layer Backbone::make_layer(const Scope& own, const Scope& owner, const LayerConfig& config) const {
  const Registry& registry = Registry::instance();
  const bool whole = config_.share.parts == "layer";
  const Scope& scope = whole ? owner : own;
  const SharedParameters shared(whole && owner.path() != own.path(), own.path());
  const int64_t width = stack_->layer_width(config_.hidden_size);
  Layer layer{.name = own.path(), .position = {}, .compressor = {}, .places = {}};
  if (config.position) {
    layer.position = registry.make<Position>(*config.position, scope / "position", position_args_);
    check_usage(!layer.position->adds(), "model", layer.name, ": position ", config.position->type,
                " adds to the embedded rows, which a layer does not have; give it to the model, or the layer one that ",
                "rotates queries and keys or adds to logits");
  }
  if (config.compressor) {
    layer.compressor = registry.make<Compressor>(*config.compressor, scope / "compressor",
                                                 {.hidden_size = width, .causal = !sees_ahead(config_.architecture)});
    check_usage(!stack_->keeps_rows(), "model", layer.name, ": stack ", config_.stack.type,
                " keeps the rows of all layers alike; leave the compressor out, or set model.stack: plain");
  }
  if (config.expander) {
    layer.expander = registry.make<Expander>(*config.expander, scope / "expander", {.hidden_size = width});
    check_usage(!stack_->keeps_rows(), "model", layer.name, ": stack ", config_.stack.type,
                " keeps the rows of all layers alike; leave the expander out, or set model.stack: plain");
  }
  int64_t mixers = 0;
  for (const SubLayerConfig& sub : config.sub_layers) mixers += sub.kind == SubLayerConfig::Kind::mixer;
  check_usage(!stack_->selective() || mixers <= 1, "model", layer.name, ": stack ", config_.stack.type,
              " lets rows pass layers unchanged, and this one has ", mixers,
              " mixers, of which the second would not know them; give each a layer of its own");
  for (const SubLayerConfig& sub : config.sub_layers)
    layer.places.push_back(make_place(own, owner, config, sub, layer.position ? *layer.position : *position_));
  return layer;
}

// What layers of one group share must be alike.
void Backbone::check_alike(const std::vector<LayerConfig>& layers) const {
  const ShareConfig& share = config_.share;
  const auto text = [&](const LayerConfig& layer) {
    std::string out;
    const auto put = [&](const std::string& name, const PartChoice& part) {
      out += cat(name, " ", part.type, " ", to_yaml(part.options), "\n");
    };
    for (const SubLayerConfig& sub : layer.sub_layers)
      if (share.parts == "layer" || (sub.kind == SubLayerConfig::Kind::ffn) == (share.parts == "ffn"))
        put(sub.name, sub.part);
    if (share.parts != "layer") return out;
    put("norm", layer.norm), put("residual", layer.residual);
    if (layer.position) put("position", *layer.position);
    if (layer.compressor) put("compressor", *layer.compressor);
    if (layer.expander) put("expander", *layer.expander);
    return out;
  };
  const auto count = int64_t(layers.size());
  for (int64_t i = 0; i < count; ++i) {
    const int64_t owner = share.owner(i, count);
    check_usage(text(layers[size_t(i)]) == text(layers[size_t(owner)]), "model", "layers ", owner + 1, " and ", i + 1,
                " share their parameters (model.share: ", share.layers, ", parts: ", share.parts,
                ") and differ in what they share; make them alike, or put them into other groups");
  }
}

// Mixers that borrow a map take that of the nearest layer below that has one.
void Backbone::tie_maps() {
  std::optional<std::pair<int64_t, int64_t>> last;
  for (int64_t i = 0; i < count(); ++i) {
    if (layers_[size_t(i)].compressor || layers_[size_t(i)].expander) last.reset();
    for (int64_t j = 0; j < sub_layers(i); ++j) {
      Place& place = *layers_[size_t(i)].places[size_t(j)];
      SharedMap* const mixer = place.part->shared_map();
      if (!mixer || place.kind == SubLayerConfig::Kind::cross) continue;
      if (!mixer->borrows()) {
        last = {i, j};
        continue;
      }
      check_usage(last.has_value(), "model", place.name,
                  " takes the attention map of a layer below it, and there is none that has one on rows of the same "
                  "length; give the first layer a mixer with a map of its own");
      Place& lender = *layers_[size_t(last->first)].places[size_t(last->second)];
      check_usage(place.residual->stages() == 1 && lender.residual->stages() == 1, "model", place.name,
                  " takes the attention map of ", lender.name, ", and the residual evaluates a mixer several times: ",
                  "there is not one map; set model.residual: pre");
      check_usage(!stack_->forgets(), "model", place.name, " takes the attention map of ", lender.name,
                  ", which a stack ", config_.stack.type, " does not keep; set model.stack: plain");
      SharedMap* const source = lender.part->shared_map();
      source->lend();
      mixer->borrow(*source, last->first);
      place.map_of = last;
    }
  }
}

std::unique_ptr<Backbone::Place> Backbone::make_place(const Scope& own, const Scope& owner, const LayerConfig& layer,
                                                      const SubLayerConfig& sub, const Position& position) const {
  const Registry& registry = Registry::instance();
  const int64_t width = stack_->layer_width(config_.hidden_size);
  const std::string& parts = config_.share.parts;
  const Scope& scope = parts == "layer" ? owner : own;  // of norm and residual
  const bool of_group = parts == "layer" || (sub.kind == SubLayerConfig::Kind::ffn) == (parts == "ffn");
  const Scope at = (of_group ? owner : own) / sub.name;
  auto place = std::make_unique<Place>();
  place->kind = sub.kind;
  place->name = (own / sub.name).path();
  place->scale = sub.scale;
  if (sub.kind == SubLayerConfig::Kind::cross) {
    place->source = sub.source;
    place->keeps_target = registry.get(Mixer::slot, sub.part.type, {}).info.recurs;
  }
  place->norm = registry.make<Norm>(layer.norm, scope / (sub.name + "_norm"), {.hidden_size = width});
  if (sub.kind == SubLayerConfig::Kind::ffn) {
    const SharedParameters shared(of_group && owner.path() != own.path(), place->name);
    place->part = make_sub_layer<Ffn>(sub.part, at, {.hidden_size = width});
  } else {
    const SharedParameters shared(of_group && owner.path() != own.path(), place->name);
    const bool cross = sub.kind == SubLayerConfig::Kind::cross;
    place->part = make_sub_layer<Mixer>(sub.part, at,
                                        {.hidden_size = width,
                                         .max_position_embeddings = config_.max_position_embeddings,
                                         .causal = !sees_ahead(config_.architecture) && !cross,
                                         .position = &position,
                                         .cross = cross});
  }
  place->dropout = Dropout(scope / sub.name, config_.hidden_dropout);
  const PartChoice& wiring = sub.residual ? *sub.residual : layer.residual;
  place->residual =
      registry.make<Residual>(wiring, scope / (sub.name + "_residual"),
                              {.hidden_size = width, .norm = place->norm.get(), .dropout = &place->dropout});
  check_usage(!stack_->wires() || place->residual->adds(), "model", place->name, ": stack ", config_.stack.type,
              " needs a residual that only adds to the rows, which ", wiring.type,
              " does not; set model.residual: pre");
  check_usage(!stack_->selective() || place->residual->stages() == 1, "model", place->name, ": stack ",
              config_.stack.type, " lets rows pass layers unchanged, and residual ", wiring.type, " runs each ",
              place->residual->stages(), " times, on rows that it then would not have; set model.residual: pre");
  return place;
}

int64_t Backbone::position_limit() const {
  int64_t least = position_->limit();
  for (const Layer& layer : layers_)
    for (const auto& place : layer.places)
      if (const int64_t limit = place->scale == 0 ? 0 : place->part->limit())
        least = least ? std::min(least, limit) : limit;
  return least;
}

int64_t Backbone::source_limit(const std::string& name) const {
  int64_t least = 0;
  for (const Layer& layer : layers_)
    for (const auto& place : layer.places)
      if (const int64_t limit = place->source == name ? place->part->source_limit() : 0)
        least = least ? std::min(least, limit) : limit;
  return least;
}

// spec: decon.config_skip | pattern | a trained model without some layers, or without their mixers | TH 4.4.2, 4.5
void Backbone::skip(const std::vector<int64_t>& layers, bool mixers_only) {
  for (int64_t i : layers) {
    check(i >= 0 && i < count(), "skip", "there is no layer ", i, " among ", count());
    for (const auto& place : layers_[size_t(i)].places)
      if (!mixers_only || place->kind != SubLayerConfig::Kind::ffn) place->scale = 0;
  }
}

}  // namespace lithe
