#include "lithe/model/divided_parts.h"

#include "lithe/base/part_options.h"
#include "lithe/model/config.h"
#include "lithe/nn/attention_slots.h"
#include "lithe/nn/sharing.h"
#include "lithe/ops/basic.h"
#include "lithe/parallel/operations.h"
#include "lithe/parallel/ring_attention.h"

namespace lithe {
namespace {

// States, limits and columns are those of the share.
class AroundPart : public SubLayer {
 public:
  explicit AroundPart(std::unique_ptr<SubLayer> part) : part_(std::move(part)) {}
  void skip(const SubLayerInput& in) const override { part_->skip(in); }
  std::unique_ptr<State> make_state(const StateShape& shape) const override { return part_->make_state(shape); }
  bool keeps_rows() const override { return part_->keeps_rows(); }
  int64_t state_bytes(const std::vector<int64_t>& tokens, DType dtype) const override {
    return part_->state_bytes(tokens, dtype);
  }
  int64_t limit() const override { return part_->limit(); }
  int64_t source_limit() const override { return part_->source_limit(); }
  bool reads_presence() const override { return part_->reads_presence(); }
  std::vector<std::string> reads_columns() const override { return part_->reads_columns(); }
  bool reads_embedding() const override { return part_->reads_embedding(); }
  std::optional<Reference> reference() const override { return part_->reference(); }
  SharedMap* shared_map() override { return part_->shared_map(); }
  MixerMaps maps(const SubLayerInput& in) const override { return part_->maps(in); }
  void read_source(State& state, const Rows& source) const override { part_->read_source(state, source); }

 protected:
  const SubLayer& part() const { return *part_; }
  // Fails (usage) where somebody reads of this layer what every rank has in another form.
  static void check_taps(const Pass& pass, const char* how) {
    for (const Tap::Kind kind : {Tap::Kind::queries, Tap::Kind::keys, Tap::Kind::values, Tap::Kind::map,
                                 Tap::Kind::map_logits, Tap::Kind::context, Tap::Kind::received})
      check_usage(!pass.wants(kind), "train.parallel", how, ", and something reads the ", name_of(kind), " of layer ",
                  pass.layer() + 1, ", which no rank has whole; leave that out, or set the number to 1");
  }

 private:
  std::unique_ptr<SubLayer> part_;
};

class TensorParallel final : public AroundPart {
 public:
  TensorParallel(std::unique_ptr<SubLayer> share, const Group& ranks) : AroundPart(std::move(share)), ranks_(ranks) {}
  Var forward(const SubLayerInput& in) const override {
    check_taps(in.pass, "tensor divides the heads of attention");
    const Pass pass = in.pass.apart(in.pass.layer());
    SubLayerInput mine{.x = in.x,
                       .sequences = in.sequences,
                       .state = in.state,
                       .pass = pass,
                       .source = in.source,
                       .wired = in.wired,
                       .stage = in.stage,
                       .log_presence = in.log_presence};
    mine.x = divide_work(in.x, ranks_);
    if (in.log_presence.defined()) mine.log_presence = divide_work(in.log_presence, ranks_);
    Rows source;
    if (in.source) {
      source = *in.source;
      source.x = divide_work(source.x, ranks_);
      mine.source = &source;
    }
    const Var sum = all_reduce(part().forward(mine), ranks_);
    for (const auto& [name, loss] : pass.losses())
      fail_usage("train.parallel", "tensor divides parts without losses of their own, and one of layer ",
                 in.pass.layer() + 1, " adds ", name, "; set its weight to 0, or tensor: 1");
    in.pass.take(pass, pass.noted(), 0);
    return sum;
  }

 private:
  Group ranks_;
};

class OnGatheredRows final : public AroundPart {
 public:
  OnGatheredRows(std::unique_ptr<SubLayer> mixer, const Group& ranks) : AroundPart(std::move(mixer)), ranks_(ranks) {}
  Var forward(const SubLayerInput& in) const override {
    if (!training()) return part().forward(in);
    check_taps(in.pass, "sequence divides the tokens of a text");
    const RowsOfRanks& counts =
        in.pass.once<RowsOfRanks>(kRowsOfRanks, [&] { return rows_of_ranks(in.sequences, ranks_); });
    std::vector<int64_t> rows, first{0}, order, mine, offsets{0};  // of ranks; where theirs begin
    for (const std::vector<int64_t>& of : counts) {
      rows.push_back(0);
      for (const int64_t count : of) rows.back() += count;
      first.push_back(first.back() + rows.back());
    }
    for (size_t b = 0; b < size_t(in.sequences.count()); ++b) {
      for (size_t r = 0; r < counts.size(); ++r)
        for (int64_t i = 0; i < counts[r][b]; ++i) {
          if (int(r) == ranks_.rank) mine.push_back(int64_t(order.size()));
          order.push_back(first[r]++);
        }
      offsets.push_back(int64_t(order.size()));
    }
    const Sequences whole(offsets, {}, in.x.device());
    const Pass pass = in.pass.apart(in.pass.layer());
    const SubLayerInput all{.x = pick_rows(all_gather(in.x, ranks_, rows), order),
                            .sequences = whole,
                            .pass = pass,
                            .wired = in.wired,
                            .stage = in.stage};
    const Var y = pick_rows(part().forward(all), mine);
    // Every rank has the same losses, of which the sum over ranks is one.
    std::vector<Var> noted = pass.noted();
    for (size_t i = 0; i < pass.losses().size(); ++i) noted[i] = scale(noted[i], 1.0 / ranks_.size);
    in.pass.take(pass, noted, 0);
    return y;
  }

