// Tests of the program as a person or a script meets it.
#pragma once

#include <gtest/gtest.h>

#include "tests/support/process.h"

namespace lithe::kit {

/// Skipped where there is no program.
class ProgramTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!have_program()) GTEST_SKIP() << "LITHE_BINARY is not set";
  }
  /// Ends with `code`, prints nothing, and says `words`.
  static void expect_error(const std::vector<std::string>& arguments, int code, const std::string& words) {
    const Finished f = run_program(arguments);
    EXPECT_EQ(f.code, code) << f.err;
    EXPECT_EQ(f.out, "");
    EXPECT_NE(f.err.find(words), std::string::npos) << f.err;
  }
};

}  // namespace lithe::kit
