#include "lithe/model/division.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lithe/base/part_options.h"
#include "lithe/model/config.h"
#include "lithe/model/divided_parts.h"
#include "lithe/nn/sharing.h"
#include "lithe/parallel/gather.h"
#include "lithe/parallel/operations.h"
#include "lithe/parts/common/key_value_heads.h"

namespace lithe {
namespace {

thread_local Division* making_now = nullptr;

constexpr const char* kWhat = "train.parallel";

void set_option(PartChoice& part, const std::string& name, int64_t value) {
  part.options.set(name, Node::scalar(std::to_string(value)));
}

int64_t divided(const char* what, int64_t count, int64_t ranks, const std::string& where) {
  check_usage(count % ranks == 0, kWhat, "tensor ", ranks, " does not divide the ", count, " ", what, " of ", where,
              "; choose a divisor, or another number of them");
  return count / ranks;
}

void check_one_of(const std::string& name, std::initializer_list<const char*> known, const char* what,
                  const std::string& where) {
  std::vector<std::string> names(known.begin(), known.end());
  check_usage(std::ranges::find(names, name) != names.end(), kWhat, "tensor divides attention with ", what, " ",
              join(names), ", and ", where, " has ", name, "; choose one of these, or tensor: 1");
}

// The same attention with the heads of one rank.
PartChoice share_of_mixer(const PartChoice& whole, const Mixer::Args& args, int64_t ranks, const std::string& where) {
  check_usage(whole.type == "attention", kWhat, "tensor divides the heads of mixer attention, and ", where, " is ",
              whole.type, "; leave tensor at 1, or choose attention");
  const std::string heads = option(whole, "heads");
  check_one_of(heads, {"mha", "gqa", "mqa", "mhe_add", "mhe_mul"}, "heads", where);
  check_one_of(option(whole, "field"), {"full", "span", "chunk", "strided", "dilated", "global", "prefix"}, "field",
               where);
  check_one_of(option(whole, "output"), {"dense"}, "output", where);
  check_usage(option(whole, "map") == "own" && option_number(whole, "attention_dropout") == 0, kWhat,
              "tensor divides attention with a map of its own and without attention_dropout, which ", where,
              " is not; set mixer.map: own and attention_dropout: 0, or tensor: 1");
  check_usage(!args.position || !args.position->biases(), kWhat,
              "tensor divides attention whose positions turn queries "
              "and keys or add to rows (rotary, learned, sinusoidal, none), and those of ",
              where, " change logits; choose one of these, or tensor: 1");
  const int64_t count = option_integer(whole, "num_attention_heads"), width = option_integer(whole, "head_dim");
  PartChoice out = whole;
  set_option(out, "num_attention_heads", divided("heads", count, ranks, where));
  set_option(out, "head_dim", width ? width : args.hidden_size / count);
  if (heads == "mha" || heads == "gqa")
    check_usage(option(whole, "heads.qk_norm") != "row", kWhat,
                "tensor divides heads whose norm is of each (qk_norm: "
                "head), and that of ",
                where, " is of the row; choose head or none, or tensor: 1");
  if (heads == "gqa") {
    const int64_t kept = key_value_heads(whole);
    Node node = *whole.options.find("heads");
    node.set("num_key_value_heads",
             Node::scalar(std::to_string(kept == 1 ? 1 : divided("key and value heads", kept, ranks, where))));
    out.options.set("heads", node);
  }
  return out;
}

// The same ffn with the hidden units of one rank.
PartChoice share_of_ffn(const PartChoice& whole, int64_t hidden, int64_t ranks, const std::string& where) {
  const std::vector<std::string> known{"relu", "gelu", "silu", "geglu", "swiglu"};
  check_usage(std::ranges::find(known, whole.type) != known.end(), kWhat, "tensor divides the ffns ", join(known),
              ", and ", where, " is ", whole.type, "; choose one of these, or tensor: 1",
              whole.type == "moe" ? " and expert" : "");
  check_usage(!whole.options.find("activation_penalty") || option_number(whole, "activation_penalty") == 0, kWhat,
              "tensor divides an ffn without activation_penalty, which is of all its units; set it to 0 in ", where,
              ", or tensor: 1");
  const int64_t width = option_integer(whole, "intermediate_size");
  PartChoice out = whole;
  set_option(out, "intermediate_size", divided("hidden units", width ? width : 4 * hidden, ranks, where));
  return out;
}

}  // namespace

// Of each factor that is larger in `whole` the part of that rank.
std::optional<Slice> Division::slice_of_rank(const Axes& whole, const Axes& mine, int rank) {
  Selection cut;
  for (size_t a = 0; a < whole.size(); ++a)
    for (size_t f = 0; f < whole[a].factors().size(); ++f) {
      const int64_t all = whole[a].factors()[f].count, here = mine[a].factors()[f].count;
      if (all == here) continue;
      std::vector<int64_t> indices(static_cast<size_t>(here));
      std::iota(indices.begin(), indices.end(), rank * here);
      cut[whole[a].factors()[f].of] = {all, std::move(indices)};
    }
  if (cut.empty()) return {};
  Slice slice = Slice::of(whole, cut);
  check(slice.shape() == shape_of(mine), kWhat, "a share of ", shape_of(whole), " is ", slice.shape(),
        ", and the part made ", shape_of(mine));
  return slice;
}

Division::Making::Making(Division* division) : before_(making_now) { making_now = division; }
Division::Making::~Making() { making_now = before_; }
Division* Division::making() { return making_now; }

Division::Division(const Layout& layout, const ModelConfig& config) : layout_(layout) {
  check_divisible(layout.config(), config);
}

// Built whole beside the model, for its axes and its numbers, and cut.
std::unique_ptr<SubLayer> Division::cut(const PartChoice& whole, const PartChoice& share, const Scope& scope,
                                        const Build& build) {
  Parameters& own = *scope.context().parameters;
  Parameters all;
  {
    BuildContext aside = scope.context();
    aside.parameters = &all;
    aside.trainable = false;
    const SharedParameters none;
    build(whole, Scope(aside, scope.path(), scope.layer()));
  }
  const size_t before = own.all().size();
  std::unique_ptr<SubLayer> part = build(share, scope);
  for (size_t i = before; i < own.all().size(); ++i) {
    Parameter& p = own.all()[i];
    const Parameter* const from = all.find(p.name);
    check(from != nullptr, kWhat, "the whole part has no '", p.name, "'");
    Share& of = shares_[p.name];
    of.whole = from->axes, of.mine = p.axes;
    of.slice = slice_of_rank(from->axes, p.axes, layout_.tensor().rank);
    of.first_only = !of.slice && p.joins;
    of.partial = !of.slice && !of.first_only;
    if (of.first_only && !layout_.tensor().first()) {
      if (!p.master.value().is_meta()) fill_zero(p.master.value());
      p.master = Var(p.master.value());
    } else if (of.slice && !p.master.value().is_meta()) {
      const MemoryScope scratch(MemoryClass::workspace);
      p.assign(of.slice->taken(from->master.value()));
    }
    if (p.view) p.view->refresh(p.master.value());
  }
  return part;
}

std::unique_ptr<SubLayer> Division::mixer(const PartChoice& choice, const Scope& scope, const Mixer::Args& args,
                                          const Build& build) {
  const Group &tensor = layout_.tensor(), &sequence = layout_.sequence();
  if (!sequence.alone() && !rings(choice, args)) {
    check_usage(tensor.alone(), kWhat,
                "tensor and sequence together divide attention with field full and positions "
                "that change no logits, which ",
                scope.path(), " is not; set one of both to 1");
    const Layout::Use whole(nullptr);
    return on_gathered_rows(build(choice, scope), sequence, scope.path());
  }
  if (tensor.alone()) return build(choice, scope);
  return tensor_parallel(cut(choice, share_of_mixer(choice, args, tensor.size, scope.path()), scope, build), tensor);
}

std::unique_ptr<SubLayer> Division::ffn(const PartChoice& choice, const Scope& scope, const Ffn::Args& args,
                                        const Build& build) {
  const Group &tensor = layout_.tensor(), &expert = layout_.expert();
  if (choice.type == "moe" && !expert.alone()) {
    Parameters& own = *scope.context().parameters;
    const size_t before = own.all().size();
    std::unique_ptr<SubLayer> part = build(choice, scope);
    const std::string experts = scope.path() + ".experts.";
    for (size_t i = before; i < own.all().size(); ++i)
      if (own.all()[i].name.starts_with(experts)) shares_[own.all()[i].name].of_expert = true;
    return part;
  }
  if (tensor.alone()) return build(choice, scope);
  return tensor_parallel(cut(choice, share_of_ffn(choice, args.hidden_size, tensor.size, scope.path()), scope, build),
                         tensor);
}

Scope Division::elsewhere(const Scope& scope) {
  if (!elsewhere_) {
    elsewhere_ = scope.context();
    elsewhere_->parameters = &absent_;
    elsewhere_->device = Device::meta;
    elsewhere_->trainable = false;
    elsewhere_->packed.clear();
  }
  return Scope(*elsewhere_, scope.path(), scope.layer());
}

std::pair<int64_t, int64_t> Division::stage_of(int64_t layers) const {
  const Group& stages = layout_.pipeline();
  return {layers * stages.rank / stages.size, layers * (stages.rank + 1) / stages.size};
}

const Division::Share& Division::share_of(const std::string& name) const {
  static const Share whole;
  const auto found = shares_.find(name);
  return found == shares_.end() ? whole : found->second;
}

Shape Division::whole_shape(const Parameter& p) const {
  const Share& share = share_of(p.name);
  return share.whole.empty() ? p.master.shape() : shape_of(share.whole);
}

Tensor Division::taken(const std::string& name, const Tensor& whole) const {
  const Share& share = share_of(name);
  if (share.slice) return share.slice->taken(whole);
  if (!share.first_only || layout_.tensor().first()) return whole;
  return zeros(whole.shape(), whole.dtype(), whole.device());
}

bool Division::counts(const std::string& name) const {
  const Share& share = share_of(name);
  return (share.slice || layout_.tensor().first()) && (share.of_expert || layout_.expert().first()) &&
         layout_.sequence().first() && (!share.both_ends || first_stage());
}

// A layer that was dropped here, or an expert without tokens, may have a gradient on other ranks.
std::vector<uint8_t> Division::gradients_anywhere(const Parameters& parameters) const {
  std::vector<uint8_t> out;
  bool planned = parameters.all().empty();  // nothing is sent
  for (const Parameter& p : parameters.all()) {
    out.push_back(p.master.grad().defined());
    planned = planned || p.master.value().is_meta();
  }
  for (const Group& group : {layout_.sequence(), layout_.data()}) {
    if (group.alone() || !group.with || planned) continue;
    for (const std::vector<uint8_t>& of_rank : lithe::gather(*group.with, out))
      for (size_t i = 0; i < out.size(); ++i) out[i] |= of_rank[i];
  }
  return out;
}

void Division::finish_gradients(const Parameters& parameters) const {
  const std::vector<uint8_t> anywhere = gradients_anywhere(parameters);
  size_t at = 0;
  for (const Parameter& p : parameters.all()) {
    const GradRef& slot = p.master.ref();
    if (!anywhere[at++] || !slot) continue;
    if (!slot->grad.defined()) {
      const MemoryScope memory(MemoryClass::gradients);
      slot->grad = zeros(slot->shape, slot->dtype, slot->device);
    }
    const Tensor gradient = slot->grad;
    const Share& share = share_of(p.name);
    if (share.partial) sum_over(gradient, layout_.tensor());
    sum_over(gradient, layout_.sequence());
    sum_over(gradient, layout_.data());
    if (!share.both_ends || layout_.pipeline().alone()) continue;
    const MemoryScope scratch(MemoryClass::workspace);
    exchange_sum(gradient, layout_.pipeline(), first_stage() ? layout_.pipeline().size - 1 : 0);
  }
}

void Division::share(LossSums& sums) const {
  const Group& stages = layout_.pipeline();
  if (stages.alone()) return;
  const Tensor numbers = tensor_of({3}, std::vector<double>{sums.loss, sums.nll, double(sums.labels)});
  broadcast(numbers, stages, stages.size - 1);
  sums = {value_at(numbers, 0), value_at(numbers, 1), int64_t(value_at(numbers, 2))};
}

double Division::norm(const std::vector<std::pair<const Parameter*, double>>& squares) const {
  double sum = 0;
  for (const auto& [p, square] : squares) sum += counts(p->name) ? square : 0;
  return std::sqrt(sum_over(sum, layout_.model()));
}

}  // namespace lithe
