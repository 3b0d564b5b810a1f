#include "lithe/data/corpus.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "lithe/base/error.h"
#include "lithe/data/byte_source.h"
#include "lithe/data/documents.h"
#include "lithe/data/utf8_filter.h"

namespace lithe {
namespace {

constexpr size_t kChunk = size_t(1) << 20;

bool is_jsonl(const Path& path) {
  const Path inner = path.extension() == ".gz" || path.extension() == ".zst" ? path.stem() : path;
  return inner.extension() == ".jsonl" || inner.extension() == ".ndjson";
}

void read_documents(const Path& path, const CorpusOptions& options, const Corpus::DocumentFn& f) {
  const std::string name = path.string();
  const auto source = open_decompressed(path);
  const bool jsonl = is_jsonl(path);
  // JSON cannot hold such bytes, so there they are replaced.
  Utf8Filter filter(name, !options.allow_invalid_utf8 ? InvalidUtf8::refuse
                          : jsonl                     ? InvalidUtf8::replace
                                                      : InvalidUtf8::keep);
  const auto splitter =
      jsonl ? make_jsonl_splitter(name, options.text_field, f) : make_text_splitter(options.documents, f);
  std::string chunk(kChunk, '\0');
  while (const size_t n = source->read(chunk.data(), chunk.size())) splitter->feed(filter.feed({chunk.data(), n}));
  splitter->feed(filter.finish());
  splitter->finish();
}

// Where a long document is divided, in (0, size) or 0 when it has one character: at the first line start from `wanted`
// on, or if none is within `reach`, after the first space, or between characters.
size_t dividing_place(std::string_view text, size_t wanted, size_t reach) {
  for (const char separator : {'\n', ' '}) {
    const size_t place = text.substr(0, wanted + reach).find(separator, wanted - 1) + 1;  // 0: none
    if (place > 0 && place < text.size()) return place;
  }
  const auto begins_character = [&](size_t place) { return (static_cast<unsigned char>(text[place]) & 0xC0) != 0x80; };
  for (size_t place = wanted; place < text.size(); ++place)
    if (begins_character(place)) return place;
  for (size_t place = wanted; place-- > 1;)
    if (begins_character(place)) return place;
  return 0;
}

}  // namespace

struct Corpus::Cut {
  bool known = false;
  int64_t document = 0;  // the first document of the held-out part
  size_t wanted = 0;     // above 0: only its text from about here on
  size_t reach = 0;      // and at most this much later
};

Corpus::Corpus(const std::vector<std::string>& patterns, CorpusOptions options) : options_(std::move(options)) {
  check_usage(!patterns.empty(), "corpus", "no files are given; name at least one in data.files");
  check_usage(options_.documents == "file" || options_.documents == "paragraph" || options_.documents == "line",
              "corpus", "documents must be file, paragraph or line, got '", options_.documents, "'");
  std::map<Path, std::string> named_by;
  for (const auto& pattern : patterns) {
    check_usage(pattern != "-", "corpus", "standard input cannot be read twice, and a corpus is; name files, not '-'");
    for (const auto& path : glob(pattern)) {
      open_plain(path);       // says why when it is not readable, before anything long begins
      std::error_code error;  // of a file without a name, as standard input is kept
      const Path canonical = std::filesystem::weakly_canonical(path, error);
      const auto [entry, fresh] = named_by.emplace(error ? path : canonical, pattern);
      check_usage(fresh, "corpus", "'", path.string(), "' is named twice, by '", entry->second, "' and by '", pattern,
                  "'; remove one");
      files_.push_back(path);
    }
  }
  contents_ = std::make_shared<uint64_t>(0);
}

void Corpus::for_all_documents(const DocumentFn& f) const {
  int64_t documents = 0;
  const auto count = [&](std::string_view document) {
    if (is_blank(document)) return;
    ++documents;
    f(document);
  };
  for (const auto& path : files_) read_documents(path, options_, count);
  const std::string more = files_.size() > 1 ? cat(" and ", files_.size() - 1, " more") : "";
  check(documents > 0, "corpus", "'", files_[0].string(), "'", more, " holds no text; name files with text");
}

void Corpus::for_each_document(const DocumentFn& f) const {
  if (part_ == Part::all) {
    for_all_documents(f);
    return;
  }
  const Cut& at = cut();
  int64_t document = 0;
  for_all_documents([&](std::string_view text) {
    const int64_t d = document++;
    const size_t divided = d == at.document && at.wanted > 0 ? dividing_place(text, at.wanted, at.reach) : 0;
    if (part_ == Part::training)
      text = d < at.document ? text : text.substr(0, divided);
    else
      text = d < at.document ? std::string_view() : text.substr(divided);
    if (!is_blank(text)) f(text);
  });
}

const Corpus::Cut& Corpus::cut() const {
  if (cut_->known) return *cut_;
  std::vector<uint64_t> ends;  // of the documents, in bytes of text
  uint64_t total = 0;
  for_all_documents([&](std::string_view text) { ends.push_back(total += text.size()); });
  check(total >= 2, "corpus", "'", files_[0].string(), "' is too short to hold out a part of it");
  const auto held = std::clamp<uint64_t>(uint64_t(std::llround(fraction_ * double(total))), 1, total - 1);
  const uint64_t place = total - held;
  const auto d = std::upper_bound(ends.begin(), ends.end(), place) - ends.begin();  // the document that holds `place`
  const uint64_t begin = d > 0 ? ends[size_t(d - 1)] : 0, end = ends[size_t(d)];
  const auto tolerable = [&](uint64_t off) { return 2 * off <= held; };
  const bool at_begin = begin > 0 && tolerable(place - begin), at_end = end < total && tolerable(end - place);
  if (at_begin && (!at_end || place - begin <= end - place))
    *cut_ = {true, d, 0, 0};
  else if (at_end)
    *cut_ = {true, d + 1, 0, 0};
  else
    *cut_ = {true, d, size_t(std::max<uint64_t>(place - begin, 1)), size_t(held / 2)};
  return *cut_;
}

uint64_t Corpus::fingerprint() const {
  if (*contents_ == 0) {
    uint64_t sum = 1;
    std::string chunk(kChunk, '\0');
    for (const auto& path : files_) {
      const auto source = open_plain(path);
      uint64_t size = 0;
      // A reader may return less than was asked for, so blocks are filled before they are summed.
      for (size_t filled = chunk.size(); filled == chunk.size();) {
        filled = 0;
        while (filled < chunk.size()) {
          const size_t n = source->read(chunk.data() + filled, chunk.size() - filled);
          if (n == 0) break;
          filled += n;
        }
        sum = checksum(chunk.data(), filled, sum);
        size += filled;
      }
      const std::string facts = cat(size, is_jsonl(path) ? " jsonl" : " text", path.extension().string());
      sum = checksum(facts.data(), facts.size(), sum);
    }
    *contents_ = std::max<uint64_t>(sum, 1);
  }
  char fraction[32];
  std::snprintf(fraction, sizeof fraction, "%a", part_ == Part::all ? 0.0 : fraction_);
  const std::string facts = cat("line ends unified ", options_.text_field.size(), " ", options_.text_field, " ",
                                options_.documents, " ", options_.allow_invalid_utf8, " ", int(part_), " ", fraction);
  return checksum(facts.data(), facts.size(), *contents_);
}

Corpus Corpus::training_part(double fraction) const {
  check_usage(part_ == Part::all, "corpus", "a part of a corpus cannot be divided again");
  check_usage(fraction > 0 && fraction < 1, "corpus", "the held-out fraction must be above 0 and below 1, got ",
              fraction);
  Corpus part = *this;
  part.part_ = Part::training;
  part.fraction_ = fraction;
  part.cut_ = std::make_shared<Cut>();
  return part;
}

Corpus Corpus::held_out_part(double fraction) const {
  Corpus part = training_part(fraction);
  part.part_ = Part::held_out;
  return part;
}

}  // namespace lithe
