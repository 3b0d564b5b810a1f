#include "lithe/model/model.h"

#include <algorithm>

#include "lithe/base/json.h"
#include "lithe/base/log.h"
#include "lithe/model/quantized_weights.h"
#include "lithe/model/safetensors.h"
#include "lithe/ops/basic.h"

namespace lithe {

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
  const Registry& registry = Registry::instance();
  const Scope root(context_);
  const auto embedding = [&](const ModelConfig& of, const Scope& scope) {
    return registry.make<Embedding>(of.embedding, scope / "embedding",
                                    {.vocab_size = of.vocab_size,
                                     .hidden_size = of.hidden_size,
                                     .token_width = std::max<int64_t>(of.token_width, 1)});
  };
  if (reads_source(config.architecture)) {
    const ModelConfig source = config.encoder_config();
    const bool shared = config.share_encoder_decoder_embeddings;
    source_context_ = context_;
    source_context_.init = source.init;
    source_context_.layers = source.num_hidden_layers;
    const Scope encoder = Scope(source_context_) / "encoder";
    embedding_ = embedding(config, shared ? root : root / "decoder");
    if (!shared) source_embedding_ = embedding(source, encoder);
    encoder_ = std::make_unique<Backbone>(source, encoder, shared ? *embedding_ : *source_embedding_);
    decoder_ = std::make_unique<Backbone>(config_, root / "decoder", *embedding_);
    if (decoder_->reads_source_embedding()) {
      check_usage(!encoder_->shortens(), "model",
                  "heads of the cross-attention read the embeddings of the source's tokens, of which a compressor in "
                  "the encoder makes fewer rows; leave it out, or give model.cross_attention other heads");
      encoder_->give_embedding();
    }
  } else {
    embedding_ = embedding(config, root);
    decoder_ = std::make_unique<Backbone>(config_, root, *embedding_);
  }
  Parameter* table = embedding_->table();
  check_usage(table || !config.tie_word_embeddings, "model", "tie_word_embeddings needs an embedding with a table; '",
              config.embedding.type, "' has none");
  head_ = registry.make<Head>(config.head, root / "head",
                              {.vocab_size = config.vocab_size,
                               .hidden_size = config.hidden_size,
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
      return head_of(exit).logits(x.x, x.sequences);
    });
  for (const std::string& pattern : options.frozen) parameters_.freeze(pattern);
  const auto labels = [&](std::vector<int64_t> offsets) {
    return head_->count(Sequences(std::move(offsets), {}, options.device)).labels;
  };
  check_usage(!decoder_->shortens() || labels({0, 5, 8}) == labels({0, 3, 5}), "model", "head ", config.head.type,
              " predicts for every token, and a compressor in model.layers makes fewer rows of them; leave it out, or "
              "choose a head that predicts for whole sequences, as classify does");
}

void Model::set_recompute(bool on) {
  if (encoder_) encoder_->set_recompute(on);
  decoder_->set_recompute(on);
}

Rows Model::encode(const Tensor& source, const Sequences& sequences, const Pass& pass) const {
  check(encoder_ != nullptr, "model", "architecture ", config_.architecture, " has no encoder that reads a source");
  for (int64_t b = 0; b < sequences.count(); ++b)
    check(sequences.length(b) > 0, "model", "source ", b, " of ", sequences.count(),
          " has no tokens; leave it out, or give it at least one");
  return encoder_->forward(source, sequences, pass);
}

// spec: arch.encdec | architecture | an encoder's rows, read by a decoder that predicts the target | TB Eq 6.10-6.12
Rows Model::run(const Tensor& ids, const Sequences& sequences, const Pass& pass, DecodeState* state,
                const Rows* source) const {
  check(encoder_ || !source, "model", "architecture ", config_.architecture, " reads no source; give it none");
  if (encoder_ && state) {
    check(!source, "model", "a state keeps its own source; give it that by read_source(), and none here");
    check(state->has_source, "model", "the state has no source; give it one by read_source() first");
  } else if (encoder_) {
    check(source && source->sequences.count() == sequences.count(), "model",
          "an encoder-decoder reads one source a sequence, as encode() gives it: ", sequences.count(),
          " sequences, got sources of ", source ? source->sequences.count() : 0);
  }
  Rows rows = decoder_->forward(ids, sequences, pass, state, source);
  check_usage(
      rows.sequences.rows() == sequences.rows() ||
          head_->count(rows.sequences).labels == head_->count(sequences).labels,
      "model", "head ", config_.head.type, " predicts for every token, and stack ", config_.stack.type,
      " dropped some of them; set model.stack skipped: copy, or choose a head that predicts for whole sequences");
  return rows;
}

Var Model::with_losses(const Var& loss, const Pass& pass, double factor) {
  Var total = loss;
  for (const auto& [name, auxiliary] : pass.losses()) total = add(total, cast(auxiliary, loss.dtype()), 1, factor);
  return total;
}

Var Model::logits(const Var& rows, const Sequences& sequences) const {
  const kernels::PartScope part("head");
  return head_->logits(rows, decoder_->shortens() ? decoder_->lengths(sequences) : sequences);
}

Var Model::logits(const Rows& rows, const std::vector<int64_t>& wanted) const {
  const kernels::PartScope part("head");
  const ExitRun* run = exits_.empty() ? nullptr : ExitRun::current();
  const auto picked = [&](const Var& of) { return wanted.empty() ? of : pick_rows(of, wanted); };
  const Sequences& all = rows.sequences;
  const bool by_row = head_->count(all).labels == all.rows();
  const auto alone = [&](const Var& x) { return wanted.empty() ? all : Sequences::single(x.rows(), device()); };
  if (!run || run->exit_of_row.empty()) {
    const Var x = picked(rows.x);
    return head_->logits(x, alone(x));
  }
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
    parts.push_back(head->logits(x, groups.size() == 1 && wanted.empty() ? all : Sequences(offsets, {}, device())));
  }
  return parts.size() == 1 ? parts[0] : pick_rows(concatenate_rows(parts), place);
}

