// Beside another objective: what a trained model, the teacher, makes of the same batch. Its predictions (word level)
// [Hinton et al. 2015; TB Eq 6.195], its rows [Romero et al. 2015], and how they relate to each other [Park et al.
// 2019; Wang et al. 2020 and 2021].
#include <cmath>
#include <numeric>

#include "lithe/base/part_options.h"
#include "lithe/kernels/elementwise/elementwise.h"
#include "lithe/objective/label_count.h"
#include "lithe/objective/prediction_cache.h"
#include "lithe/objective/teacher.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/heads.h"
#include "lithe/ops/linear.h"
#include "lithe/ops/pool.h"
#include "lithe/ops/relations.h"
#include "lithe/ops/soft_cross_entropy.h"
#include "lithe/parallel/job.h"

namespace lithe {
namespace {

constexpr const char* kDistillation = "distillation";

struct DistillationConfig {
  TeacherConfig teacher;
  double mixing = 1, temperature = 1;
  std::string loss = "ce", cache;
  int64_t top_k = 0;
  double hidden_weight = 0, relation_weight = 0;
  std::vector<std::string> hidden_layers, relations{"distance"}, relation_layers;
  bool hidden_map = false;
  std::string relation_rows = "sequences";
  int64_t relation_samples = 32, relation_heads = 4;
  void fields(Fields& f) {
    f("teacher", teacher.directory, "directory of the teacher model: a run, or an import");
    f("teacher_weights", teacher.weights, "weights of the teacher: the last (empty), best or averaged",
      one_of({"", "best", "averaged"}));
    f("teacher_precision", teacher.precision,
      "type of the teacher's weights and rows; integer weights of `lithe quantize` stay as they are",
      one_of({"f32", "bf16", "f64"}));
    f("mixing", mixing, "weight of the loss on the teacher's predictions; train.objective has the weight 1 - mixing",
      between(0, 1));
    f("temperature", temperature, "logits of both models are divided by this, and the loss is multiplied by its square",
      at_least(0.001));
    f("loss", loss,
      "ce: cross-entropy with the teacher's predictions; kl: the same minus their entropy; both have the same gradient",
      one_of({"ce", "kl"}));
    f("top_k", top_k, "use only the teacher's k largest probabilities, scaled to sum to 1; 0: all", at_least(0));
    f("cache", cache,
      "file that stores the teacher's top_k predictions, so that the teacher reads each sequence only once");
    f("hidden_weight", hidden_weight,
      "weight of the squared distance between rows of both models (hidden_layers), a mean over the rows", at_least(0));
    f("hidden_layers", hidden_layers,
      "pairs of layers, student:teacher, from 1: [\"1:2\", \"2:4\"]; empty: all layers of the student, spread evenly "
      "over the teacher's");
    f("hidden_map", hidden_map, "a learned linear map of the student's rows; if the widths differ there always is one");
    f("relation_weight", relation_weight, "weight of each relation loss", at_least(0));
    f("relations", relations,
      "relations to match: distance, angle or gram (products) between rows; or, per sequence and head, softmax of "
      "products: queries_keys, queries, keys, values (MiniLM)",
      one_of({"distance", "angle", "gram", "queries_keys", "queries", "keys", "values"}));
    f("relation_layers", relation_layers, "pairs of layers as in hidden_layers; empty: the last layers of both models");
    f("relation_rows", relation_rows, "distance, angle and gram compare means of sequences, or tokens",
      one_of({"sequences", "tokens"}));
    f("relation_samples", relation_samples, "most sequences or tokens per batch for these relations, spread evenly",
      at_least(2));
    f("relation_heads", relation_heads,
      "number of heads into which queries, keys and values are divided for the relations", at_least(1));
  }
};

// "1:2" as layers from 0.
struct LayerPair {
  int64_t mine = 0, theirs = 0;
};
LayerPair pair_of(const std::string& text, const std::string& key) {
  const size_t colon = text.find(':');
  const auto number = [&](const std::string& of) {
    check_usage(!of.empty() && of.size() < 7 && of.find_first_not_of("0123456789") == std::string::npos && of != "0",
                kDistillation, key, " has '", text, "'; write two layers from 1, as in \"1:2\"");
    return std::stoll(of) - 1;
  };
  check_usage(colon != std::string::npos, kDistillation, key, " has '", text,
              "'; write the layer, a colon and the teacher's layer, as in \"1:2\"");
  return {number(text.substr(0, colon)), number(text.substr(colon + 1))};
}

std::optional<Relation> relation_named(const std::string& name) {
  if (name == "distance") return Relation::distance;
  if (name == "angle") return Relation::angle;
  if (name == "gram") return Relation::gram;
  return std::nullopt;
}

class Distillation final : public Objective {
 public:
  Distillation(const Scope& scope, const DistillationConfig& config, const Args& args) : config_(config) {
    check_usage(config.top_k || config.cache.empty(), kDistillation,
                "cache keeps the teacher's top_k largest predictions; give top_k, such as 64");
    check_usage(config.cache.empty() || (config.hidden_weight == 0 && config.relation_weight == 0), kDistillation,
                "cache keeps predictions, and hidden_weight or relation_weight need the teacher's rows; leave one out");
    check_usage(config.mixing > 0 || config.hidden_weight > 0 || config.relation_weight > 0, kDistillation,
                "nothing is learned of the teacher: mixing, hidden_weight and relation_weight are 0");
    check_usage(config.cache.empty() || config.mixing > 0, kDistillation,
                "cache keeps predictions, and mixing 0 learns none; leave it out");
    check_usage(config.relation_weight == 0 || !config.relations.empty(), kDistillation, "relation_weight ",
                config.relation_weight, " needs relations, as [distance, angle]");
    if (args.model) build(scope, *args.model);
  }

