// Chunks of equal length, the last one shorter, or spans that a column names; tokens see their own chunk only
// [TB Eq 6.124].
#include "lithe/nn/registry.h"
#include "lithe/parts/common/pattern_field.h"
#include "lithe/parts/common/row_groups.h"

namespace lithe {
namespace {

struct ChunkConfig {
  int64_t size = 128;
  std::string spans;
  void fields(Fields& f) {
    f("size", size, "chunk size in tokens", at_least(1));
    f("spans", spans,
      "column of the input, instead of `size`: neighbours with the same number are one chunk; a token with a negative "
      "number sees only itself; empty: not used");
  }
};

class Chunk final : public PatternField {
 public:
  Chunk(const Scope&, const ChunkConfig& config, const Args& args) : PatternField(args), size_(config.size) {}
  int64_t reach() const override { return args().causal ? size_ : 0; }
  int64_t first_seen(int64_t tokens) const override { return tokens / size_ * size_; }

 protected:
  void see(int64_t position, int64_t, int64_t, std::vector<KeyRange>& out) const override {
    const int64_t begin = position / size_ * size_;
    out.push_back({begin, begin + size_});
  }

 private:
  int64_t size_;
};

class Spans final : public Field {
 public:
  Spans(const ChunkConfig& config, const Args& args) : column_(config.spans), args_(args) {
    check_usage(!args.cross, "chunk", "the spans of column '", config.spans,
                "' are of a text's own tokens, and have no cross form; leave out spans, or give "
                "model.cross_attention field full");
  }
  std::vector<std::string> reads_columns() const override { return {column_}; }
  KeyLabels key_labels(DType) const override { return {args_.causal, DType::i32}; }
  bool labels_rows() const override { return args_.causal; }
  Tensor label_rows(const Pass& pass, const Var& x) const override { return numbers(pass, x.rows()); }
  kernels::AttentionPattern pattern(const FieldInput& in) const override {
    const Tensor numbers = in.labels.defined() ? in.labels : this->numbers(in.pass, in.queries.rows());
    if (numbers.is_meta()) return {.mask = {.causal = args_.causal}, .heads = {}, .tiles = nullptr};
    const std::vector<int64_t> offsets = key_offsets(in);
    std::shared_ptr<const Visits> last;
    return tiled_pattern(args_.causal, args_.num_attention_heads, in, [&](int64_t b, int64_t head) {
      if (head > 0) return last;
      const int32_t* of = numbers.data<int32_t>() + offsets[size_t(b)];
      const int64_t keys = in.keys[size_t(b)].count, ahead = in.queries.past(b) - in.keys[size_t(b)].first;
      KeyRange chunk{0, 0};
      return last = visits_of(in.queries.length(b), keys, [&](int64_t i, std::vector<KeyRange>& seen) {
               const int64_t own = i + ahead;
               if (own >= chunk.end) {
                 chunk = {own, own + 1};
                 while (chunk.begin > 0 && continues_span(of, chunk.begin)) --chunk.begin;
                 while (chunk.end < keys && continues_span(of, chunk.end)) ++chunk.end;
               }
               seen.push_back(chunk);
             });
    });
  }

 private:
  std::string column_;
  Args args_;

  Tensor numbers(const Pass& pass, int64_t rows) const {
    return span_numbers(pass, column_, rows, "chunk").reshape({rows, 1});
  }
};

std::unique_ptr<Field> make_chunk(const Scope& scope, const ChunkConfig& config, const Field::Args& args) {
  if (config.spans.empty()) return std::make_unique<Chunk>(scope, config, args);
  check_usage(config.size == ChunkConfig().size, "chunk", "size ", config.size, " is of chunks of equal length, and ",
              "spans: ", config.spans, " names others; leave one of them out");
  return std::make_unique<Spans>(config, args);
}

}  // namespace

void register_field_chunk(Registry& registry) {
  registry.add_forms<Field, ChunkConfig, make_chunk>("chunk", {.spec = "sparse.chunk",
                                                               .summary = "a token sees the tokens of its own chunk",
                                                               .source = "TB Eq 6.124",
                                                               .cross = true,
                                                               .samples = {"{size: 5}", "{spans: chunk}"}});
}

}  // namespace lithe
