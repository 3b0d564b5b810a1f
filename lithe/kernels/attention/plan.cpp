#include "lithe/kernels/attention/plan.h"

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
  if (a.shares) return false;  // which only tiles sum up
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

void lay_out_forward(const AttentionArgs& a, const AttentionTurn& turn, AttentionSpace& s) {
  Carver tiles;
  s.q = tiles.take(kLongBlock * a.head_dim);
  s.out = tiles.take(kLongBlock * a.value_dim);
  s.stats = tiles.take(2 * kLongBlock + kPanel);
  s.p = tiles.take(kKeyTile * kPanel);
  s.k = tiles.take(kKeyTile * round_up(a.head_dim, kAlign));
  s.v = tiles.take(kKeyTile * round_up(a.value_dim, kAlign));
  if (a.shares) s.shares = tiles.take(3 * kLongBlock);

  Carver decode;
  s.lanes = round_up(std::max(a.heads, kDecodeVectors * a.kv_heads), kAlign);
  s.row = round_up(a.value_dim, kAlign);
  s.state_floats = s.lanes * (2 + s.row);
  s.vectors = decode.take(s.lanes * round_up(a.head_dim, kAlign));
  s.logits = decode.take((kKeyTile + 1) * s.lanes);
  if (a.bias.multiplies_weights) s.multipliers = decode.take(kKeyTile * s.lanes);
  s.state = decode.take(s.state_floats);
  s.partials = decode.take(kSplits * s.state_floats);
  s.floats = std::max(tiles.floats, decode.floats);
  if (!a.turn && key_type(a) != DType::u8) return;
  Carver both{s.floats};
  if (a.turn) s.turn = both.take(2 * turn.row() * (kKeyTile + 2));
  s.turned = both.take(kTurned * a.kv_heads * std::max(a.head_dim, a.value_dim));
  s.floats = both.floats;
}

void lay_out_gradient(const AttentionArgs& a, AttentionSpace& s) {
  const int64_t qk = round_up(a.head_dim, kAlign), vd = round_up(a.value_dim, kAlign);
  // dk and dv of so many keys stay in half of a second-level cache.
  constexpr int64_t kFloats = 1 << 17;
  s.key_rows = std::clamp<int64_t>(kFloats / (qk + vd) / kKeyTile * kKeyTile, 2 * kKeyTile, 32 * kKeyTile);
  Carver c;
  s.q = c.take(kBlock * a.head_dim);
  s.dout = c.take(kBlock * a.value_dim);
  s.dq = c.take(kBlock * a.head_dim);
  s.q_rows = c.take(kBlock * qk);
  s.dout_rows = c.take(kBlock * vd);
  s.stats = c.take(2 * kBlock);
  s.p = c.take(kKeyTile * kPanel);
  s.dp = c.take(kKeyTile * kPanel * 3 / 2);  // once by queries, in bf16 also by keys
  s.k = c.take(kKeyTile * qk);
  s.v = c.take(kKeyTile * vd);
  // Matrix tiles also read and write, unchanged, the rows that are left of their last tile.
  s.dk = c.take((s.key_rows + kAlign) * qk);
  s.dv = c.take((s.key_rows + kAlign) * vd);
  s.floats = c.floats;
}

/// What some head sees.
AttentionMask widest(const AttentionArgs& a) {
  if (a.head_masks.empty()) return a.mask;
  AttentionMask all = a.head_masks[0];
  for (const AttentionMask& mask : a.head_masks) {
    all.causal = all.causal && mask.causal;
    all.window = all.window && mask.window ? std::max(all.window, mask.window) : 0;
  }
  return all;
}

/// The keys that queries [first, last] see by a mask; none when begin >= end.
ref::Visible keys_seen(const AttentionMask& mask, const AttentionSegment& s, int64_t first, int64_t last) {
  return {ref::visible_keys(s, mask, first).begin, ref::visible_keys(s, mask, last).end};
}

// Queries of a task by tiles: the more, the less often keys and values are converted; every thread has some tasks.
int64_t block_for(const AttentionArgs& a) {
  constexpr int64_t kTasksAThread = 8;
  int64_t blocks = 0;
  for (const AttentionSegment& s : a.segments)
    if (!decodes(a, s)) blocks += a.heads * ((s.query_rows + kLongBlock - 1) / kLongBlock);
  return blocks >= kTasksAThread * threads() ? kLongBlock : kBlock;
}

