#include "lithe/base/quiet_log.h"

#include <gtest/gtest.h>

#include "lithe/base/log.h"

namespace lithe {
namespace {

std::string logged(LogLevel level) {
  set_log_level(level);
  testing::internal::CaptureStderr();
  {
    const QuietLog quiet;
    log_info("inner info");
    log_warning("inner warning");
  }
  log_info("outer info");
  set_log_level(LogLevel::info);
  return testing::internal::GetCapturedStderr();
}

TEST(QuietLog, DropsInfoUntilItEnds) {
  const std::string text = logged(LogLevel::info);
  EXPECT_EQ(text.find("inner info"), std::string::npos) << text;
  EXPECT_NE(text.find("inner warning"), std::string::npos) << text;
  EXPECT_NE(text.find("outer info"), std::string::npos) << text;
}

TEST(QuietLog, KeepsOtherLevels) {
  EXPECT_NE(logged(LogLevel::debug).find("inner info"), std::string::npos);
  const std::string few = logged(LogLevel::error);
  EXPECT_EQ(few.find("inner"), std::string::npos) << few;
  EXPECT_EQ(few.find("outer"), std::string::npos) << few;
}

}  // namespace
}  // namespace lithe
