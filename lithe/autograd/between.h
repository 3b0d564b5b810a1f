// What runs between the operations of a backward pass.
#pragma once

#include <functional>

namespace lithe {

/// While it lives, backward passes of this thread call it after each operation, behind those around it.
class BetweenOperations {
 public:
  explicit BetweenOperations(std::function<void()> call);
  ~BetweenOperations();
  BetweenOperations(const BetweenOperations&) = delete;

 private:
  std::function<void()> before_;
};

/// Calls it when the backward pass of the tape that records has done all that is recorded after this.
void when_passed_backwards(std::function<void()> call);

}  // namespace lithe