  bool beside() const override { return true; }
  double left_for_others() const override { return 1 - config_.mixing; }

  void prepare(const LessonFacts& facts, ModelConfig& model) const override {
    const ModelConfig teacher = config_.teacher.model();
    if (facts.learnt) config_.teacher.check_vocabulary(facts.tokenizer);
    if (facts.named && config_.mixing > 0) check_labels(facts.labels, teacher.label_names);
    pairs(config_.hidden_layers, "hidden_layers", model, teacher);
    pairs(config_.relation_layers, "relation_layers", model, teacher);
    check_usage(reads_source(model.architecture) == reads_source(teacher.architecture), kDistillation,
                "only one of both reads a source: the teacher's architecture is ", name_of(teacher.architecture),
                ", the model's ", name_of(model.architecture));
    check_usage(sees_ahead(model.architecture) == sees_ahead(teacher.architecture), kDistillation,
                "the teacher's architecture is ", name_of(teacher.architecture), ", the model's ",
                name_of(model.architecture), ": only one of both sees the tokens after each row");
  }

  void want(const Model&, Pass& pass) const override {
    for (const auto& [mine, theirs] : taps_) pass.want(mine);
  }

  Var loss(const Ran& ran, const Targets& targets, const LossTerms& terms) const override {
    const int64_t labelled = count_labels(targets);
    std::vector<Tap> wanted;
    for (const auto& [mine, theirs] : taps_) wanted.push_back(theirs);
    const auto kept = kept_predictions(ran, targets);
    const std::optional<Taught> taught =
        kept.empty() ? std::optional(teach(*teacher_, ran.input, wanted)) : std::nullopt;
    Var total;
    const auto join = [&](const Var& loss) { total = total.defined() ? add(total, loss) : loss; };
    if (config_.mixing > 0) join(word_loss(ran, targets, taught, kept, terms.scale * config_.mixing));
    const double share = terms.scale * double(labelled);  // of this batch in its step
    for (size_t i = 0; i < hidden_.size(); ++i)
      join(hidden_loss(hidden_[i], maps_[i], ran, *taught, share * config_.hidden_weight));
    for (const LayerPair& pair : related_)
      for (const std::string& relation : config_.relations)
        if (const Var loss = related_loss(relation, pair, ran, *taught, share * config_.relation_weight);
            loss.defined())
          join(loss);
    if (terms.sums) {
      terms.sums->labels = labelled;
      terms.sums->loss = total.defined() && !total.value().is_meta() ? value_at(total.value(), 0) / terms.scale : 0;
    }
    return total.defined() ? total : Var(zeros({1}, wide_of(ran.rows.x.dtype()), ran.rows.x.device()));
  }

