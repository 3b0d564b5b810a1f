#include "lithe/nn/key_value_cache.h"

#include <algorithm>
#include <numeric>

#include "lithe/kernels/elementwise/elementwise.h"
#include "lithe/kernels/quantized_rows/quantized_rows.h"

namespace lithe {
namespace {

using kernels::PagedRows;

// Rows [at, at + n) of a page become rows [from, from + n) of x.
void store(const PagedRows& to, size_t page, int64_t at, const Tensor& x, int64_t from, int64_t n) {
  const Tensor rows = x.slice(from, from + n), into = to.pages[page].slice(at, at + n);
  if (to.scales.empty())
    kernels::add({.a = rows, .out = into});
  else
    kernels::quantize_rows({.x = rows, .values = into, .scales = to.scales[page].slice(at, at + n)});
}

Tensor gather_rows(const PagedRows& from, int64_t tokens, int64_t cols, DType dtype, Device device) {
  const Tensor out = empty({tokens, cols}, dtype, device);
  for (int64_t at = 0; at < tokens; at += KeyValueCache::kPageTokens) {
    const auto page = size_t(at / KeyValueCache::kPageTokens);
    const int64_t n = std::min(tokens - at, KeyValueCache::kPageTokens);
    const Tensor rows = from.pages[page].slice(0, n), into = out.slice(at, at + n);
    if (from.scales.empty())
      kernels::add({.a = rows, .out = into});
    else
      kernels::dequantize_rows({.values = rows, .scales = from.scales[page].slice(0, n), .out = into});
  }
  return out;
}

// A new last page, or a copy of what page `page` holds in its first `kept` rows.
void renew(PagedRows& rows, size_t page, int64_t kept, const std::function<Tensor(bool scales)>& make) {
  const auto put = [&](std::vector<Tensor>& pages, const Tensor& fresh) {
    if (page == pages.size()) return pages.push_back(fresh);
    if (kept && !fresh.is_meta()) copy_into(fresh.slice(0, kept), pages[page].slice(0, kept));
    pages[page] = fresh;
  };
  put(rows.pages, make(false));
  if (const Tensor scales = make(true)) put(rows.scales, scales);
}

}  // namespace

std::optional<DType> cache_type_named(const std::string& name) {
  if (name.empty()) return {};
  return name == "int8" ? DType::i8 : dtype_named(name);
}

KeyValueCache::KeyValueCache(int64_t sequences, int64_t capacity, int64_t key_cols, int64_t value_cols, bool shared,
                             DType dtype, Device device, int64_t heads)
    : capacity_(capacity),
      key_cols_(key_cols),
      value_cols_(value_cols),
      heads_(heads),
      shared_(shared),
      dtype_(dtype),
      device_(device),
      lengths_("cache", sequences),
      entries_(size_t(sequences)) {
  check(key_cols % heads == 0 && value_cols % heads == 0, "cache", "rows of ", key_cols, " and ", value_cols,
        " numbers must be multiples of ", heads, " heads");
}

// spec: hpc.paged | state | pages of 64 tokens, counted references, a copy when a shared page is written | TB 6.4.9
void KeyValueCache::make_writable(KeyValues& entry, int64_t page, int64_t kept) const {
  const auto at = size_t(page);
  const std::vector<Tensor>& pages = entry.keys.pages;
  const long own = shared_ ? 2 : 1;
  if (at < pages.size() && pages[at].sharers() == own) return;
  const MemoryScope memory(MemoryClass::decode);
  const int64_t rows = std::min(kPageTokens, capacity_ - page * kPageTokens);
  const auto of = [&](int64_t cols) {
    return [this, rows, cols](bool scales) {
      if (!scales) return empty({rows, cols}, dtype_, device_);
      return dtype_ == DType::i8 ? empty({rows, heads_}, DType::f32, device_) : Tensor();
    };
  };
  renew(entry.keys, at, kept, of(key_cols_));
  if (shared_)
    entry.values = entry.keys;
  else
    renew(entry.values, at, kept, of(value_cols_));
}

// spec: infer.kv_cache | state | what the heads keep of past tokens, one row a token | TB 6.1.7, Fig 6.5
void KeyValueCache::append(const Tensor& k, const Tensor& v, const Sequences& sequences) {
  lengths_.check_continues(sequences);
  for (int64_t b = 0; b < sequences.count(); ++b) {
    const int64_t length = lengths_[b], rows = sequences.length(b);
    check(length + rows <= capacity_, "cache", "sequence ", b, " has room for ", capacity_, " tokens, got ",
          length + rows);
    KeyValues& entry = entries_[size_t(b)];
    for (int64_t done = 0; done < rows;) {
      const int64_t page = (length + done) / kPageTokens, at = (length + done) % kPageTokens,
                    n = std::min(rows - done, kPageTokens - at), from = sequences.offset(b) + done;
      make_writable(entry, page, at);
      store(entry.keys, size_t(page), at, k, from, n);
      if (!shared_) store(entry.values, size_t(page), at, v, from, n);
      done += n;
    }
  }
  lengths_.add(sequences);
}

KeyValueCache::Rows KeyValueCache::gather(int64_t b, DType dtype) const {
  const KeyValues& entry = entries_[size_t(b)];
  const Tensor keys = gather_rows(entry.keys, lengths_[b], key_cols_, dtype, device_);
  return {keys, shared_ ? keys : gather_rows(entry.values, lengths_[b], value_cols_, dtype, device_)};
}

int64_t KeyValueCache::longest() const {
  return tokens().empty() ? 0 : *std::max_element(tokens().begin(), tokens().end());
}

int64_t KeyValueCache::bytes_of(const std::vector<int64_t>& tokens, int64_t cols, DType dtype, int64_t scales) {
  const int64_t row = cols * size_of(dtype) + (dtype == DType::i8 ? scales * size_of(DType::f32) : 0);
  return std::accumulate(tokens.begin(), tokens.end(), int64_t(0)) * row;
}

int64_t KeyValueCache::bytes() const {
  return bytes_of(tokens(), key_cols_ + (shared_ ? 0 : value_cols_), dtype_, shared_ ? heads_ : 2 * heads_);
}

void KeyValueCache::reorder(const std::vector<int64_t>& from) {
  lengths_.reorder(from, entries_, [](const KeyValues& entry) { return entry; });
}

void KeyValueCache::truncate(int64_t sequence, int64_t tokens) {
  lengths_.truncate(sequence, tokens);
  const auto pages = size_t((tokens + kPageTokens - 1) / kPageTokens);
  KeyValues& entry = entries_[size_t(sequence)];
  for (PagedRows* rows : {&entry.keys, &entry.values})
    for (std::vector<Tensor>* list : {&rows->pages, &rows->scales})
      if (list->size() > pages) list->resize(pages);
}

}  // namespace lithe
