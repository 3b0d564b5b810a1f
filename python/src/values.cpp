#include "values.h"

#include <pybind11/stl.h>

#include "lithe/base/error.h"

namespace lithe::python {

py::object from_json(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
    case Json::value_t::discarded: return py::none();
    case Json::value_t::boolean: return py::bool_(value.get<bool>());
    case Json::value_t::number_integer: return py::int_(value.get<int64_t>());
    case Json::value_t::number_unsigned: return py::int_(value.get<uint64_t>());
    case Json::value_t::number_float: return py::float_(value.get<double>());
    case Json::value_t::string: {
      const auto& text = value.get_ref<const std::string&>();
      return py::reinterpret_steal<py::object>(PyUnicode_DecodeUTF8(text.data(), Py_ssize_t(text.size()), "replace"));
    }
    case Json::value_t::array: {
      py::list out;
      for (const Json& item : value) out.append(from_json(item));
      return out;
    }
    case Json::value_t::object: {
      py::dict out;
      for (const auto& [key, item] : value.items()) out[py::str(key)] = from_json(item);
      return out;
    }
    case Json::value_t::binary: break;
  }
  throw py::type_error("a value has no form in Python");
}

Node to_node(const py::handle& value, const std::string& origin) {
  const Mark mark{.origin = origin};
  if (value.is_none()) return Node::null(mark);
  if (py::isinstance<py::bool_>(value)) return Node::scalar(value.cast<bool>() ? "true" : "false", mark);
  if (py::isinstance<py::str>(value)) return Node::scalar(utf8_of(value), mark, true);
  if (PyIndex_Check(value.ptr()))
    return Node::scalar(py::str(py::int_(py::reinterpret_borrow<py::object>(value))), mark);
  if (py::hasattr(value, "__fspath__")) return Node::scalar(path_of(value).string(), mark, true);
  if (py::isinstance<py::dict>(value)) {
    Node out = Node::map(mark);
    for (const auto& [key, item] : value.cast<py::dict>()) {
      const std::string name = py::str(key);
      if (out.find(name)) fail_usage("recipe", origin, ": the key '", name, "' stands twice");
      out.append(name, to_node(item, origin));
    }
    return out;
  }
  if (py::isinstance<py::list>(value) || py::isinstance<py::tuple>(value)) {
    Node out = Node::list({}, mark);
    for (const py::handle item : value) out.push(to_node(item, origin));
    return out;
  }
  if (PyFloat_Check(value.ptr()) || py::hasattr(value, "__float__"))
    return Node::scalar(py::repr(py::float_(py::reinterpret_borrow<py::object>(value))), mark);
  throw py::type_error("recipes and settings hold None, bool, int, float, str, paths, dicts and lists, not " +
                       std::string(py::str(py::type::handle_of(value))));
}

Json to_json_value(const py::handle& value) { return parse_json(to_json(to_node(value, "a value")), "a value"); }

std::string utf8_of(const py::handle& text, const std::string& what) {
  if (!py::isinstance<py::str>(text))
    throw py::type_error(what + " must be a str, not " + std::string(py::str(py::type::handle_of(text))));
  Py_ssize_t size = 0;
  const char* bytes = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
  if (bytes) return {bytes, size_t(size)};
  PyErr_Clear();
  throw py::type_error(what + " has a lone surrogate (\\ud800 to \\udfff), which is no character: " +
                       std::string(py::str(py::module_::import("builtins").attr("ascii")(text))).substr(0, 100));
}

bool goes_on(const py::object& answer, const std::string& what) {
  return answer.is_none() || cast_of<bool>(answer, cat("what ", what, " returns"), "None, True or False");
}

void read_settings(const py::kwargs& settings, const std::string& section, const FieldsOf& fields) {
  Node node = Node::map({.origin = section});
  for (const auto& [key, value] : settings)
    if (!value.is_none()) node.append(py::str(key), to_node(value, section));
  read_fields(node, section, fields);
}

Path path_of(const py::handle& path) { return py::module_::import("os").attr("fsdecode")(path).cast<std::string>(); }

}  // namespace lithe::python
