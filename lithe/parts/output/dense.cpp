// The output projection W_c of multi-head attention [TB Eq 6.31].
#include "lithe/nn/registry.h"

namespace lithe {
namespace {

class Dense final : public Output {
 public:
  Dense(const Scope& scope, const NoOptions&, const Args& args)
      : map_(scope, args.context, Axis::hidden(args.hidden_size), args.bias, InitRole::residual_output) {}
  Var forward(const Var& context) const override { return map_(context); }

 private:
  Linear map_;
};

}  // namespace

void register_output_dense(Registry& registry) {
  registry.add<Output, Dense, NoOptions>(
      "dense", {.summary = "learned matrix from concatenated heads to rows", .source = "TB Eq 6.31"});
}

}  // namespace lithe
