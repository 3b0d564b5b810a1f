// No output projection: the concatenated heads are the rows.
#include "lithe/nn/registry.h"

namespace lithe {
namespace {

class NoOutput final : public Output {
 public:
  NoOutput(const Scope& scope, const NoOptions&, const Args& args) {
    check_usage(args.context.size() == args.hidden_size, "output", "part none needs heads * head_dim = hidden_size ",
                args.hidden_size, ", got ", args.context.size());
    scope.couples({Dimension::head_width});  // which channel of the rows it is
  }
  Var forward(const Var& context) const override { return context; }
};

}  // namespace

void register_output_none(Registry& registry) {
  registry.add<Output, NoOutput, NoOptions>("none", {.summary = "concatenated heads are the rows"});
}

}  // namespace lithe
