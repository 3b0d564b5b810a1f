#include "lithe/text/truncation.h"

#include <gtest/gtest.h>

#include <numeric>

namespace lithe {
namespace {

// oracle: seqc.truncate
TEST(Truncation, KeepsFirstLastOrBothEnds) {
  std::vector<int32_t> text(10);
  std::iota(text.begin(), text.end(), 0);
  const auto cut = [&](const std::string& keep, int64_t room, int64_t head = 0) {
    const Truncation by{.keep = keep, .head_tokens = head};
    const std::vector<int32_t> out = by.cut(text, room);
    EXPECT_EQ(int64_t(out.size()), std::min<int64_t>(room, 10));
    for (int32_t token = 0; token < 10; ++token) {  // place() says the same
      const int64_t place = by.place(token, 10, room);
      EXPECT_EQ(place >= 0 ? out[size_t(place)] : token, token);
      EXPECT_EQ(place >= 0, std::find(out.begin(), out.end(), token) != out.end());
    }
    return out;
  };
  EXPECT_EQ(cut("first", 4), (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(cut("last", 4), (std::vector<int32_t>{6, 7, 8, 9}));
  EXPECT_EQ(cut("ends", 5), (std::vector<int32_t>{0, 1, 2, 8, 9}));
  EXPECT_EQ(cut("ends", 5, 1), (std::vector<int32_t>{0, 6, 7, 8, 9}));
  EXPECT_EQ(cut("ends", 3, 7), (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(cut("last", 0), std::vector<int32_t>());
  for (const std::string keep : {"first", "last", "ends"}) {
    EXPECT_EQ(cut(keep, 10), text) << keep;
    EXPECT_EQ(cut(keep, 12), text) << keep;
  }
  EXPECT_EQ((Truncation{.keep = "last"}).cut(text, 2, 2), (std::vector<int32_t>{6, 7, 8, 9}));
}

}  // namespace
}  // namespace lithe
