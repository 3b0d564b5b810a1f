#include "lithe/base/error.h"

#include <sstream>

namespace lithe {

std::ostream& operator<<(std::ostream& out, const Printable& argument) {
  switch (argument.kind_) {
    case Printable::Kind::text: return out << argument.text_;
    case Printable::Kind::character: return out << char(argument.integer_);
    case Printable::Kind::integer: return out << argument.integer_;
    case Printable::Kind::natural: return out << argument.natural_;
    case Printable::Kind::real: return out << argument.real_;
    case Printable::Kind::other: break;
  }
  argument.other_.print(out, argument.other_.value);
  return out;
}

std::string cat_printed(std::initializer_list<Printable> arguments) {
  std::ostringstream out;
  for (const Printable& argument : arguments) out << argument;
  return out.str();
}

void throw_error(std::string_view operation, ExitCode code, std::initializer_list<Printable> message) {
  throw Error(operation, cat_printed(message), code);
}

}  // namespace lithe
