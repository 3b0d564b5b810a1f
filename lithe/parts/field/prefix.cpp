// A causal field in which the rows of one picture see each other, also those behind them: the bidirectional prefix of
// decoders that read features [TB 6.5.5]. Without features it is the full causal field.
#include "lithe/nn/registry.h"
#include "lithe/parts/common/pattern_field.h"

namespace lithe {
namespace {

class Prefix final : public Field {
 public:
  Prefix(const Scope&, const NoOptions&, const Args& args) : causal_(args.causal), heads_(args.num_attention_heads) {}
  kernels::AttentionPattern pattern(const FieldInput& in) const override {
    const Tensor* kinds = causal_ ? in.pass.given("modality") : nullptr;
    if (!kinds || kinds->is_meta()) return {.mask = {.causal = causal_}, .heads = {}, .tiles = nullptr};
    std::shared_ptr<const Visits> last;
    return tiled_pattern(false, heads_, in, [&](int64_t b, int64_t head) {
      if (head > 0) return last;
      const std::vector<int64_t> ends = ends_of(*kinds, in.queries.offset(b), in.queries.offset(b + 1));
      const int64_t past = in.queries.past(b) - in.keys[size_t(b)].first;
      return last =
                 visits_of(int64_t(ends.size()), in.keys[size_t(b)].count, [&](int64_t i, std::vector<KeyRange>& out) {
                   out.push_back({0, past + ends[size_t(i)]});
                 });
    });
  }

 private:
  bool causal_;
  int64_t heads_;

  // Of each of these rows the end of what it sees: of the run of one modality that it is in, else itself.
  static std::vector<int64_t> ends_of(const Tensor& kinds, int64_t begin, int64_t end) {
    const int32_t* kind = kinds.data<int32_t>();
    std::vector<int64_t> out(size_t(end - begin));
    for (int64_t row = end - 1; row >= begin; --row) {
      const bool goes_on = row + 1 < end && kind[row] > 0 && kind[row + 1] == kind[row];
      out[size_t(row - begin)] = goes_on ? out[size_t(row + 1 - begin)] : row + 1 - begin;
    }
    return out;
  }
};

}  // namespace

void register_field_prefix(Registry& registry) {
  registry.add<Field, Prefix, NoOptions>("prefix",
                                         {.summary = "the past, and all of one's own picture", .source = "TB 6.5.5"});
}

}  // namespace lithe