int64_t parts_for(double work, int64_t for_each_thread = 1) {
  constexpr double kWorthAThread = 3e5;  // FLOPs
  return std::clamp<int64_t>(int64_t(work / kWorthAThread), 1, for_each_thread * threads());
}

// A task belongs to the part in which its middle lies.
bool belongs(double done, double work, int64_t part, int64_t parts, double total) {
  return part + 1 == parts || done + work / 2 <= total * double(part + 1) / double(parts);
}

double largest_part(const std::vector<double>& work, int64_t parts) {
  double total = 0, done = 0, largest = 0;
  for (double w : work) total += w;
  size_t t = 0;
  for (int64_t part = 0; part < parts; ++part) {
    const double start = done;
    for (; t < work.size() && belongs(done, work[t], part, parts, total); ++t) done += work[t];
    largest = std::max(largest, done - start);
  }
  return largest;
}

}  // namespace

DType key_type(const AttentionArgs& a) {
  for (const AttentionSegment& s : a.segments)
    if (s.key_rows > 0) return s.keys.defined() ? s.keys.dtype() : a.q.dtype();
  return a.q.dtype();
}

void AttentionPlan::set_up(const AttentionArgs& a) {
  call_.args = &a;
  call_.dtype = call_.key_dtype = a.q.dtype();
  call_.heads = a.heads;
  call_.kv_heads = a.kv_heads;
  call_.head_dim = a.head_dim;
  call_.value_dim = a.value_dim;
  call_.scale = float(a.scale);
  call_.softcap = float(a.softcap);
  call_.mask = widest(a);
  if (a.turn) call_.turn = {a.turn->frequencies.data(), int64_t(a.turn->frequencies.size()), a.turn->interleaved};
  call_.head_masks = a.head_masks.empty() ? nullptr : a.head_masks.data();
}

// Beside the arguments' own numbers: the table turned, for gradients a table for each block and head, and sums by row.
void AttentionPlan::add_extras(const AttentionArgs& a, const AttentionGradArgs* g) {
  for (const AttentionSegment& s : a.segments) blocks_ += (s.query_rows + kBlock - 1) / kBlock;
  const AttentionBias& b = a.bias;
  AttentionExtras& x = call_.extras;
  const int64_t table = b.table ? b.table.numel() : 0, by_rows = a.q.dim(0) * a.heads;
  Carver c;
  const int64_t turned = c.take(table), dtable = c.take(g && g->dtable ? blocks_ * table : 0),
                drates = c.take(g && g->drates ? by_rows : 0), dcentres = c.take(g && g->dcentres ? by_rows : 0);
  if (c.floats > 0) {
    const MemoryScope scope(MemoryClass::workspace);
    extras_ = empty({c.floats}, DType::f32, a.q.device());
  }
  if (a.q.is_meta()) return;
  auto* all = c.floats ? static_cast<float*>(extras_.raw()) : nullptr;
  const auto of = [](const Tensor& t) { return t ? static_cast<float*>(t.raw()) : nullptr; };
  x.bias = b.defined() && !b.multiplies_weights, x.multiplies = b.defined() && b.multiplies_weights;
  x.squared = b.squared, x.first = b.first;
  if (b.table) {
    x.table_rows = b.table.dim(0);
    for (int64_t w = 0; w < x.table_rows; ++w)
      for (int64_t head = 0; head < a.heads; ++head)
        all[turned + head * x.table_rows + w] = of(b.table)[w * a.heads + head];
    x.table = all + turned;
  }
  x.rows = of(b.rows), x.row_numbers = b.rows ? b.rows.dim(1) / a.heads : 0;
  x.columns = of(b.columns), x.column_numbers = b.columns ? b.columns.dim(1) / a.heads : 0;
  x.rates = of(b.rates), x.rate_stride = b.rates && b.rates.dim(0) != 1 ? a.heads : 0;
  x.centres = of(b.centres);
  x.pairs = of(b.pairs), x.pair_offsets = b.pair_offsets.data();
  x.pair_heads = b.pair_heads.empty() ? nullptr : b.pair_heads.data();
  x.pairs_multiply = b.pairs && b.pairs_multiply;
  x.pairs_add = b.pairs && !b.pairs_multiply && !b.multiplies_weights;
  x.shares = of(a.shares), x.share_numbers = a.shares ? a.shares.dim(1) / a.heads : 0, x.shares_first = a.shares_first;
  if (!g) return;
  x.gradients = g->dtable || g->drows || g->dcolumns || g->drates || g->dcentres;
  if (x.gradients && c.floats > turned + table) std::fill(all + turned + table, all + c.floats, 0.0f);
  if (g->drows && !g->accumulate_drows) fill_zero(g->drows);
  if (g->dcolumns && !g->accumulate_dcolumns) fill_zero(g->dcolumns);
  if (g->dtable) x.dtable = all + dtable;
  if (g->drates) x.drates = all + drates;
  if (g->dcentres) x.dcentres = all + dcentres;
  x.drows = of(g->drows), x.dcolumns = of(g->dcolumns), x.dshares = of(g->dshares), x.dlse = of(g->dlse);
}

