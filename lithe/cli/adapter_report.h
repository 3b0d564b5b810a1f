// What import and export print of an adapter.
#pragma once

#include <iostream>

#include "lithe/base/json.h"
#include "lithe/interchange/peft.h"

namespace lithe {

inline int print_adapter(const AdapterReport& report, const std::string& out, bool json) {
  if (json)
    std::cout << dump(Json({{"model_type", report.model_type},
                            {"modules", report.modules},
                            {"parameters", report.parameters},
                            {"rank", report.rank}}),
                      2)
              << "\n";
  else
    std::cout << report.model_type << ": adapter of " << report.modules << " modules, " << report.parameters
              << " parameters, rank " << report.rank << ", in " << out << "\n";
  return 0;
}

}  // namespace lithe
