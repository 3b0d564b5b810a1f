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
/// Keywords as fields of a recipe's section, which keep their values where they are not given or None.
void read_settings(const py::kwargs& settings, const std::string& section, const FieldsOf& fields);
/// str, bytes of a path, or a path.
Path path_of(const py::handle& path);
/// Takes the keyword out of `settings`; `otherwise` where it is not given or None.
template <class T>
T take(py::kwargs& settings, const char* name, T otherwise = {}) {
  if (!settings.contains(name)) return otherwise;
  const py::object value = settings.attr("pop")(name);
  return value.is_none() ? otherwise : value.cast<T>();
}

}  // namespace lithe::python