 private:
  struct TapPair {
    Tap mine, theirs;
  };
  DistillationConfig config_;
  std::unique_ptr<Model> teacher_;
  std::unique_ptr<PredictionCache> cache_;
  std::vector<LayerPair> hidden_, related_;
  std::vector<Parameter*> maps_;  // of hidden_: [D, teacher's D], or null where rows are compared as they are
  std::vector<TapPair> taps_;
  bool by_row_ = true, real_ = false;  // labels are of rows, else of sequences; and are real numbers

  static std::vector<LayerPair> pairs(const std::vector<std::string>& texts, const std::string& key,
                                      const ModelConfig& model, const ModelConfig& teacher) {
    std::vector<LayerPair> out;
    for (const std::string& text : texts) {
      out.push_back(pair_of(text, key));
      check_usage(out.back().mine < model.num_hidden_layers && out.back().theirs < teacher.num_hidden_layers,
                  kDistillation, key, " has '", text, "', and there are ", model.num_hidden_layers, " layers, and ",
                  teacher.num_hidden_layers, " of the teacher");
    }
    return out;
  }

  // Predictions are learned class by class, in the order of the teacher's.
  static void check_labels(const std::vector<std::string>& mine, const std::vector<std::string>& theirs) {
    check_usage(mine.empty() || theirs.empty() || mine == theirs, kDistillation, "the task's classes are ", join(mine),
                ", and the teacher's are ", join(theirs), ", so that it would teach others; give task.labels: [",
                join(theirs), "], or set mixing to 0");
  }

  void build(const Scope& scope, const Model& model) {
    teacher_ = load_teacher(config_.teacher, model.device());
    const ModelConfig &mine = model.config(), &theirs = teacher_->config();
    if (config_.mixing > 0) check_heads(model);
    if (config_.hidden_weight > 0) {
      hidden_ = pairs(config_.hidden_layers, "hidden_layers", mine, theirs);
      for (int64_t l = 0; config_.hidden_layers.empty() && l < mine.num_hidden_layers; ++l) {
        const double at = double(l + 1) * double(theirs.num_hidden_layers) / double(mine.num_hidden_layers);
        hidden_.push_back({l, std::max<int64_t>(0, std::llround(at) - 1)});
      }
      const int64_t from = mine.hidden_size, to = theirs.hidden_size;
      for (const LayerPair& pair : hidden_) {
        maps_.push_back(from == to && !config_.hidden_map
                            ? nullptr
                            : (scope / cat("map_", pair.mine + 1, "_", pair.theirs + 1))
                                  .parameter("weight", {Axis::hidden(from), Axis(to)}, InitRole::matrix));
        taps_.push_back({{Tap::Kind::rows, pair.mine}, {Tap::Kind::rows, pair.theirs}});
      }
    }
    if (config_.relation_weight > 0) {
      related_ = pairs(config_.relation_layers, "relation_layers", mine, theirs);
      if (related_.empty()) related_.push_back({mine.num_hidden_layers - 1, theirs.num_hidden_layers - 1});
      for (const LayerPair& pair : related_)
        for (const std::string& relation : config_.relations)
          for (const Tap::Kind kind : kinds_of(relation)) taps_.push_back({{kind, pair.mine}, {kind, pair.theirs}});
    }
    if (!config_.cache.empty() && model.device() != Device::meta)
      cache_ = std::make_unique<PredictionCache>(cache_of_rank(), config_.teacher.fingerprint(), config_.top_k);
  }

