#include "lithe/text/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "lithe/base/error.h"
#include "lithe/text/pattern_dialect.h"

namespace lithe {
namespace {

constexpr size_t max_expression = 1 << 16;
// Enough for groups repeated over megabytes of one word; reached only by expressions that explode.
constexpr uint32_t match_limit = 20'000'000;
constexpr size_t jit_stack = 16 << 20;

// Scratch memory of matching, one per thread.
struct Scratch {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(32 << 10, jit_stack, nullptr);
  Scratch() {
    check(data && context && stack, "tokenizer", "out of memory for matching expressions");
    pcre2_jit_stack_assign(context, nullptr, stack);
    pcre2_set_match_limit(context, match_limit);
  }
  ~Scratch() {
    pcre2_jit_stack_free(stack);
    pcre2_match_context_free(context);
    pcre2_match_data_free(data);
  }
};

std::string message_of(int code) {
  unsigned char text[256];
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

}  // namespace

struct Pattern::Code {
  pcre2_code* compiled = nullptr;
  std::string expression, origin;
  ~Code() { pcre2_code_free(compiled); }

  /// The first match from `from` on, its offsets in `into` (null: the thread's own); null where there is none.
  const size_t* match(std::string_view text, size_t from, pcre2_match_data* into = nullptr) const {
    thread_local Scratch scratch;
    if (!into) into = scratch.data;
    const int rc = pcre2_match(compiled, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                               PCRE2_NO_UTF_CHECK, into, scratch.context);
    if (rc == PCRE2_ERROR_NOMATCH) return nullptr;
    check(rc >= 0, "tokenizer", origin, ": expression '", expression, "': ", message_of(rc));
    return pcre2_get_ovector_pointer(into);
  }
};

Pattern::Pattern(std::string_view expression, std::string_view origin)
    : Pattern(expression, pcre_expression(expression, origin), origin) {}

Pattern Pattern::python(std::string_view expression, std::string_view origin) {
  return Pattern(expression, std::string(expression), origin);
}

Pattern::Pattern(std::string_view expression, const std::string& translated, std::string_view origin) {
  check(expression.size() <= max_expression, "expression", origin, ": an expression of ", expression.size(),
        " bytes is above the limit of ", max_expression);
  auto code = std::make_shared<Code>();
  code->expression = expression;
  code->origin = origin;
  int error = 0;
  size_t at = 0;
  code->compiled = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                                 PCRE2_UTF | PCRE2_UCP, &error, &at, nullptr);
  check(code->compiled, "tokenizer", origin, ": expression '", expression, "': ", message_of(error));
  // Without a JIT on this machine pcre2_match interprets.
  pcre2_jit_compile(code->compiled, PCRE2_JIT_COMPLETE);
  code_ = std::move(code);
}

Pattern Pattern::literal(std::string_view text, std::string_view origin) {
  std::string expression;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x80 && !std::isalnum(static_cast<unsigned char>(c))) expression += '\\';
    expression += c;
  }
  return Pattern(expression, origin);
}

bool Pattern::find(std::string_view text, size_t from, std::vector<Span>& groups) const {
  const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> data(
      pcre2_match_data_create_from_pattern(code_->compiled, nullptr), pcre2_match_data_free);
  check(data != nullptr, "expression", "out of memory for matching expressions");
  const size_t* offsets = code_->match(text, from, data.get());
  groups.clear();
  for (uint32_t i = 0; offsets && i < pcre2_get_ovector_count(data.get()); ++i)
    groups.push_back({offsets[2 * i], offsets[2 * i + 1]});
  return offsets;
}

bool Pattern::find(std::string_view text, size_t from, size_t& begin, size_t& end) const {
  const size_t* offsets = code_->match(text, from);
  if (!offsets) return false;
  begin = offsets[0], end = offsets[1];
  return true;
}

}  // namespace lithe
