// The Error that a computation throws, as text.
#pragma once

#include <string>

#include "lithe/base/error.h"

namespace lithe::kit {

/// The message of the Error that f throws; "no error" without one.
template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

/// The same after the exit code that goes with it: "2 train: ...".
template <class F>
std::string coded_error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return cat(int(error.code()), " ", error.what());
  }
  return "no error";
}

}  // namespace lithe::kit