  // Each rank writes a file of its own.
  Path cache_of_rank() const {
    const int rank = job().rank();
    return rank ? cat(config_.cache, ".rank", rank) : config_.cache;
  }

  void check_heads(const Model& model) {
    const Sequences two({0, 5, 8}, {}, Device::meta);
    const Head::LabelCount mine = model.label_count(two), theirs = teacher_->label_count(two);
    by_row_ = mine.labels == 8, real_ = mine.classes == 0;
    check_usage(!mine.own_lengths && (by_row_ || mine.labels == 2) && model.config().head.type != "span", kDistillation,
                "learns predictions of one of several classes for each token or sequence, and head ",
                model.config().head.type, " has others; set mixing to 0 and learn rows or relations");
    check_usage(mine.classes == theirs.classes && mine.labels == theirs.labels && !theirs.own_lengths, kDistillation,
                "head ", model.config().head.type, " predicts one of ", mine.classes, " for each ",
                by_row_ ? "token" : "sequence", ", and the teacher's head, ", teacher_->config().head.type,
                ", does not; train the teacher for the same, or set mixing to 0");
    check_usage(!real_ || (config_.temperature == 1 && config_.top_k == 0), kDistillation,
                "a regression has neither temperature nor top_k; leave them out");
  }

  // Each query head with the key that it meets, where several share one.
  static Var for_queries(int64_t columns, const Var& keys, const Model& model, int64_t layer) {
    if (keys.cols() == columns) return keys;
    for (const SubLayerConfig& sub : model.config().layer(layer).sub_layers) {
      const auto heads = int64_t(option_number(sub.part, "num_attention_heads"));
      if (sub.kind != SubLayerConfig::Kind::mixer || heads < 1 || columns % heads) continue;
      const int64_t head_dim = columns / heads, own = keys.cols() / head_dim;
      if (own * head_dim == keys.cols() && own > 0 && heads % own == 0) return repeat_heads(keys, own, heads);
    }
    return keys;
  }
  static std::vector<Tap::Kind> kinds_of(const std::string& relation) {
    if (relation == "queries") return {Tap::Kind::queries};
    if (relation == "keys") return {Tap::Kind::keys};
    if (relation == "values") return {Tap::Kind::values};
    if (relation == "queries_keys") return {Tap::Kind::queries, Tap::Kind::keys};
    return {Tap::Kind::rows};
  }

  // Of each sequence what the cache has of it; the teacher is run for those that it lacks. None: there is no cache.
  std::vector<LargestLogits> kept_predictions(const Ran& ran, const Targets& targets) const {
    std::vector<LargestLogits> out;
    if (!cache_) return out;
    check_usage(ran.input.modalities.empty(), kDistillation,
                "cache tells texts apart, and this input has images or sounds; leave cache out");
    check_usage(targets.predicted.empty(), kDistillation,
                "cache keeps what is predicted of each row, and this objective predicts other rows in every epoch; "
                "leave cache out");
    bool all = true;
    const int64_t count = ran.input.sequences.count();
    std::vector<uint64_t> names;
    for (int64_t b = 0; b < count; ++b) {
      names.push_back(checksum_of_sequence(ran.input, b));
      auto found = cache_->find(names.back());
      all = all && found.has_value();
      out.push_back(found ? std::move(*found) : LargestLogits());
    }
    if (all) return out;
    const Taught taught = teach(*teacher_, ran.input, {});
    for (int64_t b = 0; b < count; ++b) {
      if (out[size_t(b)].rows) continue;
      std::vector<int64_t> rows;
      for (int64_t r = ran.input.sequences.offset(b); by_row_ && r < ran.input.sequences.offset(b + 1); ++r)
        rows.push_back(r);
      const NoGrad frozen;
      Tensor logits = teacher_->logits(taught.rows, rows).value();
      if (!by_row_) logits = logits.slice(b, b + 1);
      out[size_t(b)] = largest_logits(logits, config_.top_k);
      cache_->add(names[size_t(b)], out[size_t(b)]);
    }
    return out;
  }

