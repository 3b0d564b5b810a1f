// A span of tokens around each, of two lengths [TB Eq 6.123]; in causal models the last `left` tokens and the token
// itself.
#include "lithe/nn/registry.h"
#include "lithe/parts/common/pattern_field.h"

namespace lithe {
namespace {

struct SpanFieldConfig {
  int64_t left = 127, right = -1;
  void fields(Fields& f) {
    f("left", left, "tokens before a query that it sees, in addition to itself", at_least(0));
    f("right", right, "encoders: tokens after a query that it sees; -1: the same as left", at_least(-1));
  }
};

// spec: mem.window | field | a causal span, whose cache keeps no more than it | TB 6.4.2(1)
class Span final : public PatternField {
 public:
  Span(const Scope&, const SpanFieldConfig& config, const Args& args) : PatternField(args), config_(config) {
    check_usage(!args.causal || config.right <= 0, "span", "right ", config.right,
                " tokens are after a query, which a causal model does not see; give 0");
  }
  int64_t reach() const override { return args().causal ? config_.left + 1 : 0; }

 protected:
  void see(int64_t position, int64_t, int64_t, std::vector<KeyRange>& out) const override {
    const int64_t right = config_.right < 0 ? config_.left : config_.right;
    out.push_back({position - config_.left, position + right + 1});
  }

 private:
  SpanFieldConfig config_;
};

}  // namespace

void register_field_span(Registry& registry) {
  registry.add<Field, Span, SpanFieldConfig>(
      "span", {.spec = "sparse.span",
               .summary = "a window with a given number of tokens before and, in encoders, after each token",
               .source = "TB Eq 6.123",
               .cross = true,
               .samples = {"{left: 2}"}});
}

}  // namespace lithe