void AttentionPlan::finish_gradients() const {
  const AttentionGradArgs& g = *call_.grad_args;
  const AttentionExtras& x = call_.extras;
  const auto store = [](const Tensor& to, int64_t i, double sum, bool add) {
    set_value(to, i, add ? value_at(to, i) + sum : sum);
  };
  if (g.dtable)
    for (int64_t head = 0; head < call_.heads; ++head)
      for (int64_t w = 0; w < x.table_rows; ++w) {
        double sum = 0;
        for (int64_t b = 0; b < blocks_; ++b) sum += double(x.dtable[(b * call_.heads + head) * x.table_rows + w]);
        store(g.dtable, w * call_.heads + head, sum, g.accumulate_dtable);
      }
  const auto by_rows = [&](const Tensor& to, const float* from, bool add) {
    if (!to) return;
    const int64_t rows = g.forward.q.dim(0), all = to.numel();
    std::vector<double> sums(size_t(all), 0.0);
    for (int64_t i = 0; i < rows * call_.heads; ++i) sums[size_t(i % all)] += double(from[i]);
    for (int64_t i = 0; i < all; ++i) store(to, i, sums[size_t(i)], add);
  };
  by_rows(g.drates, x.drates, g.accumulate_drates);
  by_rows(g.dcentres, x.dcentres, g.accumulate_dcentres);
}

void AttentionPlan::add_visits(const AttentionArgs& a) {
  if (!a.tiles) return;
  for (const auto& v : a.tiles->visits)
    visits_.push_back(!v ? AttentionVisits{}
                         : AttentionVisits{v->first.data(), v->keys.data(), v->rule.empty() ? nullptr : v->rule.data(),
                                           v->rules.empty() ? nullptr : v->rules[0].data()});
  call_.visits = visits_.data();
}

// Pairs that queries [begin, end) of a head multiply with keys, a panel at a time; `keys` cuts them.
double AttentionPlan::pairs_of(const AttentionSegment& segment, int64_t head, int64_t begin, int64_t end,
                               ref::Visible keys) const {
  const AttentionMask& mask = call_.head_masks ? call_.head_masks[head] : call_.mask;
  double pairs = kPanel;  // packing and writing, even where nothing is seen
  for (int64_t first = begin; first < end; first += kPanel) {
    const ref::Visible seen = keys_seen(mask, segment, first, std::min(first + kPanel, end) - 1);
    const int64_t from = std::max(seen.begin, keys.begin), to = std::min(seen.end, keys.end);
    int64_t met = std::max<int64_t>(0, to - from);
    const AttentionVisits v = call_.visits
                                  ? visits_[size_t((&segment - call_.args->segments.data()) * call_.heads + head)]
                                  : AttentionVisits{};
    if (v.first && met > 0) {
      const int32_t *at = v.keys + v.first[first / kPanel], *last = v.keys + v.first[first / kPanel + 1];
      met = kKeyTile *
            (std::lower_bound(at, last, (to + kKeyTile - 1) / kKeyTile) - std::lower_bound(at, last, from / kKeyTile));
    }
    pairs += double(kPanel * met);
  }
  return pairs;
}

void AttentionPlan::allocate(int64_t floats, Device device) {
  const MemoryScope scope(MemoryClass::workspace);
  call_.spaces = threads();
  workspace_ = empty({call_.spaces, floats}, DType::f32, device);
  call_.workspace = static_cast<float*>(workspace_.raw());
}

AttentionRows AttentionPlan::add_pages(const PagedRows& own, const void* start, int64_t rows) {
  // The vectors have room for all: addresses into them stay.
  const AttentionRows out{pages_.data() + pages_.size(), own.scales.empty() ? nullptr : scales_.data() + scales_.size(),
                          std::max<int64_t>(1, own.defined() ? own.page_rows() : rows)};
  for (const Tensor& page : own.pages) pages_.push_back(page.raw());
  for (const Tensor& scales : own.scales) scales_.push_back(static_cast<const float*>(scales.raw()));
  if (!own.defined()) pages_.push_back(start);
  return out;
}