  // Rows are predicted in chunks, whose gradients are taken at once, so that no logits are kept.
  Var word_loss(const Ran& ran, const Targets& targets, const std::optional<Taught>& taught,
                const std::vector<LargestLogits>& kept, double scale) const {
    const DType type = wide_of(ran.rows.x.dtype());
    const int64_t count =
        by_row_ ? (targets.predicted.empty() ? ran.rows.sequences.rows() : int64_t(targets.predicted.size()))
                : ran.rows.sequences.count();
    check_usage(!taught || !by_row_ || taught->rows.sequences.rows() == ran.rows.sequences.rows(), kDistillation,
                "there are ", ran.rows.sequences.rows(), " rows, and ", taught ? taught->rows.sequences.rows() : 0,
                " of the teacher: a compressor shortens one of both");
    const int64_t classes = ran.model.label_count(ran.rows.sequences).classes;
    constexpr int64_t kChunkBytes = int64_t(16) << 20;
    const int64_t chunk = by_row_ ? std::max<int64_t>(64, kChunkBytes / std::max<int64_t>(1, classes * size_of(type)))
                                  : std::max<int64_t>(count, 1);
    Rows mine = ran.rows;
    mine.x = detached(ran.rows.x);
    double loss = 0;
    for (int64_t begin = 0; begin < count; begin += chunk) {
      const int64_t end = std::min(count, begin + chunk);
      std::vector<int64_t> rows;
      for (int64_t i = begin; by_row_ && i < end; ++i)
        rows.push_back(targets.predicted.empty() ? i : targets.predicted[size_t(i)]);
      const Tensor theirs =
          kept.empty() ? teacher_logits(*taught, rows, type) : kept_logits(ran, kept, begin, end, type);
      std::optional<Tape> tape;
      if (Tape::current()) tape.emplace();
      const Var logits = ran.model.logits(mine, rows);
      const Var of_chunk = real_ ? squared_error(logits, as_type(theirs, DType::f32), scale)
                                 : soft_cross_entropy(logits, {theirs, config_.temperature, config_.loss == "kl"},
                                                      targets.labels.slice(begin, end), scale);
      if (!of_chunk.value().is_meta()) loss += value_at(of_chunk.value(), 0);
      if (tape && of_chunk.needs_grad()) tape->backward(of_chunk);
    }
    const Tensor out = empty({1}, type, ran.rows.x.device());
    if (!out.is_meta()) set_value(out, 0, loss);
    return record("word_distillation", {ran.rows.x}, out,
                  [x = ran.rows.x.ref(), dx = mine.x.grad()](const Tensor& dy, Grads& g) {
                    check(dy.is_meta() || value_at(dy, 0) == 1, kDistillation,
                          "its gradient was taken in the forward pass for dy = 1");
                    if (dx.defined()) g.give(x, dx);
                  });
  }

  Tensor teacher_logits(const Taught& taught, const std::vector<int64_t>& rows, DType type) const {
    const NoGrad frozen;
    const Tensor logits = teacher_->logits(taught.rows, rows).value();
    const Tensor out = empty(logits.shape(), type, logits.device());
    kernels::add({.a = logits, .b = {}, .out = out});
    if (config_.top_k && !real_) keep_largest(out, config_.top_k);
    return out;
  }

