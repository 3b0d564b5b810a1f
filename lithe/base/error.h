// Errors that say the operation, the rule, the values and the remedy.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace lithe {

/// Exit codes of the command line (docs/design.md); a run stopped by signal n exits with 128+n.
enum class ExitCode { done = 0, failed = 1, usage = 2, diverged = 3, memory = 4 };

/// The one exception of lithe. `what()` is "operation: rule, values, remedy" on one line.
class Error : public std::runtime_error {
 public:
  Error(std::string_view operation, std::string_view message, ExitCode code = ExitCode::failed)
      : std::runtime_error(std::string(operation) + ": " + std::string(message)), operation_(operation), code_(code) {}
  const std::string& operation() const { return operation_; }
  ExitCode code() const { return code_; }

 private:
  std::string operation_;
  ExitCode code_;
};

/// One argument of cat(): text, a character, a number, or something that prints to a stream. A view of it.
class Printable {
 public:
  Printable(std::string_view text) : kind_(Kind::text), text_(text) {}
  Printable(const std::string& text) : Printable(std::string_view(text)) {}
  Printable(const char* text) : Printable(std::string_view(text)) {}
  Printable(char c) : kind_(Kind::character), integer_(c) {}
  template <std::signed_integral T>
  Printable(T number) : kind_(Kind::integer), integer_(number) {}
  template <std::unsigned_integral T>
  Printable(T number) : kind_(Kind::natural), natural_(number) {}
  template <std::floating_point T>
  Printable(T number) : kind_(Kind::real), real_(double(number)) {}
  template <class T>
  requires(!std::convertible_to<const T&, std::string_view> && !std::is_arithmetic_v<T>) Printable(const T& other)
      : kind_(Kind::other), other_{&other, [](std::ostream& out, const void* x) {
                                     out << *static_cast<const T*>(x);
                                   }} {}

  friend std::ostream& operator<<(std::ostream& out, const Printable& argument);

 private:
  enum class Kind { text, character, integer, natural, real, other };
  struct Other {
    const void* value;
    void (*print)(std::ostream&, const void*);
  };
  Kind kind_;
  union {
    std::string_view text_;
    int64_t integer_;
    uint64_t natural_;
    double real_;
    Other other_;
  };
};

// The templates below only gather their arguments, so that a message costs no code of its own.
std::string cat_printed(std::initializer_list<Printable> arguments);
[[noreturn]] void throw_error(std::string_view operation, ExitCode code, std::initializer_list<Printable> message);

/// Concatenates anything that prints to a stream.
template <class... Args>
[[gnu::always_inline]] inline std::string cat(const Args&... args) {
  return cat_printed({Printable(args)...});
}

template <class... Args>
[[noreturn, gnu::always_inline]] inline void fail(std::string_view operation, const Args&... message) {
  throw_error(operation, ExitCode::failed, {Printable(message)...});
}

/// Wrong usage or a wrong recipe: the command line exits with 2.
template <class... Args>
[[noreturn, gnu::always_inline]] inline void fail_usage(std::string_view operation, const Args&... message) {
  throw_error(operation, ExitCode::usage, {Printable(message)...});
}

template <class... Args>
[[gnu::always_inline]] inline void check(bool rule, std::string_view operation, const Args&... message) {
  if (!rule) [[unlikely]]
    fail(operation, message...);
}

template <class... Args>
[[gnu::always_inline]] inline void check_usage(bool rule, std::string_view operation, const Args&... message) {
  if (!rule) [[unlikely]]
    fail_usage(operation, message...);
}

}  // namespace lithe
