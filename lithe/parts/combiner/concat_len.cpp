// Rows of all encoders one after another, through layers of their own [TB Eq 6.59]: a row may look at all rows of its
// text, whichever encoder gave them.
#include <numeric>

#include "lithe/nn/combiner.h"
#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/embedding.h"

namespace lithe {
namespace {

struct ConcatLenConfig {
  int64_t num_hidden_layers = 1;
  bool segment_embeddings = false;
  std::string rows = "all";
  PartChoice mixer{"attention", {}}, ffn{"relu", {}}, norm{"layer", {}}, residual{"pre", {}};
  void fields(Fields& f) {
    f("num_hidden_layers", num_hidden_layers, "layers over the rows of all encoders; 0: the rows are only concatenated",
      at_least(0));
    f("segment_embeddings", segment_embeddings, "add a learned vector for each encoder to its rows");
    f("rows", rows,
      "rows that the combiner returns: all (first those of the further encoders), or only those of the text",
      one_of({"all", "text"}));
    f.part("mixer", "mixer", mixer, "mixer of these layers");
    f.part("ffn", "ffn", ffn, "ffn of these layers");
    f.part("norm", "norm", norm, "norm of these layers");
    f.part("residual", "residual", residual, "how these layers are wired");
  }
};

class ConcatLen final : public Combiner {
 public:
  ConcatLen(const Scope& scope, const ConcatLenConfig& config, const Args& args)
      : text_alone_(config.rows == "text"), width_(args.hidden_size) {
    const Registry& registry = Registry::instance();
    if (config.segment_embeddings)
      segments_ = (scope / "segments").parameter("weight", {args.encoders, Axis::hidden(width_)}, InitRole::embedding);
    // The layers' own pieces stand behind pointers, which what wires them keeps.
    const auto wired = [&](const Scope& at, std::unique_ptr<SubLayer> part) {
      auto place = std::make_unique<Place>();
      place->part = std::move(part);
      place->norm = registry.make<Norm>(config.norm, at / "norm", {.hidden_size = width_});
      place->dropout = Dropout(at, args.dropout);
      place->residual =
          registry.make<Residual>(config.residual, at / "residual",
                                  {.hidden_size = width_, .norm = place->norm.get(), .dropout = &place->dropout});
      places_.push_back(std::move(place));
    };
    for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
      const Scope layer = scope / "layers" / std::to_string(i);
      wired(layer / "mixer",
            registry.make<Mixer>(
                config.mixer, layer / "mixer",
                {.hidden_size = width_, .max_position_embeddings = args.max_position_embeddings, .causal = false}));
      wired(layer / "ffn", registry.make<Ffn>(config.ffn, layer / "ffn", {.hidden_size = width_}));
    }
    for (const auto& place : places_) {
      check_usage(!place->part->reads_embedding() && !place->part->reference(), "combiner",
                  "the layers of concat_len have no embedded tokens and no fixed sequence to read; choose other heads");
      const std::vector<std::string> columns = place->part->reads_columns();
      check_usage(columns.empty(), "combiner", "the layers of concat_len read the rows of ", args.encoders,
                  " encoders one after another, and the column '", columns.empty() ? "" : columns[0],
                  "' is of one text; choose another mixer here, or give this one to an encoder");
    }
  }
  int64_t width() const override { return width_; }
  bool row_a_token(bool shortened) const override { return text_alone_ && !shortened; }

  Rows forward(const std::vector<Rows>& rows, const Pass& pass) const override {
    const Layout at = layout_of(rows);
    Rows out{pick_rows(concatenate_rows(parts_of(rows)), at.order), at.sequences};
    if (segments_) {
      const Shape shape{int64_t(at.segments.size())};
      const Tensor ids =
          out.x.value().is_meta() ? empty(shape, DType::i32, Device::meta) : tensor_of(shape, at.segments);
      out.x = add_rows(out.x, segments_->var(), ids);
    }
    for (const auto& place : places_)
      out.x = place->residual->forward(out.x, [&](const Var& x, int64_t stage) {
        return place->part->forward({.x = x,
                                     .sequences = out.sequences,
                                     .pass = pass,
                                     .wired = [&](const Var& other) { return place->residual->input(other); },
                                     .stage = stage});
      });
    if (!text_alone_) return out;
    Rows text = rows.back();
    text.x = pick_rows(out.x, at.text);
    return text;
  }

 private:
  struct Place {
    std::unique_ptr<Norm> norm;
    Dropout dropout;
    std::unique_ptr<SubLayer> part;
    std::unique_ptr<Residual> residual;
  };
  // Where the rows of all encoders stand, text by text.
  struct Layout {
    std::vector<int64_t> order, text;  // rows of the parts one after another; and of these, where the text's own are
    std::vector<int32_t> segments;     // the encoder of each
    Sequences sequences;
  };
  bool text_alone_;
  int64_t width_;
  Parameter* segments_ = nullptr;
  std::vector<std::unique_ptr<Place>> places_;

  static std::vector<Var> parts_of(const std::vector<Rows>& rows) {
    std::vector<Var> out;
    for (const Rows& of : rows) out.push_back(of.x);
    return out;
  }
  static Layout layout_of(const std::vector<Rows>& rows) {
    Layout out;
    std::vector<int64_t> offsets{0};
    for (int64_t b = 0; b < rows[0].sequences.count(); ++b) {
      int64_t first = 0;  // of this encoder among the parts
      for (size_t i = 0; i < rows.size(); ++i) {
        const Sequences& own = rows[i].sequences;
        for (int64_t row = own.offset(b); row < own.offset(b + 1); ++row) {
          if (i + 1 == rows.size()) out.text.push_back(int64_t(out.order.size()));
          out.order.push_back(first + row);
          out.segments.push_back(int32_t(i));
        }
        first += own.rows();
      }
      offsets.push_back(int64_t(out.order.size()));
    }
    out.sequences = Sequences(offsets, {}, rows[0].x.device());
    return out;
  }
};

}  // namespace

void register_combiner_concat_len(Registry& registry) {
  registry.add<Combiner, ConcatLen, ConcatLenConfig>(
      "concat_len",
      {.spec = "syn.combine",
       .summary = "rows of all encoders one after another, through layers of their own",
       .source = "TB Eq 6.59",
       .causal = false,
       .samples = {"{mixer: {type: attention, num_attention_heads: 1}}",
                   "{segment_embeddings: true, rows: text, num_hidden_layers: 2, mixer: {type: attention, "
                   "num_attention_heads: 1}, ffn: {type: relu, intermediate_size: 5}}"}});
}

}  // namespace lithe
