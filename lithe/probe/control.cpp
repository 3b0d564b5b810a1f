#include "lithe/probe/control.h"

#include <cmath>

#include "lithe/base/random.h"
#include "lithe/data/permutation.h"

namespace lithe::probe {

int32_t control_label(const std::string& word, const std::vector<int64_t>& counts, uint64_t seed) {
  int64_t all = 0;
  for (const int64_t count : counts) all += count;
  check(all > 0, "probe", "control labels need the frequencies of labels, and there are none");
  auto at = int64_t(
      random_below({seed, checksum(word.data(), word.size()), 0, purpose_of("probe.control")}, 0, uint64_t(all)));
  int32_t label = 0;
  while (at >= counts[size_t(label)]) at -= counts[size_t(label++)];
  return label;
}

Dataset with_control_labels(const Dataset& data, const Dataset& train, int64_t classes, uint64_t seed) {
  std::vector<int64_t> counts(size_t(classes), 0);
  for (const Instance& i : train.instances)
    for (const int32_t label : i.labels) ++counts[size_t(label)];
  Dataset out = data;
  for (Instance& i : out.instances) i.labels = {control_label(i.type, counts, seed)};
  return out;
}

DescriptionLength description_length(const PredictorConfig& config, const Dataset& train, int64_t classes,
                                     const Layers& layers) {
  check(classes > 0 && !config.sigmoid, "probe", "the description length is of instances with one class each");
  const auto n = int64_t(train.instances.size());
  const std::vector<int64_t> order = permutation({config.seed, 0, 0, purpose_of("probe.coding")}, n);
  const auto part = [&](int64_t begin, int64_t end) {
    Dataset out{train.rows, {}};
    for (int64_t i = begin; i < end; ++i) out.instances.push_back(train.instances[size_t(order[size_t(i)])]);
    return out;
  };
  DescriptionLength out{.uniform_bits = double(n) * std::log2(double(classes))};
  int64_t coded = 0;
  for (const double fraction : kCodingFractions) {
    const int64_t end = std::min(n, std::max<int64_t>(1, std::llround(fraction * double(n))));
    if (end == coded) continue;
    const double bits =
        coded == 0 ? double(end) * std::log2(double(classes))
                   : Predictor(config, part(0, coded), classes, layers).predict(part(coded, end)).nats / std::log(2.0);
    out.block_bits.push_back(bits);
    out.bits += bits;
    coded = end;
  }
  return out;
}

}  // namespace lithe::probe
