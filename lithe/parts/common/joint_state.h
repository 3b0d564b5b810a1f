// A decode state that consists of others, for mixers with two things to remember.
#pragma once

#include <memory>

#include "lithe/nn/state.h"

namespace lithe {

class JointState final : public State {
 public:
  explicit JointState(std::vector<std::unique_ptr<State>> parts) : parts_(std::move(parts)) {}
  State& operator[](size_t i) { return *parts_[i]; }

  int64_t bytes() const override {
    int64_t total = 0;
    for (const auto& part : parts_) total += part->bytes();
    return total;
  }
  void reorder(const std::vector<int64_t>& from) override {
    for (const auto& part : parts_) part->reorder(from);
  }
  bool truncates() const override {
    for (const auto& part : parts_)
      if (!part->truncates()) return false;
    return true;
  }
  bool differentiable() const override {
    for (const auto& part : parts_)
      if (!part->differentiable()) return false;
    return true;
  }
  /// One that cannot truncate refuses before others have; the rest promise to.
  void truncate(int64_t sequence, int64_t tokens) override {
    for (const bool able : {false, true})
      for (const auto& part : parts_)
        if (part->truncates() == able) part->truncate(sequence, tokens);
  }
  NamedTensors save() const override {
    NamedTensors out;
    for (size_t i = 0; i < parts_.size(); ++i)
      for (const auto& [name, tensor] : parts_[i]->save()) out[cat(i, ".", name)] = tensor;
    return out;
  }
  void restore(const NamedTensors& kept) override {
    for (size_t i = 0; i < parts_.size(); ++i) {
      NamedTensors mine;
      const std::string prefix = cat(i, ".");
      for (const auto& [name, tensor] : kept)
        if (name.compare(0, prefix.size(), prefix) == 0) mine[name.substr(prefix.size())] = tensor;
      parts_[i]->restore(mine);
    }
  }

 private:
  std::vector<std::unique_ptr<State>> parts_;
};

}  // namespace lithe
