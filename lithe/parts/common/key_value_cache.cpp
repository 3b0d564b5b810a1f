#include "lithe/parts/common/key_value_cache.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "lithe/kernels/elementwise/elementwise.h"
#include "lithe/kernels/int4_rows/int4_rows.h"
#include "lithe/kernels/quantized_rows/quantized_rows.h"

namespace lithe {
namespace {

using kernels::page_row;
using kernels::PagedRows;

// Rows [at, at + n) of a page become rows [from, from + n) of x.
void store(const PagedRows& to, size_t page, int64_t at, const Tensor& x, int64_t from, int64_t n, int64_t heads) {
  // On meta the kernels below book what it costs.
  if (!x.is_meta() && to.pages[page].dtype() == x.dtype()) return copy_rows(to.pages[page], at, x, from, n);
  const Tensor rows = x.slice(from, from + n), into = to.pages[page].slice(at, at + n);
  if (to.scales.empty()) return kernels::add({.a = rows, .out = into});
  const Tensor scales = to.scales[page].slice(at, at + n);
  if (to.width)
    kernels::quantize_int4_rows({.x = rows, .codes = into, .scales = scales, .heads = heads});
  else
    kernels::quantize_rows({.x = rows, .values = into, .scales = scales});
}

// The rows of a page from `at` on, as many as `into` has, as numbers of its type.
void load(const PagedRows& from, size_t page, int64_t at, const Tensor& into, int64_t heads) {
  const int64_t end = at + into.rows();
  const Tensor rows = from.pages[page].slice(at, end);
  if (from.scales.empty()) return kernels::add({.a = rows, .out = into});
  const Tensor scales = from.scales[page].slice(at, end);
  if (from.width)
    kernels::dequantize_int4_rows({.codes = rows, .scales = scales, .out = into, .heads = heads});
  else
    kernels::dequantize_rows({.values = rows, .scales = scales, .out = into});
}

// Calls f(page, its rows in use as rows of all) for each page of `tokens` tokens.
template <class F>
void each_page_of(int64_t tokens, F f) {
  for (int64_t at = 0; at < tokens; at += KeyValueCache::kPageTokens)
    f(size_t(at / KeyValueCache::kPageTokens), at, std::min(tokens, at + KeyValueCache::kPageTokens));
}

Tensor gather_rows(const PagedRows& from, const Tensor& out, int64_t heads) {
  each_page_of(out.rows(),
               [&](size_t page, int64_t begin, int64_t end) { load(from, page, 0, out.slice(begin, end), heads); });
  return out;
}

// A new last page, or `fresh` with what page `page` holds in its first `kept` rows.
void renew(std::vector<Tensor>& pages, size_t page, int64_t kept, const Tensor& fresh) {
  if (page == pages.size()) return pages.push_back(fresh);
  if (kept && !fresh.is_meta()) copy_rows(fresh, 0, pages[page], 0, kept);
  pages[page] = fresh;
}

Field::KeyLabels labels_of(const KeyValueCache::Columns& columns, DType dtype) {
  return columns.field ? columns.field->key_labels(dtype) : Field::KeyLabels{};
}

}  // namespace

// Tokens of a sequence of `tokens` that no later query sees: rows behind those of sinks, in whole pages where these are
// many.
int64_t KeyValueCache::forgotten_of(int64_t tokens, const Columns& columns) {
  if (columns.most) return std::max<int64_t>(0, tokens - columns.most);
  if (columns.reach == 0) return 0;
  const int64_t first =
      columns.sight ? columns.sight->first_seen(tokens) : std::max<int64_t>(0, tokens + 1 - columns.reach);
  const int64_t unseen = goes_by_row(columns) ? first : first / kPageTokens * kPageTokens;
  return std::max<int64_t>(0, unseen - rows_of_sinks(columns));
}

KeyValueCache::KeyValueCache(const StateShape& shape, const Columns& columns)
    : shape_(shape),
      columns_(columns),
      lengths_("cache", shape.sequences),
      forgotten_(size_t(shape.sequences), 0),
      entries_(size_t(shape.sequences)),
      labels_(size_t(shape.sequences)) {
  check(columns.keys % columns.heads == 0 && columns.values % columns.heads == 0, "cache", "rows of ", columns.keys,
        " and ", columns.values, " numbers must be multiples of ", columns.heads, " heads");
}

// spec: hpc.paged | state | pages of 64 tokens, counted references, a copy when a shared page is written | TB 6.4.9
int64_t KeyValueCache::page_rows(size_t b, int64_t page, int64_t rows) const {
  const int64_t before = page * kPageTokens, room = std::min(kPageTokens, shape_.capacity - forgotten_[b] - before);
  if (columns_.most == 0 && !goes_by_row(columns_)) return room;
  const int64_t stays = columns_.most ? columns_.most : columns_.sinks + columns_.reach - 1;
  return std::min(room, std::max(rows, stays + 1) - before);
}

void KeyValueCache::make_writable(size_t b, int64_t page, int64_t kept, int64_t rows) {
  const auto at = size_t(page);
  KeyValues& entry = entries_[b];
  const std::vector<Tensor>& pages = entry.keys.pages;
  const long own = columns_.shared ? 2 : 1;
  const int64_t share = std::min(kPageTokens, rows - page * kPageTokens);
  if (at < pages.size() && pages[at].sharers() == own && pages[at].dim(0) >= share) return;
  const MemoryScope memory(MemoryClass::decode);
  const int64_t room = page_rows(b, page, rows);
  const auto fresh = [&](std::vector<Tensor>& list, int64_t cols, DType dtype) {
    renew(list, at, kept, empty({room, cols}, dtype, shape_.device));
  };
  const auto fresh_rows = [&](PagedRows& of, int64_t cols) {
    const kernels::PageRow row = page_row(shape_.dtype, cols, columns_.heads);
    fresh(of.pages, row.cols, shape_.dtype);
    if (row.scales) fresh(of.scales, row.scales, row.scale_type);
    if (shape_.dtype == DType::u8) of.width = cols;
  };
  fresh_rows(entry.keys, columns_.keys);
  if (columns_.shared)
    entry.values = entry.keys;
  else
    fresh_rows(entry.values, columns_.values);
  if (const auto [count, dtype] = labels_of(columns_, shape_.dtype); count > 0) fresh(labels_[b], count, dtype);
}

void KeyValueCache::label(size_t b, size_t page, int64_t at, int64_t n, DType dtype) const {
  if (labels_[b].empty()) return;
  const Tensor keys = empty({n, columns_.keys}, dtype, shape_.device), into = labels_[b][page].slice(at, at + n);
  load(entries_[b].keys, page, at, keys, columns_.heads);
  const Tensor labels = columns_.field->label(keys);
  if (!labels.is_meta()) copy_into(into, as_type(labels, into.dtype()));
}

// spec: infer.kv_cache | state | what the heads keep of past tokens, one row a token | TB 6.1.7, Fig 6.5
void KeyValueCache::append(const Tensor& k, const Tensor& v, const Sequences& sequences, const Tensor& labels) {
  lengths_.check_continues(sequences);
  check(labels.defined() == labels_rows(), "cache", "labels of rows come with their keys, others do not");
  const Tensor kept = labels.defined() ? as_type(labels, labels_of(columns_, shape_.dtype).dtype) : labels;
  for (int64_t b = 0; b < sequences.count(); ++b) {
    const int64_t length = lengths_[b], rows = sequences.length(b);
    check(length + rows <= shape_.capacity, "cache", "sequence ", b, " has room for ", shape_.capacity, " tokens, got ",
          length + rows);
    const KeyValues& entry = entries_[size_t(b)];
    const int64_t forgotten = forgotten_[size_t(b)];
    for (int64_t done = 0; done < rows;) {
      const int64_t place = length - forgotten + done, page = place / kPageTokens, at = place % kPageTokens,
                    n = std::min(rows - done, kPageTokens - at), from = sequences.offset(b) + done;
      make_writable(size_t(b), page, at, length - forgotten + rows);
      store(entry.keys, size_t(page), at, k, from, n, columns_.heads);
      if (!columns_.shared) store(entry.values, size_t(page), at, v, from, n, columns_.heads);
      if (!kept.defined())
        label(size_t(b), size_t(page), at, n, k.dtype());
      else if (!kept.is_meta())
        copy_rows(labels_[size_t(b)][size_t(page)], at, kept, from, n);
      done += n;
    }
  }
  lengths_.add(sequences);
}

void KeyValueCache::forget() {
  if (columns_.reach == 0 && columns_.most == 0) return;
  if (columns_.most || goes_by_row(columns_)) {
    for (size_t b = 0; b < entries_.size(); ++b) forget_by_row(b, lengths_[int64_t(b)] - forgotten_[b]);
    return;
  }
  const int64_t stay = whole_pages(columns_.sinks) / kPageTokens;
  for (size_t b = 0; b < entries_.size(); ++b) {
    const int64_t now = forgotten_of(lengths_[int64_t(b)], columns_), pages = (now - forgotten_[b]) / kPageTokens;
    for (std::vector<Tensor>* list : lists(b))
      if (!list->empty() && pages > 0) list->erase(list->begin() + stay, list->begin() + stay + pages);
    forgotten_[b] = std::max(now, forgotten_[b]);
  }
}

void KeyValueCache::forget_by_row(size_t b, int64_t kept) {
  const int64_t now = forgotten_of(lengths_[int64_t(b)], columns_), drops = now - forgotten_[b];
  if (drops <= 0) return;
  forgotten_[b] = now;
  if (columns_.most == 0)
    return keep_rows(b, 1, kept - drops, [&](int64_t) {
      std::vector<int64_t> rows;
      for (int64_t row = 0; row < kept; ++row)
        if (row < columns_.sinks || row >= columns_.sinks + drops) rows.push_back(row);
      return rows;
    });
  const auto [count, dtype] = labels_of(columns_, shape_.dtype);
  const Tensor labels = empty({kept, count}, dtype, shape_.device);
  each_page_of(kept, [&](size_t page, int64_t begin, int64_t end) {
    if (!labels.is_meta()) copy_rows(labels, begin, labels_[b][page], 0, end - begin);
  });
  keep_rows(b, columns_.heads, kept - drops, [&](int64_t head) { return columns_.field->stays(labels, head); });
}

// Rows only move up, so that pages of nobody else are written where they are.
void KeyValueCache::keep_rows(size_t b, int64_t heads, int64_t count,
                              const std::function<std::vector<int64_t>(int64_t)>& rows) {
  const auto pages = size_t((count + kPageTokens - 1) / kPageTokens);
  const MemoryScope memory(MemoryClass::decode);
  KeyValues& entry = entries_[b];
  std::vector<std::vector<Tensor>*> all = lists(b);
  if (columns_.shared) all = {&entry.keys.pages, &entry.keys.scales, &labels_[b]};
  std::vector<std::vector<Tensor>> to(all.size());
  for (size_t l = 0; l < all.size(); ++l) {
    const long own = columns_.shared && all[l] != &labels_[b] ? 2 : 1;
    for (size_t page = 0; page < std::min(pages, all[l]->size()); ++page) {
      const Tensor& old = (*all[l])[page];
      const int64_t room = page_rows(b, int64_t(page), count);
      const bool stays = old.sharers() == own && old.dim(0) == room;
      to[l].push_back(stays ? old : empty({room, old.cols()}, old.dtype(), old.device()));
    }
  }
  for (int64_t head = 0; head < heads && shape_.device != Device::meta; ++head) {
    const std::vector<int64_t> from = rows(head);
    check(int64_t(from.size()) == count, "cache", "a head keeps ", from.size(), " rows, not ", count);
    for (size_t l = 0; l < all.size(); ++l) {
      if (all[l]->empty()) continue;
      const Tensor& first = (*all[l])[0];
      const int64_t row = first.cols() * size_of(first.dtype()), width = row / heads;
      for (int64_t at = 0; at < count; ++at) {
        const int64_t old = from[size_t(at)];
        const char* source = static_cast<const char*>((*all[l])[size_t(old / kPageTokens)].raw());
        char* target = static_cast<char*>(to[l][size_t(at / kPageTokens)].raw());
        std::memmove(target + at % kPageTokens * row + head * width, source + old % kPageTokens * row + head * width,
                     size_t(width));
      }
    }
  }
  for (size_t l = 0; l < all.size(); ++l) *all[l] = std::move(to[l]);
  if (columns_.shared) entry.values = entry.keys;
}

std::vector<std::vector<Tensor>*> KeyValueCache::lists(size_t b) {
  KeyValues& entry = entries_[b];
  return {&entry.keys.pages, &entry.keys.scales, &entry.values.pages, &entry.values.scales, &labels_[b]};
}

std::vector<int64_t> KeyValueCache::kept() const {
  std::vector<int64_t> out = lengths_.all();
  for (size_t b = 0; b < out.size(); ++b) out[b] -= forgotten_[b];
  return out;
}

KeyValueCache::Rows KeyValueCache::gather(int64_t b, DType dtype) const {
  const Tensor keys = gather_keys(b, dtype);
  const PagedRows& values = entries_[size_t(b)].values;
  if (columns_.shared) return {keys, keys};
  return {keys, gather_rows(values, empty({keys.rows(), columns_.values}, dtype, shape_.device), columns_.heads)};
}

Tensor KeyValueCache::gather_keys(int64_t b, DType dtype) const {
  const Tensor out = empty({lengths_[b] - forgotten_[size_t(b)], columns_.keys}, dtype, shape_.device);
  return gather_rows(entries_[size_t(b)].keys, out, columns_.heads);
}

Tensor KeyValueCache::gather_labels() const {
  const auto [count, dtype] = labels_of(columns_, shape_.dtype);
  if (count == 0) return {};
  const std::vector<int64_t> rows = kept();
  const Tensor out = empty({std::accumulate(rows.begin(), rows.end(), int64_t(0)), count}, dtype, shape_.device);
  int64_t first = 0;
  for (size_t b = 0; b < rows.size(); first += rows[b++])
    each_page_of(rows[b], [&](size_t page, int64_t begin, int64_t end) {
      if (!out.is_meta()) copy_rows(out, first + begin, labels_[b][page], 0, end - begin);
    });
  return out;
}

int64_t KeyValueCache::longest() const {
  return tokens().empty() ? 0 : *std::max_element(tokens().begin(), tokens().end());
}

int64_t KeyValueCache::bytes_of(const std::vector<int64_t>& tokens, const Columns& columns, DType dtype) {
  const int64_t keys = page_row(dtype, columns.keys, columns.heads).bytes(),
                values = columns.shared ? 0 : page_row(dtype, columns.values, columns.heads).bytes();
  const Field::KeyLabels labels = labels_of(columns, dtype);
  int64_t rows = 0;
  for (const int64_t count : tokens) rows += count - forgotten_of(count, columns);
  return rows * (keys + values + labels.count * size_of(labels.dtype));
}

int64_t KeyValueCache::bytes() const { return bytes_of(tokens(), columns_, shape_.dtype); }

void KeyValueCache::reorder(const std::vector<int64_t>& from) { lengths_.reorder(from, entries_, forgotten_, labels_); }

void KeyValueCache::truncate(int64_t sequence, int64_t tokens) {
  int64_t& forgotten = forgotten_[size_t(sequence)];
  const bool there =
      columns_.most ? forgotten == 0 || tokens == lengths_[sequence] : forgotten_of(tokens, columns_) >= forgotten;
  check(tokens == 0 || there, "cache", forgotten, " rows are given back, some of which the last of ", tokens,
        " tokens saw; truncate to 0 and feed the first ", tokens, " again");
  lengths_.truncate(sequence, tokens);
  if (tokens == 0) forgotten = 0;
  const auto pages = size_t((tokens - forgotten + kPageTokens - 1) / kPageTokens);
  for (std::vector<Tensor>* list : lists(size_t(sequence)))
    if (list->size() > pages) list->resize(pages);
}

namespace {

constexpr const char *kTokens = "tokens", *kForgotten = "forgotten";

// What sequence b keeps in `rows` rows: f(name, the rows of a page that are in use).
template <class F>
void each_page(int64_t b, const KeyValues& entry, const std::vector<Tensor>& labels, bool shared, int64_t rows, F f) {
  const auto list = [&](const char* name, const std::vector<Tensor>& pages) {
    for (size_t i = 0; i < pages.size(); ++i)
      f(cat(b, ".", name, ".", i),
        pages[i].slice(0, std::min(pages[i].dim(0), rows - int64_t(i) * KeyValueCache::kPageTokens)));
  };
  list("keys", entry.keys.pages);
  list("key_scales", entry.keys.scales);
  list("labels", labels);
  if (shared) return;
  list("values", entry.values.pages);
  list("value_scales", entry.values.scales);
}

}  // namespace

NamedTensors KeyValueCache::save() const {
  NamedTensors out{{kTokens, tensor_of_counts(lengths_.all())}, {kForgotten, tensor_of_counts(forgotten_)}};
  for (size_t b = 0; b < entries_.size(); ++b)
    each_page(int64_t(b), entries_[b], labels_[b], columns_.shared, lengths_[int64_t(b)] - forgotten_[b],
              [&](const std::string& name, const Tensor& rows) { out[name] = rows; });
  return out;
}

void KeyValueCache::restore(const NamedTensors& kept) {
  lengths_.set(counts_of(kept_tensor(kept, kTokens), shape_.sequences));
  forgotten_ = counts_of(kept_tensor(kept, kForgotten), shape_.sequences);
  const MemoryScope memory(MemoryClass::decode);
  for (size_t b = 0; b < entries_.size(); ++b) {
    const int64_t rows = lengths_[int64_t(b)] - forgotten_[b];
    for (std::vector<Tensor>* list : lists(b)) list->clear();
    for (int64_t page = 0; page * kPageTokens < rows; ++page) make_writable(b, page, 0, rows);
    each_page(int64_t(b), entries_[b], labels_[b], columns_.shared, rows,
              [&](const std::string& name, const Tensor& page) { restore_tensor(page, kept, name); });
  }
}

}  // namespace lithe
