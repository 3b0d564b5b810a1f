#include "lithe/data/encode_texts.h"

#include <algorithm>

#include "lithe/base/threads.h"

namespace lithe {

std::vector<std::vector<int32_t>> encode_texts(const Tokenizer& tokenizer, int64_t count,
                                               const std::function<std::string_view(int64_t)>& text_of) {
  constexpr int64_t kTogether = 16;
  std::vector<std::vector<int32_t>> ids(static_cast<size_t>(count));
  parallel_tasks((count + kTogether - 1) / kTogether, [&](int64_t task) {
    const int64_t end = std::min((task + 1) * kTogether, count);
    for (int64_t i = task * kTogether; i < end; ++i) ids[size_t(i)] = tokenizer.encode(text_of(i));
  });
  return ids;
}

}  // namespace lithe