void AttentionPlan::add_spans(const AttentionArgs& a) {
  size_t pages = 0;
  for (const AttentionSegment& s : a.segments) pages += s.keys.pages.size() + s.values.pages.size() + 2;
  pages_.reserve(pages);
  scales_.reserve(pages);
  const int64_t item = size_of(call_.dtype);
  int64_t blocks = 0;
  const auto row_of = [](const Tensor& x, int64_t row, int64_t cols, int64_t bytes) -> std::byte* {
    return x ? static_cast<std::byte*>(x.raw()) + row * cols * bytes : nullptr;
  };
  for (const AttentionSegment& s : a.segments) {
    AttentionSpan span{};
    span.q = row_of(a.q, s.query_row, a.heads * a.head_dim, item);
    span.out = row_of(a.out, s.query_row, a.heads * a.value_dim, item);
    span.lse = reinterpret_cast<float*>(row_of(a.lse, s.query_row, a.heads, sizeof(float)));
    span.k = row_of(a.k, s.key_row, a.kv_heads * a.head_dim, item);
    span.v = row_of(a.v, s.key_row, a.kv_heads * a.value_dim, item);
    span.keys = add_pages(s.keys, span.k, s.key_rows);
    span.values = add_pages(s.values, span.v, s.key_rows);
    if (s.keys.defined() && s.key_rows > 0) call_.key_dtype = s.keys.dtype();
    span.query_rows = s.query_rows;
    span.key_rows = s.key_rows;
    span.query_row = s.query_row;
    span.key_row = s.key_row;
    span.first_block = blocks;
    span.key_position = s.key_position;
    blocks += (s.query_rows + kBlock - 1) / kBlock;
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
  lay_out_forward(a, call_.turn, call_.space);
  allocate(call_.space.floats, a.q.device());
  add_extras(a, nullptr);
  if (a.q.is_meta()) return;
  add_spans(a);
  add_visits(a);
  const double per_pair = 2.0 * double(a.head_dim + a.value_dim);
  const int64_t block = block_for(a);
  for (size_t i = 0; i < spans_.size(); ++i) {
    const AttentionSpan& s = spans_[i];
    const AttentionSegment& segment = a.segments[i];
    if (decodes(a, segment)) continue;
    for (int64_t head = 0; head < a.heads; ++head)
      for (int64_t begin = 0; begin < s.query_rows; begin += block) {
        const int64_t end = std::min(begin + block, s.query_rows);
        const double pairs = pairs_of(segment, head, begin, end, {0, s.key_rows});
        add_task({AttentionTask::tiles, int32_t(i), head, begin, end}, pairs * per_pair);
        call_.tiles = true;
      }
  }
  // Decoding stands behind the tiles, so that at most the first decode task of a part continues a span and
  // at most the last leaves one unfinished.
  for (size_t i = 0; i < spans_.size(); ++i) {
    AttentionSpan& s = spans_[i];
    if (!decodes(a, a.segments[i]) || s.query_rows == 0) continue;
    call_.decodes = true;
    const ref::Visible keys = keys_seen(call_.mask, a.segments[i], 0, s.query_rows - 1);
    const int64_t seen = std::max<int64_t>(0, keys.end - keys.begin / kKeyTile * kKeyTile);
    s.split_keys = std::max<int64_t>(kSplitKeys, round_up((seen + kSplits - 1) / kSplits, kSplitKeys));
    s.splits = std::max<int64_t>(1, (seen + s.split_keys - 1) / s.split_keys);
    // Reading a key and a value takes the time of about 8 products with them.
    const double work =
        double(a.kv_heads) * double(std::max<int64_t>(8, s.query_rows * a.heads / a.kv_heads)) * per_pair;
    for (int64_t split = 0; split < s.splits; ++split)
      add_task({AttentionTask::decode, int32_t(i), 0, split, split + 1},
               work * double(std::min(s.split_keys, seen - split * s.split_keys) + 1));
  }
  divide();
}

AttentionPlan::AttentionPlan(const AttentionGradArgs& g) {
  const AttentionArgs& a = g.forward;
  set_up(a);
  call_.grad_args = &g;
  call_.plan = this;
  call_.finish_gradients = [](const AttentionPlan& plan) { plan.finish_gradients(); };
  call_.dq_type = g.dq.dtype();
  call_.dk_type = g.dk.dtype();
  call_.dv_type = g.dv.dtype();
  if (call_.dtype == DType::f64) return;
  lay_out_gradient(a, call_.space);
  allocate(call_.space.floats, a.q.device());
  add_extras(a, &g);
  if (a.q.is_meta()) return;
  add_spans(a);
  add_visits(a);
  const auto row_of = [](const Tensor& x, int64_t row) {
    return static_cast<std::byte*>(x.raw()) + row * x.dim(1) * size_of(x.dtype());
  };
  for (size_t i = 0; i < spans_.size(); ++i) {
    const AttentionSegment& s = a.segments[i];
    spans_[i].dout = row_of(g.dout, s.query_row);
    spans_[i].dq = row_of(g.dq, s.query_row);
    spans_[i].dk = row_of(g.dk, s.key_row);
    spans_[i].dv = row_of(g.dv, s.key_row);
  }
  // Whole heads need five products a pair; when they cannot be shared out evenly, dq apart from dk and dv
  // needs seven, but in small tasks. Both give the same bits.
  add_gradient_tasks(false);
  double total = 0;
  for (double w : work_) total += w;
  if (5 * largest_part(work_, parts_for(total)) > 7 * 1.05 * total / double(parts_for(total))) {
    tasks_.clear();
    work_.clear();
    add_gradient_tasks(true);
  }
  divide();
}

void AttentionPlan::add_gradient_tasks(bool split) {
  const AttentionArgs& a = *call_.args;
  const int64_t group = a.heads / a.kv_heads;
  for (size_t i = 0; i < spans_.size(); ++i) {
    const AttentionSpan& s = spans_[i];
    const AttentionSegment& segment = a.segments[i];
    // Work of a product between queries and keys, cut to ranges; a little where nothing is seen.
    const auto product = [&](int64_t head, int64_t begin, int64_t end, int64_t key, int64_t key_end) {
      return pairs_of(segment, head, begin, end, {key, key_end}) * double(a.head_dim + a.value_dim);
    };
    const auto of_group = [&](int64_t kv_head, int64_t key, int64_t key_end) {
      double all = 0;
      for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head)
        all += product(head, 0, s.query_rows, key, key_end);
      return all;
    };
    // dq in bf16 cannot hold a partial sum between two ranges of keys.
    const bool split_span = split || (call_.dq_type == DType::bf16 && s.key_rows > call_.space.key_rows);
    for (int64_t kv_head = 0; kv_head < a.kv_heads; ++kv_head) {
      if (!split_span) {
        add_task({AttentionTask::whole, int32_t(i), kv_head, 0, 0}, 5 * of_group(kv_head, 0, s.key_rows));
        continue;
      }
      for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head)
        for (int64_t begin = 0; begin < s.query_rows; begin += kBlock) {
          const int64_t end = std::min(begin + kBlock, s.query_rows);
          add_task({AttentionTask::query, int32_t(i), head, begin, end}, 3 * product(head, begin, end, 0, s.key_rows));
        }
      const int64_t step = std::min<int64_t>(call_.space.key_rows, 4 * kKeyTile);
      for (int64_t key = 0; key < s.key_rows; key += step) {
        const int64_t end = std::min(key + step, s.key_rows);
        add_task({AttentionTask::key, int32_t(i), kv_head, key, end}, 4 * of_group(kv_head, key, end));
      }
    }
  }
}

// Cuts the ordered tasks into parts of about equal work: one a thread where a part first makes a table of angles, or of
// decoding leaves something for attention_decode_finish; else several, for threads that are not equally fast.
void AttentionPlan::divide() {
  double total = 0;
  for (double w : work_) total += w;
  constexpr int64_t kPartsEach = 6;
  const bool keeps = call_.turn.frequencies || std::ranges::any_of(tasks_, [](const AttentionTask& task) {
                       return task.kind == AttentionTask::decode;
                     });
  const int64_t parts =
      std::min(parts_for(total, keeps ? 1 : kPartsEach), std::max<int64_t>(1, int64_t(tasks_.size())));
  first_task_.assign(1, 0);
  std::vector<AttentionTask> merged;
  double done = 0;
  size_t t = 0;
  for (int64_t part = 0; part < parts; ++part) {
    const size_t start = merged.size();
    for (; t < tasks_.size() && belongs(done, work_[t], part, parts, total); ++t) {
      done += work_[t];
      const AttentionTask& task = tasks_[t];
      const bool joins = task.kind == AttentionTask::decode && merged.size() > start &&
                         merged.back().kind == task.kind && merged.back().span == task.span;
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
