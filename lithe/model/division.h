// Which part of each parameter of a divided model this rank holds, and how its parts are cut.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "lithe/model/tensor_stream.h"
#include "lithe/nn/registry.h"
#include "lithe/parallel/layout.h"

namespace lithe {

struct ModelConfig;

/// The division of one model among the ranks of its Layout. Files hold whole models, whoever writes and reads them.
class Division {
 public:
  /// Fails (usage) where the model cannot be divided so.
  Division(const Layout& layout, const ModelConfig& config);

  const Layout& layout() const { return layout_; }

  // ---- while the model is made

  using Build = std::function<std::unique_ptr<SubLayer>(const PartChoice& choice, const Scope& scope)>;
  /// The rank's share of a mixer or an ffn, with the numbers that it has in one process, and what joins it to the
  /// others.
  std::unique_ptr<SubLayer> mixer(const PartChoice& choice, const Scope& scope, const Mixer::Args& args,
                                  const Build& build);
  std::unique_ptr<SubLayer> ffn(const PartChoice& choice, const Scope& scope, const Ffn::Args& args,
                                const Build& build);
  /// For parts that only other ranks hold: they have shapes, no numbers and no place among the parameters.
  Scope elsewhere(const Scope& scope);
  /// Layers [first, end) of `layers` are this rank's.
  std::pair<int64_t, int64_t> stage_of(int64_t layers) const;
  bool first_stage() const { return layout_.pipeline().first(); }
  bool last_stage() const { return layout_.pipeline().rank + 1 == layout_.pipeline().size; }
  /// The first and the last stage have this parameter, each with a part of its gradient.
  void at_both_ends(const Parameter& p) { shares_[p.name].both_ends = true; }

  // ---- the numbers

  /// Of the parameter in one process.
  Shape whole_shape(const Parameter& p) const;
  /// This rank's part of such numbers.
  Tensor taken(const std::string& name, const Tensor& whole) const;
  /// Sums the gradients that ranks have parts of. All ranks call it, when those of a step have gathered.
  void finish_gradients(const Parameters& parameters) const;
  /// The root of the sum over all parameters, each number once, of what `squares` says of this rank's.
  double norm(const std::vector<std::pair<const Parameter*, double>>& squares) const;

  /// Of all stages those of the last.
  void share(LossSums& sums) const;

  // ---- files

  /// Calls `write` on the first rank with tensors of the whole model, made of what all ranks give; the others answer
  /// until it returns. `mine`: by the name of a parameter after `prefixes` ("m."), if it has one. An error of the first
  /// rank is thrown on all.
  void gather(const std::map<std::string, PendingTensor>& mine, const std::vector<std::string>& prefixes,
              const std::function<void(const std::map<std::string, PendingTensor>& whole)>& write) const;

  /// What tensor rank `rank` has of a parameter with axes `whole`, where each has `mine`; none: all of it.
  static std::optional<Slice> slice_of_rank(const Axes& whole, const Axes& mine, int rank);

  /// Of the model that this thread makes; null: it is whole.
  static Division* making();
  class Making {
   public:
    explicit Making(Division* division);
    ~Making();
    Making(const Making&) = delete;

   private:
    Division* before_;
  };

 private:
  struct Share {
    Axes whole, mine;            // empty: the parameter is the same, or not here
    std::optional<Slice> slice;  // of `whole`
    bool partial = false;        // its gradients are parts of a sum over the tensor ranks
    bool first_only = false;     // an addend, which the first tensor rank adds for all
    bool of_expert = false;      // of an expert that no other rank has
    bool both_ends = false;
  };
  const Layout& layout_;
  std::map<std::string, Share> shares_;  // of those that are not the same on all ranks
  Parameters absent_;
  std::optional<BuildContext> elsewhere_;

  std::unique_ptr<SubLayer> cut(const PartChoice& whole, const PartChoice& share, const Scope& scope,
                                const Build& build);
  const Share& share_of(const std::string& name) const;
  /// Of each parameter: a rank that has the same share has a gradient of it.
  std::vector<uint8_t> gradients_anywhere(const Parameters& parameters) const;
  /// This rank speaks for the parameter's numbers here.
  bool counts(const std::string& name) const;
};

/// A sub-layer of the model that is being made, or this rank's share of it.
template <class Interface>
std::unique_ptr<SubLayer> make_sub_layer(const PartChoice& choice, const Scope& scope,
                                         const typename Interface::Args& args) {
  const auto build = [&](const PartChoice& of, const Scope& at) -> std::unique_ptr<SubLayer> {
    return Registry::instance().make<Interface>(of, at, args);
  };
  Division* const division = Division::making();
  if (!division) return build(choice, scope);
  if constexpr (std::is_same_v<Interface, Mixer>)
    return division->mixer(choice, scope, args, build);
  else
    return division->ffn(choice, scope, args, build);
}

}  // namespace lithe
