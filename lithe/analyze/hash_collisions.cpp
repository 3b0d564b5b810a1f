#include "lithe/analyze/hash_collisions.h"

#include <algorithm>
#include <map>

#include "lithe/base/part_options.h"
#include "lithe/ops/candidate_scores.h"
#include "lithe/ops/ngram_memory.h"
#include "lithe/parts/common/token_history.h"

namespace lithe::analyze {
namespace {

using Gram = std::vector<int32_t>;
using TableRows = std::vector<int32_t>;  // one a hash

// The rows of every n-gram that differs from the others.
using Grams = std::map<Gram, TableRows>;

// Calls each(windows) for each document: a row a token, itself and the `before` tokens before it, -1 where there is
// none.
template <class Each>
void for_each_window(const TokenStore& text, int64_t before, Each each) {
  for (int64_t d = 0; d < text.documents(); ++d) {
    const int64_t begin = text.document_begin(d), count = text.document_end(d) - begin;
    if (!count) continue;
    const Tensor ids = empty({count}, DType::i32);
    text.copy(begin, count, ids.data<int32_t>());
    each(TokenHistory::whole(ids, Sequences::single(count), before));
  }
}

std::vector<int64_t> integers(const PartChoice& part, const char* name) {
  std::vector<int64_t> out;
  if (const Node* list = part.options.find(name))
    for (const Node& item : list->items()) out.push_back(std::stoll(item.text()));
  return out;
}

Gram gram_of(const Tensor& recent, int64_t n, int64_t size) {
  const int32_t* from = recent.data<int32_t>() + n * recent.cols();
  return {from, from + size};
}

int64_t sharing(const std::map<TableRows, int64_t>& counts) {
  int64_t out = 0;
  for (const auto& [rows, count] : counts) out += count > 1 ? count : 0;
  return out;
}

void add_uses(std::vector<HashTableUse>& out, const std::string& part, const std::string& what, const Grams& grams,
              const std::vector<int64_t>& table_rows) {
  std::map<TableRows, int64_t> together;
  for (const auto& [gram, rows] : grams) ++together[rows];
  for (size_t h = 0; h < table_rows.size(); ++h) {
    std::map<TableRows, int64_t> alone;
    for (const auto& [gram, rows] : grams) ++alone[{rows[h]}];
    out.push_back({.part = part,
                   .what = cat(what, ", ", table_rows.size() > 1 ? cat("hash ", h + 1) : "one hash"),
                   .rows = table_rows[h],
                   .distinct = int64_t(grams.size()),
                   .used = int64_t(alone.size()),
                   .sharing = sharing(alone),
                   .all_alike = sharing(together)});
  }
}

void add_engram(std::vector<HashTableUse>& out, const std::string& name, const PartChoice& part,
                const TokenStore& text) {
  const NgramHashes hashes = NgramHashes::of({.seed = option_integer(part, "seed"),
                                              .max_size = option_integer(part, "max_ngram_size"),
                                              .heads = option_integer(part, "n_head_per_ngram"),
                                              .buckets = option_integer(part, "num_buckets"),
                                              .multipliers = integers(part, "multipliers"),
                                              .folded_ids = integers(part, "folded_ids")});
  std::vector<Grams> by_order(static_cast<size_t>(hashes.max_size - 1));
  const auto folded = [&](int32_t id) {
    return id < 0 || hashes.folded_ids.empty() ? id : int32_t(hashes.folded_ids[size_t(id)]);
  };
  for_each_window(text, hashes.max_size - 1, [&](const Tensor& recent) {
    const Tensor rows = ngram_memory_rows(recent, hashes);
    for (int64_t n = 0; n < recent.rows(); ++n)
      for (int64_t order = 2; order <= hashes.max_size; ++order) {
        Gram gram = gram_of(recent, n, order);
        for (int32_t& id : gram) id = folded(id);
        const int32_t* from = rows.data<int32_t>() + n * hashes.tables() + (order - 2) * hashes.heads;
        by_order[size_t(order - 2)].try_emplace(gram, from, from + hashes.heads);
      }
  });
  for (int64_t order = 2; order <= hashes.max_size; ++order)
    add_uses(out, name, cat(order, "-grams"), by_order[size_t(order - 2)],
             {hashes.primes.begin() + (order - 2) * hashes.heads, hashes.primes.begin() + (order - 1) * hashes.heads});
}

void add_byte_ngrams(std::vector<HashTableUse>& out, const PartChoice& part, const TokenStore& text) {
  const int64_t buckets = option_integer(part, "num_buckets"), functions = option_integer(part, "num_hash_functions");
  for (const int64_t size : integers(part, "group_sizes")) {
    Grams grams;
    for_each_window(text, size - 1, [&](const Tensor& recent) {
      std::vector<Tensor> ids;
      for (int64_t f = 0; f < functions; ++f) ids.push_back(rolling_hash_ids(recent, size, f, buckets));
      for (int64_t n = 0; n < recent.rows(); ++n) {
        TableRows rows;
        for (const Tensor& of : ids) rows.push_back(of.data<int32_t>()[n]);
        grams.try_emplace(gram_of(recent, n, size), rows);
      }
    });
    add_uses(out, "embedding", cat(size, "-grams"), grams,
             std::vector<int64_t>(static_cast<size_t>(functions), buckets));
  }
}

// The codes of all tokens: of embedding hash_sum, or of head hash_codes.
void add_codes(std::vector<HashTableUse>& out, const std::string& name, const std::string& what, const PartChoice& part,
               int64_t vocab_size) {
  const int64_t tables = option_integer(part, "num_tables"), codes = option_integer(part, "num_codes");
  const Tensor of = hashed_codes(vocab_size, tables, codes, option_integer(part, "seed"), Device::cpu);
  Grams candidates;
  for (int64_t w = 0; w < of.rows(); ++w) {
    const int32_t* from = of.data<int32_t>() + w * tables;
    candidates.emplace(Gram{int32_t(w)}, TableRows{from, from + tables});
  }
  add_uses(out, name, what, candidates, std::vector<int64_t>(static_cast<size_t>(tables), codes));
}

}  // namespace

std::vector<HashTableUse> hash_table_uses(const ModelConfig& config, const TokenStore& text) {
  std::vector<HashTableUse> out;
  if (config.embedding.type == "hash_sum") add_codes(out, "embedding", "tokens", config.embedding, config.vocab_size);
  if (config.embedding.type == "byte_ngrams") add_byte_ngrams(out, config.embedding, text);
  for (int64_t i = 0; i < config.num_hidden_layers; ++i)
    for (const SubLayerConfig& sub : config.layer(i).sub_layers)
      if (sub.kind == SubLayerConfig::Kind::mixer && sub.part.type == "engram")
        add_engram(out, cat("layers.", i, ".", sub.name), sub.part, text);
  if (config.head.type == "hash_codes") add_codes(out, "head", "candidates", config.head, config.vocab_size);
  return out;
}

}  // namespace lithe::analyze