Var Model::loss_of_exit(int64_t exit, const Var& rows, const std::vector<int64_t>& predicted,
                        const LossArgs& args) const {
  const kernels::PartScope part("head");
  return head_of(exit).loss(predicted.empty() ? rows : pick_rows(rows, predicted), args);
}

Var Model::stop_logits(const Var& rows) const {
  const auto* head = dynamic_cast<const StoppingHead*>(head_.get());
  return head ? head->stop_logits(rows) : Var();
}

void Model::want_exits(Pass& pass) const {
  for (const StackExit& exit : exits_) pass.want({Tap::Kind::rows, exit.layer});
}

Rows Model::exit_rows(const Pass& pass, int64_t exit, const Sequences& sequences) const {
  const Var rows = pass.get({Tap::Kind::rows, exits_[size_t(exit)].layer});
  check(rows.defined(), "model", "the pass has no rows of exit ", exit, "; it must want_exits() before it runs");
  return {decoder_->end_rows(rows), sequences};
}

Var Model::loss(const Tensor& ids, const Tensor& labels, const Sequences& sequences, double smoothing, double scale,
                LossSums* sums, Tensor row_nll, const std::vector<int64_t>& predicted) const {
  const Pass pass;
  const Rows rows = run(ids, sequences, pass);
  const Var loss = loss_of(rows.x, predicted,
                           {.sequences = rows.sequences,
                            .labels = labels,
                            .smoothing = smoothing,
                            .scale = scale,
                            .sums = sums,
                            .row_nll = std::move(row_nll)});
  return with_losses(loss, pass);
}

Var Model::loss_of(const Var& rows, const std::vector<int64_t>& predicted, LossArgs args) const {
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

void Model::read_source(DecodeState& state, const Tensor& source, const Sequences& sequences) const {
  check(sequences.count() == state.sequences(), "model", "the state has ", state.sequences(),
        " sequences, got sources of ", sequences.count(), "; give one source a sequence");
  std::vector<int64_t> given{0};  // offsets of those that are read
  for (int64_t b = 0; b < state.sequences(); ++b) {
    if (sequences.length(b) == 0) continue;
    check(state.length(b) == 0, "model", "sequence ", b, " of the state has ", state.length(b),
          " tokens already, which read another source; make a new state");
    given.push_back(given.back() + sequences.length(b));
  }
  const NoGrad no_grad;
  Rows rows = encode(source, Sequences(given, {}, device()));
  rows.sequences = spread(rows.sequences, sequences);
  decoder_->read_source(state, rows);
  state.has_source = true;
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

void save_weights(const Model& model, const Path& file) {
  std::map<std::string, Tensor> tensors;
  for (const Parameter& p : model.parameters().all()) tensors[p.name] = p.numbers();
  write_safetensors(file, tensors, {{"format", "lithe"}});
}

namespace {

// A piece at a time, so that the numbers do not stand beside the packed ones.
void read_packed(const SafetensorsFile& in, const kernels::PackedMatrix& m) {
  constexpr int64_t kPiece = 1 << 20;
  const MemoryScope scratch(MemoryClass::workspace);
  const int64_t rows = m.shape()[0], piece = std::max<int64_t>(1, kPiece / m.shape()[1]);
  for (int64_t first = 0; first < rows; first += piece) {
    const Tensor numbers = empty({std::min(piece, rows - first), m.shape()[1]}, m.data.dtype(), m.data.device());
    in.read_rows(m.name, first, numbers);
    kernels::pack_rows(m, first, numbers);
  }
}

void load(Model& model, const Path& file, bool with_head) {
  const SafetensorsFile in(file);
  // Exits are added to a model as it is, and so its head stays. What a stack learns may be new.
  const auto kept = [&](const std::string& name) {
    const Parameter* p = model.exits().empty() ? nullptr : model.parameters().find(name);
    const auto entry = in.entries().find(name);
    return p && entry != in.entries().end() && entry->second.shape == p->master.shape();
  };
  const auto wanted = [&](const std::string& name) {
    if (with_head) return true;
    if (name.starts_with("stack.") && !in.entries().count(name)) return false;
    return !name.starts_with("head.") || kept(name);
  };
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
    else if (const kernels::PackedMatrix* matrix = p.master.packed())
      read_packed(in, *matrix);
    else if (p.rest.defined()) {
      const MemoryScope scratch(MemoryClass::workspace);
      const Tensor numbers = empty(p.master.shape(), DType::f32, p.master.device());
      in.read(p.name, numbers);
      p.assign(numbers);
    } else
      in.read(p.name, p.master.value());
  model.parameters().refresh_shadows();
  std::string left;
  for (const auto& [name, entry] : in.entries())
    if (!wanted(name)) left += (left.empty() ? "" : ", ") + name;
  std::string fresh;
  for (const Parameter& p : model.parameters().all())
    if (!wanted(p.name) && p.name.starts_with("stack.")) fresh += (fresh.empty() ? "" : ", ") + p.name;
  if (!fresh.empty()) log_info("'", file.string(), "' has none of ", fresh, ", which begin anew");
  if (!left.empty()) log_info("not taken over from '", file.string(), "', the head begins anew: ", left);
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
  Node node = parse_json_node(read_file(file, uint64_t(1) << 26), file.string());
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
