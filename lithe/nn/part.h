// What every swappable part is.
#pragma once

namespace lithe {

class Part {
 public:
  virtual ~Part() = default;
};

}  // namespace lithe
