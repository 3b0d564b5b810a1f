#include "lithe/kernels/attention_plan.h"

#include <algorithm>

#include "lithe/base/threads.h"

namespace lithe::kernels {
namespace {

constexpr int64_t kAlign = 16;         // floats of a cache line
constexpr int64_t kDecodeVectors = 4;  // query vectors a key/value head, up to which segments of several queries decode

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Few query vectors a key/value head: reading the keys costs more than multiplying with them, so that all
// threads should read, and no tile of queries would be full.
bool decodes(const AttentionArgs& a, const AttentionSegment& s) {
  return s.query_rows == 1 || s.query_rows * (a.heads / a.kv_heads) <= kDecodeVectors;
}

/// Hands out parts of the workspace.
struct Carver {
  int64_t floats = 0;
  int64_t take(int64_t n) {
    const int64_t at = floats;
    floats += round_up(n, kAlign);
    return at;
  }
};

void lay_out_forward(const AttentionArgs& a, AttentionSpace& s) {
  Carver tiles;
  s.q = tiles.take(kBlock * a.head_dim);
  s.out = tiles.take(kBlock * a.value_dim);
  s.stats = tiles.take(2 * kBlock + kPanel);
  s.p = tiles.take(kKeyTile * kPanel);
  s.k = tiles.take(kKeyTile * a.head_dim);
  s.v = tiles.take(kKeyTile * a.value_dim);

  Carver decode;
  s.lanes = round_up(std::max(a.heads, kDecodeVectors * a.kv_heads), kAlign);
  s.row = round_up(a.value_dim, kAlign);
  s.state_floats = s.lanes * (2 + s.row);
  s.vectors = decode.take(s.lanes * round_up(a.head_dim, kAlign));
  s.logits = decode.take((kKeyTile + 1) * s.lanes);
  s.state = decode.take(s.state_floats);
  s.partials = decode.take(kSplits * s.state_floats);
  s.floats = std::max(tiles.floats, decode.floats);
}

}  // namespace

KeyRange keys_seen(const AttentionMask& mask, int64_t query_rows, int64_t key_rows, int64_t first, int64_t last) {
  const int64_t shift = key_rows - query_rows;
  KeyRange keys{0, key_rows};
  if (mask.window > 0) {
    keys.begin = first + shift - mask.window + 1;
    keys.end = last + shift + mask.window;
  }
  if (mask.causal) keys.end = last + shift + 1;
  return {std::clamp<int64_t>(keys.begin, 0, key_rows), std::clamp<int64_t>(keys.end, 0, key_rows)};
}

void AttentionPlan::set_up(const AttentionArgs& a) {
  call_.args = &a;
  call_.dtype = a.q.dtype();
  call_.heads = a.heads;
  call_.kv_heads = a.kv_heads;
  call_.head_dim = a.head_dim;
  call_.value_dim = a.value_dim;
  call_.scale = float(a.scale);
  call_.mask = a.mask;
}

void AttentionPlan::allocate(int64_t floats, Device device) {
  const MemoryScope scope(MemoryClass::workspace);
  workspace_ = empty({int64_t(threads()), floats}, DType::f32, device);
  call_.workspace = static_cast<float*>(workspace_.raw());
}

void AttentionPlan::add_spans(const AttentionArgs& a) {
  const int64_t item = size_of(call_.dtype);
  const auto row_of = [](const Tensor& x, int64_t row, int64_t cols, int64_t bytes) -> std::byte* {
    return x ? static_cast<std::byte*>(x.raw()) + row * cols * bytes : nullptr;
  };
  for (const AttentionSegment& s : a.segments) {
    AttentionSpan span{};
    span.q = row_of(a.q, s.query_row, a.heads * a.head_dim, item);
    span.out = row_of(a.out, s.query_row, a.heads * a.value_dim, item);
    span.lse = reinterpret_cast<float*>(row_of(a.lse, s.query_row, a.heads, sizeof(float)));
    span.k = s.keys ? s.keys.raw() : row_of(a.k, s.key_row, a.kv_heads * a.head_dim, item);
    span.v = s.values ? s.values.raw() : row_of(a.v, s.key_row, a.kv_heads * a.value_dim, item);
    span.query_rows = s.query_rows;
    span.key_rows = s.key_rows;
    spans_.push_back(span);
  }
}

void AttentionPlan::add_task(const AttentionTask& task, double work) {
  tasks_.push_back(task);
  work_.push_back(work);
}

AttentionPlan::AttentionPlan(const AttentionArgs& a) {
  set_up(a);
  if (call_.dtype == DType::f64) return;
  lay_out_forward(a, call_.space);
  allocate(call_.space.floats, a.q.device());
  if (a.q.is_meta()) return;
  add_spans(a);
  const double per_pair = 2.0 * double(a.head_dim + a.value_dim);
  for (size_t i = 0; i < spans_.size(); ++i) {
    const AttentionSpan& s = spans_[i];
    if (decodes(a, a.segments[i])) continue;
    for (int64_t head = 0; head < a.heads; ++head)
      for (int64_t begin = 0; begin < s.query_rows; begin += kBlock) {
        const int64_t end = std::min(begin + kBlock, s.query_rows);
        double pairs = kPanel;  // packing and writing, even where nothing is seen
        for (int64_t first = begin; first < end; first += kPanel) {
          const KeyRange keys = keys_seen(a.mask, s.query_rows, s.key_rows, first, std::min(first + kPanel, end) - 1);
          pairs += double(kPanel * std::max<int64_t>(0, keys.end - keys.begin));
        }
        add_task({AttentionTask::tiles, int32_t(i), head, begin, end}, pairs * per_pair);
      }
  }
  // Decoding stands behind the tiles, so that at most the first decode task of a part continues a span and
  // at most the last leaves one unfinished.
  for (size_t i = 0; i < spans_.size(); ++i) {
    AttentionSpan& s = spans_[i];
    if (!decodes(a, a.segments[i])) continue;
    const KeyRange keys = keys_seen(a.mask, s.query_rows, s.key_rows, 0, s.query_rows - 1);
    const int64_t seen = std::max<int64_t>(0, keys.end - keys.begin);
    s.split_keys = std::max<int64_t>(2 * kKeyTile, round_up((seen + kSplits - 1) / kSplits, kKeyTile));
    s.splits = std::max<int64_t>(1, (seen + s.split_keys - 1) / s.split_keys);
    // Reading a key and a value takes the time of about 8 products with them.
    const double work = double(a.kv_heads) * double(std::max<int64_t>(8, s.query_rows * a.heads / a.kv_heads)) * per_pair;
    for (int64_t split = 0; split < s.splits; ++split)
      add_task({AttentionTask::decode, int32_t(i), 0, split, split + 1}, work * double(std::min(s.split_keys, seen - split * s.split_keys) + 1));
  }
  divide();
}

AttentionPlan::AttentionPlan(const AttentionGradArgs& g) {
  set_up(g.forward);
  call_.grad_args = &g;
}

// Cuts the ordered tasks into parts of about equal work, one a thread.
void AttentionPlan::divide() {
  double total = 0;
  for (double w : work_) total += w;
  constexpr double kWorthAThread = 1e6;  // FLOPs
  const int64_t parts = std::clamp<int64_t>(int64_t(total / kWorthAThread), 1, threads());
  first_task_.assign(1, 0);
  std::vector<AttentionTask> merged;
  double done = 0;
  size_t t = 0;
  for (int64_t part = 0; part < parts; ++part) {
    const double until = total * double(part + 1) / double(parts);
    const size_t start = merged.size();
    // A task belongs to the part in which its middle lies.
    for (; t < tasks_.size() && (part + 1 == parts || done + work_[t] / 2 <= until); ++t) {
      done += work_[t];
      const AttentionTask& task = tasks_[t];
      const bool joins = task.kind == AttentionTask::decode && merged.size() > start && merged.back().kind == task.kind &&
                         merged.back().span == task.span;
      if (joins)
        merged.back().end = task.end;
      else
        merged.push_back(task);
    }
    first_task_.push_back(int64_t(merged.size()));
  }
  tasks_ = std::move(merged);
  call_.spans = spans_.data();
  call_.tasks = tasks_.data();
  call_.first_task = first_task_.data();
  call_.parts = parts;
}

}  // namespace lithe::kernels
