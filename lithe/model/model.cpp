#include "lithe/model/model.h"

#include <algorithm>

#include "lithe/nn/exits.h"
#include "lithe/ops/basic.h"
#include "lithe/parallel/operations.h"

namespace lithe {
namespace {

std::unique_ptr<Embedding> make_embedding(const ModelConfig& config, const Scope& scope) {
  return Registry::instance().make<Embedding>(config.embedding, scope / "embedding",
                                              {.vocab_size = config.vocab_size,
                                               .hidden_size = config.hidden_size,
                                               .token_width = std::max<int64_t>(config.token_width, 1)});
}

}  // namespace

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
              .initialised = options.initialised,
              .integers = options.integers ? *options.integers : std::set<std::string>{},
              .packed = options.packed ? *options.packed : std::map<std::string, bool>{}};
  if (const Layout* layout = Layout::current(); layout && layout->divides_model())
    division_ = std::make_unique<Division>(*layout, config_);
  const Division::Making making(division_.get());
  const Registry& registry = Registry::instance();
  const Scope root(context_);
  const std::vector<std::string> sources = config.source_names();
  const bool translates = reads_source(config.architecture);
  const bool apart = translates && !config.share_encoder_decoder_embeddings;
  const bool embeds = !division_ || division_->first_stage() || (config.tie_word_embeddings && division_->last_stage());
  embedding_ = make_embedding(config, !embeds ? division_->elsewhere(root) : apart ? root / "decoder" : root);
  for (const std::string& name : sources) make_encoder(name);
  decoder_ = std::make_unique<Backbone>(config_, translates ? root / "decoder" : root, *embedding_);
  for (auto& [name, encoder] : encoders_) {
    if (!decoder_->reads_source_embedding(name)) continue;
    check_usage(!encoder.stack->shortens(), "model",
                "heads of the cross-attention read the embeddings of the source's tokens, of which ",
                encoder.stack->shortener(),
                " of the encoder makes fewer rows; leave it out, or give "
                "model.cross_attention other heads");
    encoder.stack->give_embedding();
  }
  make_combiner(root);
  Parameter* table = embedding_->table();
  check_usage(table || !config.tie_word_embeddings, "model", "tie_word_embeddings needs an embedding with a table; '",
              config.embedding.type, "' has none");
  if (division_ && table && config.tie_word_embeddings) division_->at_both_ends(*table);
  head_ = registry.make<Head>(config.head, at_end(root / "head"),
                              {.vocab_size = config.vocab_size,
                               .hidden_size = translates ? config.hidden_size : width(),
                               .num_labels = config.num_labels,
                               .tied = config.tie_word_embeddings ? table : nullptr,
                               .causal = !sees_ahead(config.architecture)});
  exits_ = decoder_->exits();
  for (const StackExit& exit : exits_) {
    exit_heads_.emplace_back();
    if (!exit.own_head) continue;
    exit_heads_.back() = registry.make<Head>(config.head, root / "head" / "exits" / std::to_string(exit.layer + 1),
                                             {.vocab_size = config.vocab_size,
                                              .hidden_size = config.hidden_size,
                                              .num_labels = config.num_labels,
                                              .tied = nullptr,
                                              .causal = !sees_ahead(config.architecture)});
  }
  if (!exits_.empty())
    decoder_->set_predict([this](int64_t exit, const Rows& x) {
      const kernels::PartScope part("head");
      return head_of(exit).logits(x);
    });
  for (const std::string& pattern : options.frozen) parameters_.freeze(pattern);
  check_usage(exits_.empty() || !head_->reads_tokens(), "model", "head ", config.head.type,
              " reads the tokens beside the rows, which rows that leave early do not bring along; set "
              "model.head ngrams to 0, or model.stack: plain");
  check_usage(!combiner_ || translates || exits_.empty(), "model", "stack ", config.stack.type,
              " lets rows leave before they are combined with those of other encoders; set model.stack: plain");
  const std::string combine = combiner_ ? "combine " + config.combiner()->type : "";
  check_usage(!combiner_ || translates || row_a_token() || !head_->by_row(), "model", "head ", config.head.type,
              " predicts for every token, and ", combine,
              " does not give each a row; give combine align: words or rows: text, or choose a head that predicts for "
              "whole sequences, as classify does");
  const std::string& shortener = decoder_->shortener();
  check_usage(
      shortener.empty() || (combiner_ && !translates) || !head_->by_row(), "model", "head ", config.head.type,
      " predicts for every token, and ", shortener, " makes fewer rows of them; ",
      decoder_->drops_in_stack() ? "set model.stack skipped: copy" : "leave it out, give a layer above it an expander",
      ", or choose a head that predicts for whole sequences, as classify does");
  const std::string& taker = !shortener.empty() ? shortener : combine;
  check_usage(row_a_token() || !head_->reads_second_row(), "model", "head ", config.head.type,
              " with distillation reads the row of the second token, which ", taker,
              " may not leave; leave that out, or set model.head distillation: false");
}

