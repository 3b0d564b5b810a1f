// Texts of several requests in one pass, and what of it others notice: nothing.
#include "lithe/serve/text_queue.h"

#include <gtest/gtest.h>

#include "tests/serve/serve_kit.h"

namespace lithe {
namespace {

using Queue = TextQueue<std::string>;
using Strings = std::vector<std::string>;

class TextQueueTest : public ::testing::Test {
 protected:
  Queue queue_;
  std::vector<Strings> passes_;

  Queue::Ticket add(const std::string& kind, const Strings& texts) {
    return queue_.add({.kind = kind, .texts = texts, .read = [this, kind](const Strings& some) {
                         passes_.push_back(some);
                         Strings out;
                         for (const std::string& text : some) {
                           check(text != "bad", "test", "a bad text");
                           out.push_back(kind + text);
                         }
                         return out;
                       }});
  }
};

TEST_F(TextQueueTest, TextsOfOneKindAreReadTogetherUpToAPass) {
  const auto a = add("x", {"1", "2"}), other = add("y", {"3"}), b = add("x", {"4", "5"}), c = add("x", {"6"});
  EXPECT_EQ(queue_.answer(a, 3), (Strings{"x1", "x2"}));
  EXPECT_EQ(passes_, (std::vector<Strings>{{"1", "2", "6"}}));
  EXPECT_EQ(queue_.answer(other, 3), (Strings{"y3"}));
  EXPECT_EQ(queue_.answer(b, 3), (Strings{"x4", "x5"}));
  EXPECT_EQ(queue_.answer(c, 3), (Strings{"x6"}));
  EXPECT_EQ(passes_.size(), 3u);  // c was answered with a
}

TEST_F(TextQueueTest, NobodyHasTheErrorOfAnother) {
  const auto a = add("x", {"1"}), b = add("x", {"bad"}), c = add("x", {"2"});
  EXPECT_EQ(queue_.answer(a, 8), Strings{"x1"});
  EXPECT_THROW(queue_.answer(b, 8), Error);
  EXPECT_EQ(queue_.answer(c, 8), Strings{"x2"});
  EXPECT_EQ(passes_, (std::vector<Strings>{{"1", "bad", "2"}, {"1"}, {"bad"}, {"2"}}));
  EXPECT_THROW(queue_.answer(add("x", {"bad"}), 8), Error);
}

TEST_F(TextQueueTest, TextsThatNobodyWaitsForAreNotRead) {
  const auto a = add("x", {"1"});
  add("x", {"2"});
  EXPECT_EQ(queue_.answer(a, 8), Strings{"x1"});
  EXPECT_EQ(passes_, (std::vector<Strings>{{"1"}}));
}

TEST_F(ServeTest, RowsOfTextsHaveTheSameBitsInEveryCompany) {
  begin();
  const auto body = [](int i) {
    return cat(R"({"input": ["text )", i, R"(", "a"], "encoding_format": ")", i % 2 ? "float" : "base64", "\"}");
  };
  std::vector<Json> alone;
  for (int i = 0; i < 8; ++i) alone.push_back(post("/v1/embeddings", body(i)));
  std::vector<std::thread> threads;
  std::vector<int> different(8, 0);
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      httplib::Client client("127.0.0.1", port_);
      for (int round = 0; round < 5; ++round) {
        const auto result = client.Post("/v1/embeddings", body(i), "application/json");
        different[size_t(i)] += !result || parse_json(result->body, "answer") != alone[size_t(i)];
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(different, std::vector<int>(8, 0));
}

}  // namespace
}  // namespace lithe
