// Values of Python as trees and JSON, and back.
#pragma once

#include <pybind11/pybind11.h>

#include "lithe/base/fields.h"
#include "lithe/base/json.h"

namespace lithe::python {

namespace py = pybind11;

py::object from_json(const Json& value);
/// None, bool, int, float, str, paths, and dicts, lists and tuples of these. TypeError on others.
Node to_node(const py::handle& value, const std::string& origin);
Json to_json_value(const py::handle& value);
/// The value; TypeError that says `what` must be `wanted` where it is none.
template <class T>
T cast_of(const py::handle& value, const std::string& what, const std::string& wanted) {
  try {
    return value.cast<T>();
  } catch (const py::cast_error&) {
    throw py::type_error(what + " must be " + wanted + ", not " + std::string(py::repr(value)).substr(0, 100));
  }
}
/// The bytes of a str. TypeError on another type, and on lone surrogates, which are no text.
std::string utf8_of(const py::handle& text, const std::string& what = "a text");
/// What a callback returned: to go on, unless it said False.
bool goes_on(const py::object& answer, const std::string& what);
/// What values of this type are called.
template <class T>
constexpr const char* wanted_name() {
  if constexpr (std::is_same_v<T, bool>) return "True or False";
  if constexpr (std::is_integral_v<T>) return "an int of 64 bits";
  if constexpr (std::is_floating_point_v<T>) return "a float";
  return "a str";
}
/// Keywords as fields of a recipe's section, which keep their values where they are not given or None.
void read_settings(const py::kwargs& settings, const std::string& section, const FieldsOf& fields);
/// str, bytes of a path, or a path.
Path path_of(const py::handle& path);
/// Takes the keyword out of `settings`; `otherwise` where it is not given or None.
template <class T>
T take(py::kwargs& settings, const char* name, T otherwise = {}) {
  if (!settings.contains(name)) return otherwise;
  const py::object value = settings.attr("pop")(name);
  return value.is_none() ? otherwise : cast_of<T>(value, name, wanted_name<T>());
}

}  // namespace lithe::python