void Model::make_encoder(const std::string& name) {
  Encoder& encoder = encoders_[name];
  const bool main = name == kSource;
  const ModelConfig config = config_.encoder_config(name);
  encoder.context = context_;
  encoder.context.init = config.init;
  encoder.context.layers = config.num_hidden_layers;
  const Scope root(encoder.context), scope = main ? root / "encoder" : root / "encoders" / name;
  if (!main || !config_.share_encoder_decoder_embeddings) encoder.embedding = make_embedding(config, scope);
  encoder.stack = std::make_unique<Backbone>(config, scope, encoder.embedding ? *encoder.embedding : *embedding_);
}

// spec: syn.multi_encoder | architecture | encoders of their own for two views of a text, combined | TB 6.2.3, Eq 6.59
void Model::make_combiner(const Scope& root) {
  const std::optional<PartChoice> choice = config_.combiner();
  if (!choice) return;
  const bool translates = reads_source(config_.architecture);
  combiner_ = Registry::instance().make<Combiner>(*choice, root / "combine",
                                                  {.hidden_size = config_.hidden_size,
                                                   .max_position_embeddings = config_.max_position_embeddings,
                                                   .encoders = int64_t(encoders_.size()) + !translates,
                                                   .dropout = config_.hidden_dropout});
  check_usage(!translates || combiner_->width() == config_.hidden_size, "model", "combine ", choice->type, " gives ",
              combiner_->width(), " channels, and cross-attention reads ", config_.hidden_size,
              "; combine by sum, gate or concat_len");
  std::vector<const Backbone*> combined;
  for (const auto& [name, encoder] : encoders_) combined.push_back(encoder.stack.get());
  if (!translates) combined.push_back(decoder_.get());
  for (const Backbone* stack : combined)
    check_usage(!combiner_->aligns() || stack->dropper().empty(), "model", "combine ", choice->type,
                " needs as many rows of each encoder, and ", stack->dropper(),
                " leaves as many as it finds; leave it out, or combine by concat_len or pool");
  check_usage(!decoder_->reads_source_embedding(kSource), "model",
              "heads of the cross-attention read the embeddings of the source's tokens, and combined rows have none; "
              "give model.cross_attention other heads");
}

int64_t Model::read_source_limit(const std::string& name) const {
  const auto encoder = encoders_.find(name);
  const int64_t own = source_limit(name);
  if (combiner_ || encoder == encoders_.end() || encoder->second.stack->shortens()) return own;
  const int64_t cross = decoder_->source_limit(name);
  return own && cross ? std::min(own, cross) : own + cross;
}

bool Model::row_a_token() const {
  return combiner_ ? combiner_->row_a_token(decoder_->shortens()) : !decoder_->shortens();
}

void Model::set_recompute(bool on) {
  for (auto& [name, encoder] : encoders_) encoder.stack->set_recompute(on);
  decoder_->set_recompute(on);
}