 private:
  Group ranks_;
};

}  // namespace

std::unique_ptr<SubLayer> on_gathered_rows(std::unique_ptr<SubLayer> mixer, const Group& ranks,
                                           const std::string& where) {
  const auto refuse = [&](bool reads, const char* what) {
    check_usage(!reads, "train.parallel", "sequence ", ranks.size, ": ", where, " reads ", what,
                ", which each rank has of its own tokens alone; choose another mixer, or sequence: 1");
  };
  const SharedMap* const map = mixer->shared_map();
  refuse(mixer->reads_embedding(), "the embedded rows");
  refuse(mixer->reference().has_value(), "a reference sequence");
  refuse(map && map->borrows(), "the attention map of another layer");
  refuse(!mixer->reads_columns().empty(), "columns of the tokens");
  return std::make_unique<OnGatheredRows>(std::move(mixer), ranks);
}

bool rings(const PartChoice& mixer, const Mixer::Args& args) {
  return mixer.type == "attention" && !args.cross && option(mixer, "field") == "full" &&
         option(mixer, "map") == "own" && option_number(mixer, "attention_dropout") == 0 &&
         !(args.position && args.position->biases());
}

std::unique_ptr<SubLayer> tensor_parallel(std::unique_ptr<SubLayer> share, const Group& ranks) {
  return std::make_unique<TensorParallel>(std::move(share), ranks);
}

void check_divisible(const ParallelConfig& parallel, const ModelConfig& config) {
  int64_t experts = 0;
  for (int64_t i = 0; i < config.num_hidden_layers; ++i)
    for (const SubLayerConfig& sub : config.layer(i).sub_layers) {
      if (sub.kind != SubLayerConfig::Kind::ffn || sub.part.type != "moe") continue;
      experts = option_integer(sub.part, "num_experts");
      check_usage(experts % parallel.expert == 0, "train.parallel", "expert ", parallel.expert, " does not divide the ",
                  experts, " experts of layer ", i + 1, "; choose a divisor");
    }
  check_usage(parallel.expert == 1 || experts, "train.parallel", "expert ", parallel.expert,
              " divides the experts of ffn moe, and no layer has one; leave expert at 1");
  if (parallel.sequence > 1) {
    const std::string ranks = cat("sequence ", parallel.sequence);
    check_usage(config.architecture == Architecture::decoder && config.source_names().empty() &&
                    config.modalities.entries().empty() && config.stack.type == "plain" &&
                    config.embedding.type == "lookup" && config.head.type == "lm",
                "train.parallel", ranks,
                " divides texts of one decoder with stack plain, embedding lookup and head lm; choose these, or "
                "sequence: 1");
    check_usage(config.hidden_dropout == 0, "train.parallel", ranks, " needs hidden_dropout 0, got ",
                config.hidden_dropout, ": what is dropped goes by the place in the batch; set one of both");
    for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
      const LayerConfig layer = config.layer(i);
      check_usage(!layer.compressor && !layer.expander, "train.parallel", ranks, ": layer ", i + 1,
                  " has a compressor or an expander, which see whole sequences; leave them out, or sequence at 1");
      for (const SubLayerConfig& sub : layer.sub_layers) {
        const Node* const balance = sub.part.options.find("router_aux_loss_coef");
        check_usage(!balance || option_number(sub.part, "router_aux_loss_coef") == 0, "train.parallel", ranks,
                    ": the balance of the router in layer ", i + 1,
                    " is of whole batches; set router_aux_loss_coef: 0, or sequence: 1");
        check_usage(sub.part.type != "relu" || option_number(sub.part, "activation_penalty") == 0, "train.parallel",
                    ranks, ": the activation_penalty of layer ", i + 1,
                    " is of whole batches; set it to 0, or sequence: 1");
      }
    }
  }
  const std::string stages = cat("pipeline ", parallel.pipeline);
  if (parallel.pipeline > 1) {
    const bool one_stack = !reads_source(config.architecture) && config.source_names().empty();
    check_usage(one_stack && config.modalities.entries().empty(), "train.parallel", stages,
                " divides the layers of one stack that reads text; leave pipeline at 1 for models of several encoders, "
                "encoder-decoders and pictures");
    check_usage(parallel.pipeline <= config.num_hidden_layers, "train.parallel", stages, " has more stages than the ",
                config.num_hidden_layers, " layers; choose fewer");
    check_usage(config.stack.type == "plain" && config.embedding.type == "lookup", "train.parallel", stages,
                " is for stack plain and embedding lookup, got ", config.stack.type, " and ", config.embedding.type,
                "; choose these, or pipeline: 1");
    check_usage(!config.share.any(), "train.parallel", stages,
                " gives each stage parameters of its own, and model.share is ", config.share.layers,
                "; leave one of both out");
    for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
      const LayerConfig layer = config.layer(i);
      const PartChoice* mixer = layer.mixer();
      const bool borrows = mixer && mixer->options.find("map") && option(*mixer, "map") != "own";
      const bool shares = mixer && shared_by_layers(*mixer);
      check_usage(!layer.compressor && !layer.expander && !borrows && !shares, "train.parallel", stages, ": layer ",
                  i + 1,
                  " has a compressor, an expander, or the attention map or maps of another layer, which are of one "
                  "stage; leave them out, or pipeline at 1");
    }
  }
}

}  // namespace lithe
