// What every swappable part is.
#pragma once

#include <string>
#include <vector>

namespace lithe {

class Part {
 public:
  virtual ~Part() = default;
  /// Columns of the input (ModelInput::columns) that it cannot do without. A model that is not given one says so.
  virtual std::vector<std::string> reads_columns() const { return {}; }
};

}  // namespace lithe
