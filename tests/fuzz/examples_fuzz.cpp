// Reads bytes as labelled examples: the first says the type, the format and the layout, the rest is the file. What is
// accepted must be whole.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "lithe/base/error.h"
#include "lithe/data/examples.h"

namespace {

void require(bool rule) {
  if (!rule) __builtin_trap();
}

void judge(const lithe::Example& example, lithe::TaskType type, size_t labels) {
  const auto known = [&](int32_t label) { return label >= 0 && size_t(label) < labels; };
  if (type == lithe::TaskType::classification) require(known(example.label));
  if (type == lithe::TaskType::regression) require(std::isfinite(example.value));
  if (type == lithe::TaskType::tagging) require(!example.words.empty() && example.words.size() == example.tags.size());
  for (const int32_t tag : example.tags) require(known(tag));
  for (const lithe::Answer& answer : example.answers)
    require(example.pair.compare(size_t(answer.begin), answer.text.size(), answer.text) == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > 100000) return 0;
  const auto type = lithe::TaskType(data[0] % 4);
  const auto& formats = lithe::example_formats(type);
  const std::string& format = formats[data[0] / 4 % formats.size()];
  const bool numbered = data[0] >= 128 && (format == "tsv" || format == "csv");
  lithe::ExampleLayout layout{.type = type, .format = format};
  layout.header = !numbered && (format == "tsv" || format == "csv");
  if (numbered) layout.text = "1", layout.text_pair = layout.label = "2";
  lithe::LabelNames labels;
  std::vector<lithe::Example> examples;
  try {
    lithe::parse_examples({reinterpret_cast<const char*>(data) + 1, size - 1}, "fuzz", layout, labels, examples);
  } catch (const lithe::Error&) {
    return 0;
  }
  require(!examples.empty());
  labels.sort(examples);
  for (const lithe::Example& example : examples) judge(example, type, labels.names().size());
  return 0;
}
