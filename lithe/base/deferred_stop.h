// Work that no signal may cut short.
#pragma once

namespace lithe {

/// While one lives and `on`, stop_signal() says 0: for work in which ranks wait for each other, and of which one would
/// leave the others waiting. A second signal ends the process at once all the same.
class DeferredStop {
 public:
  explicit DeferredStop(bool on);
  ~DeferredStop();
  DeferredStop(const DeferredStop&) = delete;

 private:
  bool on_;
};

}  // namespace lithe