std::vector<std::string> Model::reads_columns(const std::string& source) const {
  if (!source.empty()) return encoders_.at(source).stack->reads_columns();
  std::vector<std::string> out = decoder_->reads_columns();
  if (reads_source(config_.architecture)) return out;
  for (const auto& [name, encoder] : encoders_)  // which read the same text where they are given none
    for (const std::string& column : encoder.stack->reads_columns())
      if (std::ranges::find(out, column) == out.end()) out.push_back(column);
  return out;
}

Rows Model::encode(const ModelInput& source, Pass& pass, const std::string& name) const {
  const auto found = encoders_.find(name);
  check(found != encoders_.end(), "model", "architecture ", config_.architecture, " has no encoder that reads a ",
        name);
  for (int64_t b = 0; b < source.sequences.count(); ++b)
    check(source.sequences.length(b) > 0, "model", name, " ", b, " of ", source.sequences.count(),
          " has no tokens; leave it out, or give it at least one");
  return found->second.stack->forward(source, pass);
}

void Model::check_sources(const std::map<std::string, ModelInput>& sources) const {
  for (const auto& [name, source] : sources)
    check(encoders_.count(name), "model", "architecture ", config_.architecture, " reads no '", name,
          "'; give it none");
}

// What every encoder leaves, which the pass has, too. Cross-attention to kSource reads the combination, if there is
// one.
std::map<std::string, Rows> Model::encode_all(const ModelInput& input, Pass& pass) const {
  std::map<std::string, Rows> out;
  bool any = false;
  for (const auto& [name, encoder] : encoders_) {
    const auto source = input.sources.find(name);
    const bool own = source == input.sources.end() && !reads_source(config_.architecture) && !pass.source(name);
    if (own || source != input.sources.end()) {
      Pass of_source = pass.of_source(name);
      pass.set_source(name, encode(own ? input : source->second, of_source, name));
      for (const auto& [loss_name, loss] : of_source.losses()) pass.add_loss(loss_name, loss);
      pass.take_statistics(of_source.statistics(), name == kSource ? "encoder." : name + ".");
      any = true;
    }
    const std::optional<Rows> rows = pass.source(name);
    check(rows && rows->sequences.count() == input.sequences.count(), "model", "an ",
          reads_source(config_.architecture) ? "encoder-decoder" : "encoder with model.combine", " reads one ", name,
          " a sequence: ", input.sequences.count(), " sequences, got sources of ", rows ? rows->sequences.count() : 0);
    out[name] = *rows;
  }
  if (combiner_ && reads_source(config_.architecture) && any) {
    const Rows text = out.at(kSource);
    pass.set_source(kSource, combined(out, text, pass));
  }
  return out;
}

Rows Model::combined(std::map<std::string, Rows> further, const Rows& text, const Pass& pass) const {
  const kernels::PartScope part("combine");
  further.erase(kSource);
  std::vector<Rows> rows;
  for (auto& [name, of] : further) rows.push_back(std::move(of));
  rows.push_back(text);
  return combiner_->forward(rows, pass);
}

// spec: arch.encdec | architecture | an encoder's rows, read by a decoder that predicts the target | TB Eq 6.10-6.12
Rows Model::run(const ModelInput& input, Pass& pass, DecodeState* state) const {
  std::map<std::string, Rows> further;
  if (state) {
    check(input.sources.empty(), "model", "a state keeps its own sources; give it these by read_sources(), none here");
    for (const auto& [name, encoder] : encoders_)
      check(state->sources.count(name), "model", "the state has no ", name, "; give it one by read_sources() first");
  } else {
    check_sources(input.sources);
    further = encode_all(input, pass);
  }
  Rows rows = decoder_->forward(input, pass, state);
  if (combiner_ && !reads_source(config_.architecture)) rows = combined(std::move(further), rows, pass);
  rows.exits = pass.exits();
  if (head_->reads_tokens()) rows.read = std::make_shared<const ModelInput>(input);
  return rows;
}

Var Model::with_losses(const Var& loss, const Pass& pass, double factor) {
  Var total = loss;
  for (const auto& [name, auxiliary] : pass.losses()) total = add(total, cast(auxiliary, loss.dtype()), 1, factor);
  return total;
}

