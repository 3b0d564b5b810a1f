#include "lithe/data/encode_texts.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>

#include "lithe/base/threads.h"

namespace lithe {

std::vector<std::vector<int32_t>> encode_texts(const Tokenizer& tokenizer, int64_t count,
                                               const std::function<std::string_view(int64_t)>& text_of) {
  std::vector<std::vector<int32_t>> ids(static_cast<size_t>(count));
  std::atomic<int64_t> next = 0;
  std::exception_ptr error;
  std::mutex error_mutex;
  // Texts differ in length, so each thread takes the next few; an exception must not leave a parallel loop.
  parallel_for(threads(), 1, [&](int64_t, int64_t, int) {
    try {
      for (int64_t first; (first = next.fetch_add(16)) < count;)
        for (int64_t i = first; i < std::min(first + 16, count); ++i) ids[size_t(i)] = tokenizer.encode(text_of(i));
    } catch (...) {
      const std::lock_guard lock(error_mutex);
      error = std::current_exception();
    }
  });
  if (error) std::rethrow_exception(error);
  return ids;
}

}  // namespace lithe