  Tensor kept_logits(const Ran& ran, const std::vector<LargestLogits>& kept, int64_t begin, int64_t end,
                     DType type) const {
    const int64_t classes = ran.model.label_count(ran.rows.sequences).classes;
    const Tensor out = empty({end - begin, classes}, type, ran.rows.x.device());
    int64_t at = 0;
    for (const LargestLogits& sequence : kept) {
      const int64_t first = std::max(at, begin), last = std::min(at + sequence.rows, end);
      if (first < last) put_logits(sequence, config_.top_k, first - at, out.slice(first - begin, last - begin));
      at += sequence.rows;
    }
    return out;
  }

  // spec: kd.hidden | distillation | rows of layers near a teacher's, by a learned map | TB 6.4.7(1)
  Var hidden_loss(const LayerPair& pair, const Parameter* map, const Ran& ran, const Taught& taught,
                  double scale) const {
    Var x = ran.tap({Tap::Kind::rows, pair.mine});
    const Var other = taught.tap(*teacher_, {Tap::Kind::rows, pair.theirs});
    check_usage(x.rows() == other.rows(), kDistillation, "layer ", pair.mine + 1, " has ", x.rows(),
                " rows, and the teacher's layer ", pair.theirs + 1, " has ", other.rows(),
                ": a compressor shortens one of both; name layers below it");
    if (map) x = linear(x, map->var());
    const Var apart = add(cast(x, wide_of(x.dtype())), cast(other, wide_of(x.dtype())), 1, -1);
    return lithe::scale(sum(mul(apart, apart)), scale / double(std::max<int64_t>(x.rows(), 1)));
  }

  // Undefined where a batch has too few rows to relate.
  Var related_loss(const std::string& name, const LayerPair& pair, const Ran& ran, const Taught& taught,
                   double scale) const {
    const auto mine = [&](Tap::Kind kind) { return ran.tap({kind, pair.mine}); };
    const auto theirs = [&](Tap::Kind kind) { return taught.tap(*teacher_, {kind, pair.theirs}).value(); };
    const Sequences& sequences = ran.input.sequences;
    const std::vector<Tap::Kind> kinds = kinds_of(name);
    const Var x = mine(kinds.front());
    const Tensor other = theirs(kinds.front());
    check_usage(x.rows() == sequences.rows() && other.rows() == sequences.rows(), kDistillation, "layers ",
                pair.mine + 1, " and ", pair.theirs + 1, " have ", x.rows(), " and ", other.rows(), " rows for ",
                sequences.rows(), " tokens: a compressor shortens one of both; name layers below it");
    const auto relation = relation_named(name);
    if (!relation)
      return attention_relation_loss(
          {x, for_queries(x.cols(), mine(kinds.back()), ran.model, pair.mine)},
          {other, for_queries(other.cols(), Var(theirs(kinds.back())), *teacher_, pair.theirs).value()}, sequences,
          config_.relation_heads, scale);
    const bool tokens = config_.relation_rows == "tokens";
    const int64_t count = tokens ? x.rows() : sequences.count(), least = least_rows(*relation);
    if (count < least) {
      check_usage(!x.value().is_meta(), kDistillation, "relation ", name, " needs at least ", least, " ",
                  config_.relation_rows, " in a batch, and there are ", count,
                  "; give larger micro-batches, or relation_rows: tokens");
      return {};
    }
    const auto samples = [&](const Var& of) {
      const Var all = tokens ? of : pool(of, sequences, "mean");
      if (count <= config_.relation_samples) return all;
      std::vector<int64_t> some;
      for (int64_t i = 0; i < config_.relation_samples; ++i) some.push_back(i * count / config_.relation_samples);
      return pick_rows(all, some);
    };
    return relation_loss(*relation, samples(x), samples(Var(other)).value(), scale);
  }
};

}  // namespace

void register_objective_distillation(Registry& registry) {
  registry.add<Objective, Distillation, DistillationConfig>(
      "distillation", {.summary = "knowledge distillation, beside another objective: learn the predictions, rows and "
                                  "relations of a teacher model",
                       .source = "TB 6.4.7(1), Eq 6.195"});
}

}  // namespace lithe