Var Model::logits(const Rows& rows, const std::vector<int64_t>& wanted) const {
  if (division_ && !division_->layout().pipeline().alone()) return logits_of_last_stage(rows, wanted);
  const kernels::PartScope part("head");
  const ExitRun* run = exits_.empty() ? nullptr : rows.exits;
  const Sequences& all = rows.sequences;
  const bool by_row = head_->count(all).labels == all.rows();
  if (!run || run->exit_of_row.empty()) return own_logits(rows, wanted);
  check(int64_t(run->exit_of_row.size()) == all.rows(), "model", "the rule of exits is at ", run->exit_of_row.size(),
        " rows, the predictions are asked of ", all.rows(), "; ask for them before another pass runs");
  check(by_row || wanted.empty(), "model", "predictions of some rows need a head that predicts for each");
  // What leaves together is predicted together: rows, or whole sequences.
  const int64_t units = !by_row ? all.count() : wanted.empty() ? all.rows() : int64_t(wanted.size());
  const auto row_of = [&](int64_t unit) {
    return !by_row ? all.offset(unit) : wanted.empty() ? unit : wanted[size_t(unit)];
  };
  bool known = by_row && units > 0;
  std::map<const Head*, std::vector<int64_t>> groups;
  for (int64_t u = 0; u < units; ++u) {
    known = known && run->logits_of_row[size_t(row_of(u))].defined();
    groups[&head_of(run->exit_of_row[size_t(row_of(u))])].push_back(u);
  }
  if (known) {
    std::vector<Var> parts;
    for (int64_t u = 0; u < units; ++u) parts.emplace_back(run->logits_of_row[size_t(row_of(u))]);
    return parts.size() == 1 ? parts[0] : concatenate_rows(parts);
  }
  std::vector<Var> parts;
  std::vector<int64_t> place(static_cast<size_t>(units));
  int64_t next = 0;
  for (const auto& [head, members] : groups) {
    std::vector<int64_t> from, offsets{0};
    for (int64_t u : members) {
      if (by_row) from.push_back(row_of(u));
      for (int64_t r = 0; !by_row && r < all.length(u); ++r) from.push_back(all.offset(u) + r);
      offsets.push_back(int64_t(from.size()));
      place[size_t(u)] = next++;
    }
    const Var x = groups.size() == 1 && wanted.empty() ? rows.x : pick_rows(rows.x, from);
    parts.push_back(head->logits({x, groups.size() == 1 && wanted.empty() ? all : Sequences(offsets, {}, device())}));
  }
  return parts.size() == 1 ? parts[0] : pick_rows(concatenate_rows(parts), place);
}

// Of the head of this model itself.
Var Model::own_logits(const Rows& rows, const std::vector<int64_t>& wanted) const {
  if (wanted.empty()) return head_->logits(rows);
  return head_->logits({pick_rows(rows.x, wanted), Sequences::single(int64_t(wanted.size()), device())});
}

// All stages go on with them. Gradients do not pass.
Var Model::logits_of_last_stage(const Rows& rows, const std::vector<int64_t>& wanted) const {
  const Sequences& all = rows.sequences;
  const Head::LabelCount count = label_count(all);
  const bool by_row = count.labels == all.rows();
  const int64_t predicted = by_row && !wanted.empty() ? int64_t(wanted.size()) : count.labels;
  const Group& stages = division_->layout().pipeline();
  Tensor out;
  if (!sends_rows()) {
    const kernels::PartScope part("head");
    out = own_logits(rows, wanted).value();
  }
  const Tensor type = tensor_of({1}, std::vector<int32_t>{int32_t(out.defined() ? out.dtype() : compute_dtype())});
  if (device() != Device::meta) broadcast(type, stages, stages.size - 1);
  if (!out.defined()) out = empty({predicted, count.classes}, DType(type.data<int32_t>()[0]), device());
  broadcast(out, stages, stages.size - 1);
  return out;
}

