#include "lithe/objective/prediction_cache.h"

#include <algorithm>

#include "lithe/base/error.h"
#include "lithe/base/log.h"

namespace lithe {
namespace {

constexpr uint64_t kMagic = 0x31636c6c74696c6dULL;
constexpr double kNegligible = -1e30;

struct FileHead {
  uint64_t magic, maker;
  int64_t k;
};
struct RecordHead {
  uint64_t sequence;
  int64_t rows;
};

uint64_t checksum_of(const RecordHead& head, const LargestLogits& logits) {
  uint64_t sum = checksum(&head, sizeof head);
  sum = checksum(logits.places.data(), logits.places.size() * sizeof(int32_t), sum);
  return checksum(logits.values.data(), logits.values.size() * sizeof(float), sum);
}

template <class T>
void put(std::fstream& to, const T* from, size_t count) {
  to.write(reinterpret_cast<const char*>(from), std::streamsize(count * sizeof(T)));
}
template <class T>
bool get(std::fstream& from, T* to, size_t count) {
  return bool(from.read(reinterpret_cast<char*>(to), std::streamsize(count * sizeof(T))));
}

uint64_t checksum_of_rows(const Tensor& x, int64_t begin, int64_t end, uint64_t seed) {
  const Tensor part = x.slice(begin, end);
  return checksum(part.raw(), size_t(part.bytes()), seed);
}

}  // namespace

PredictionCache::PredictionCache(const Path& file, uint64_t maker, int64_t k) : file_(file), k_(k) {
  namespace fs = std::filesystem;
  if (file.has_parent_path()) fs::create_directories(file.parent_path());
  if (!fs::exists(file) || fs::file_size(file) < sizeof(FileHead)) {
    std::ofstream begun(file, std::ios::binary | std::ios::trunc);
    const FileHead head{kMagic, maker, k};
    begun.write(reinterpret_cast<const char*>(&head), sizeof head);
    check(bool(begun.flush()), "distillation", "cannot write '", file.string(), "'");
  }
  stream_.open(file, std::ios::binary | std::ios::in | std::ios::out);
  FileHead head{};
  check_usage(stream_.is_open() && get(stream_, &head, 1) && head.magic == kMagic, "distillation", "'", file.string(),
              "' is no cache of predictions; give another file");
  check_usage(head.maker == maker && head.k == k, "distillation", "'", file.string(), "' holds the ", head.k,
              " largest predictions of ", head.maker == maker ? "this" : "another", " teacher, and ", k,
              " of this one are wanted; give another file, or remove it");
  uint64_t whole = sizeof head, sequence = 0;
  while (read(sequence)) {
    at_[sequence] = whole;
    whole = uint64_t(stream_.tellg());
  }
  stream_.clear();
  if (const uint64_t size = fs::file_size(file); size != whole) {
    log_warning("'", file.string(), "': the last ", size - whole, " bytes are no whole record and are dropped");
    stream_.close();
    fs::resize_file(file, whole);
    stream_.open(file, std::ios::binary | std::ios::in | std::ios::out);
  }
}

std::optional<LargestLogits> PredictionCache::read(uint64_t& sequence) {
  RecordHead head{};
  constexpr int64_t kMostRows = int64_t(1) << 24;
  if (!get(stream_, &head, 1) || head.rows < 0 || head.rows > kMostRows) return std::nullopt;
  LargestLogits out{head.rows, std::vector<int32_t>(size_t(head.rows * k_)),
                    std::vector<float>(size_t(head.rows * k_))};
  uint64_t sum = 0;
  if (!get(stream_, out.places.data(), out.places.size()) || !get(stream_, out.values.data(), out.values.size()) ||
      !get(stream_, &sum, 1) || sum != checksum_of(head, out))
    return std::nullopt;
  sequence = head.sequence;
  return out;
}

std::optional<LargestLogits> PredictionCache::find(uint64_t sequence) {
  const auto found = at_.find(sequence);
  if (found == at_.end()) return std::nullopt;
  stream_.seekg(std::streamoff(found->second));
  uint64_t of = 0;
  auto out = read(of);
  check(out && of == sequence, "distillation", "'", file_.string(), "' is damaged at byte ", found->second,
        "; remove it, and it is made again");
  return out;
}

void PredictionCache::add(uint64_t sequence, const LargestLogits& logits) {
  if (at_.count(sequence)) return;
  stream_.seekp(0, std::ios::end);
  const auto begin = uint64_t(stream_.tellp());
  const RecordHead head{sequence, logits.rows};
  const uint64_t sum = checksum_of(head, logits);
  put(stream_, &head, 1);
  put(stream_, logits.places.data(), logits.places.size());
  put(stream_, logits.values.data(), logits.values.size());
  put(stream_, &sum, 1);
  check(bool(stream_.flush()), "distillation", "cannot write '", file_.string(), "': is the disk full?");
  at_[sequence] = begin;
}

uint64_t checksum_of_sequence(const ModelInput& input, int64_t b) {
  const int64_t begin = input.sequences.offset(b), end = input.sequences.offset(b + 1);
  uint64_t sum = checksum_of_rows(input.tokens, begin, end, uint64_t(end - begin));
  for (const auto& [name, column] : input.columns) sum = checksum_of_rows(column, begin, end, sum);
  for (const auto& [name, source] : input.sources) {
    const uint64_t of_source = checksum_of_sequence(source, b);
    sum = checksum(&of_source, sizeof of_source, sum);
  }
  return sum;
}

LargestLogits largest_logits(const Tensor& logits, int64_t k) {
  LargestLogits out{logits.rows(), {}, {}};
  const int64_t columns = logits.cols();
  std::vector<int32_t> order(static_cast<size_t>(columns));
  const auto value = [&](int64_t n, int32_t c) { return float(value_at(logits, n * columns + c)); };
  for (int64_t n = 0; n < logits.rows(); ++n) {
    for (int64_t c = 0; c < columns; ++c) order[size_t(c)] = int32_t(c);
    std::nth_element(order.begin(), order.begin() + std::min(k, columns) - 1, order.end(), [&](int32_t a, int32_t b) {
      return value(n, a) != value(n, b) ? value(n, a) > value(n, b) : a < b;
    });
    for (int64_t i = 0; i < k; ++i) {
      const int32_t place = i < columns ? order[size_t(i)] : -1;
      out.places.push_back(place);
      out.values.push_back(place < 0 ? 0 : value(n, place));
    }
  }
  return out;
}

void put_logits(const LargestLogits& from, int64_t k, int64_t first, const Tensor& logits) {
  const int64_t rows = logits.rows();
  check(first + rows <= from.rows, "distillation", "predictions of ", from.rows, " rows were kept, and ", first + rows,
        " are wanted");
  for (int64_t i = 0; i < logits.numel(); ++i) set_value(logits, i, kNegligible);
  for (int64_t i = 0; i < rows * k; ++i) {
    const auto at = size_t(first * k + i);
    if (from.places[at] >= 0) set_value(logits, i / k * logits.cols() + from.places[at], double(from.values[at]));
  }
}

}  // namespace lithe
