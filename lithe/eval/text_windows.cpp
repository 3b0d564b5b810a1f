#include "lithe/eval/text_windows.h"

#include <algorithm>

namespace lithe {

WindowSizes window_sizes(const char* operation, const Model& model, const TokenStore& text, const EvalConfig& config,
                         int64_t default_context) {
  model.check_predicts_next(operation);
  check_usage(text.token_width() == 1, operation, "the text's tokens are codes of ", text.token_width(),
              " ints, which no model predicts");
  const int64_t context = config.context_length ? config.context_length : default_context;
  check_usage(context >= 1, operation, "context_length must be at least 1, got ", context);
  const int64_t stride = config.stride ? config.stride : context, limit = model.position_limit();
  check_usage(stride <= context, operation, "stride ", stride, " must not exceed context_length ", context);
  check_usage(!limit || context <= limit || config.carry_state, operation, "context_length ", context,
              " is beyond the model's ", limit, " positions; choose that or less");
  check_usage(text.info().vocab_size <= model.config().vocab_size, operation, "the text's ids go up to ",
              text.info().vocab_size, ", the model's vocabulary has ", model.config().vocab_size);
  return {context, stride};
}

void for_each_document(const TokenStore& text,
                       const std::function<void(const std::vector<int32_t>& string, int64_t document)>& f) {
  for (int64_t d = 0; d < text.documents(); ++d) {
    std::vector<int32_t> string;
    const int64_t first = text.document_begin(d), count = text.document_end(d) - first;
    if (text.begin_of_text()) string.push_back(*text.begin_of_text());
    string.resize(string.size() + size_t(count));
    text.copy(first, count, string.data() + (string.size() - size_t(count)));
    if (text.end_of_text()) string.push_back(*text.end_of_text());
    f(string, d);
  }
}

void for_each_window(const TokenStore& text, const WindowSizes& sizes, const WindowFn& f) {
  for_each_document(text, [&](const std::vector<int32_t>& string, int64_t document) {
    const int64_t rows = int64_t(string.size()) - 1;
    for (int64_t scored = 0; scored < rows;) {
      // The first window scores all its rows; later ones end `stride` rows further on.
      const int64_t end = std::min(rows, scored == 0 ? sizes.context : scored + sizes.stride),
                    begin = std::max<int64_t>(0, end - sizes.context);
      f(string.data() + begin, string.data() + begin + 1, end - begin, end - scored, document);
      scored = end;
    }
  });
}

}  // namespace lithe