Var Model::loss_of_exit(int64_t exit, const Rows& rows, const std::vector<int64_t>& predicted,
                        const LossArgs& args) const {
  if (sends_rows()) {  // a zero, behind which the gradient of the rows comes back
    if (args.sums && !training() && device() != Device::meta) division_->share(*args.sums);
    return cast(rows.x, wide_of(rows.x.dtype()));
  }
  const kernels::PartScope part("head");
  const Var loss =
      head_of(exit).loss(predicted.empty() ? rows : Rows{pick_rows(rows.x, predicted), rows.sequences}, args);
  if (division_ && args.sums && !training() && device() != Device::meta) division_->share(*args.sums);
  return loss;
}

Var Model::stop_logits(const Var& rows) const { return head_->stop_logits(rows); }

void Model::want_exits(Pass& pass) const {
  for (const StackExit& exit : exits_) pass.want({Tap::Kind::rows, exit.layer});
}

Rows Model::exit_rows(const Pass& pass, int64_t exit, const Sequences& sequences) const {
  const Var rows = pass.get({Tap::Kind::rows, exits_[size_t(exit)].layer});
  check(rows.defined(), "model", "the pass has no rows of exit ", exit, "; it must want_exits() before it runs");
  return {decoder_->end_rows(rows), sequences};
}

Var Model::loss_of(const Rows& rows, const std::vector<int64_t>& predicted, const LossArgs& args) const {
  return loss_of_exit(-1, rows, predicted, args);
}

void Model::check_predicts_next(const char* operation) const {
  const Head::LabelCount two = label_count(Sequences::single(2, device()));
  check_usage(
      config_.architecture == Architecture::decoder && two.labels == 2 && two.classes == config_.vocab_size, operation,
      "needs a model that predicts the next token: architecture decoder with head lm; this one is architecture ",
      config_.architecture, " with head ", config_.head.type);
}

// What was read of the sequences that have tokens, and nothing of the others.
static Sequences spread(const Sequences& read, const Sequences& all) {
  std::vector<int64_t> offsets{0};
  int64_t next = 0;
  for (int64_t b = 0; b < all.count(); ++b)
    offsets.push_back(offsets.back() + (all.length(b) ? read.length(next++) : 0));
  return Sequences(offsets, {}, read.positions().device());
}

void Model::read_sources(DecodeState& state, const std::map<std::string, ModelInput>& sources) const {
  check_sources(sources);
  for (const auto& [name, source] : sources)
    check(source.sequences.count() == state.sequences(), "model", "the state has ", state.sequences(),
          " sequences, got sources of ", source.sequences.count(), "; give one ", name, " a sequence");
  const NoGrad no_grad;
  std::map<std::string, Rows> made;
  for (const auto& [name, source] : sources) {
    const Sequences& sequences = source.sequences;
    std::vector<int64_t> given{0};  // offsets of those that are read
    for (int64_t b = 0; b < state.sequences(); ++b) {
      if (sequences.length(b) == 0) continue;
      check(state.length(b) == 0, "model", "sequence ", b, " of the state has ", state.length(b),
            " tokens already, which read another source; make a new state");
      given.push_back(given.back() + sequences.length(b));
    }
    ModelInput read = source;
    read.sequences = Sequences(given, {}, device()).at(sequences.positions());
    Pass pass;
    made[name] = encode(read, pass, name);
    state.sources.insert(name);
  }
  if (combiner_) {
    check(made.size() == encoders_.size(), "model", "the encoders are combined, and ", made.size(), " of their ",
          encoders_.size(), " sources are given; give all at once");
    for (const auto& [name, rows] : made)
      check(rows.sequences.count() == made.at(kSource).sequences.count(), "model", "the encoders are combined, and ",
            rows.sequences.count(), " sequences have a ", name, ", ", made.at(kSource).sequences.count(),
            " a source; give both or neither");
    const Rows text = made.at(kSource);
    made[kSource] = combined(made, text, Pass());
  }
  for (auto& [name, rows] : made) {
    rows.sequences = spread(rows.sequences, sources.at(name).sequences);
    decoder_->read_source(state, name, rows);
  }
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

}  // namespace lithe
