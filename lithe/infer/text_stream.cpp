#include "lithe/infer/text_stream.h"

#include <algorithm>

namespace lithe {

bool TextStream::push(int32_t token) {
  pending_ += decoder_.push(token);
  cut_at_stop();
  emit(pending_.size() - (stopped_ ? 0 : held_back()));
  return !stopped_ && !refused_;
}

void TextStream::finish(bool whole) {
  if (stopped_ || refused_) return;
  pending_ += decoder_.finish();
  if (whole) cut_at_stop();
  emit(pending_.size());
}

void TextStream::cut_at_stop() {
  size_t at = std::string::npos;
  for (const std::string& stop : stops_) at = std::min(at, pending_.find(stop));
  stopped_ = at != std::string::npos;
  if (stopped_) pending_.resize(at);
}

// How many bytes at the end may begin one of the stop strings.
size_t TextStream::held_back() const {
  size_t held = 0;
  for (const std::string& stop : stops_)
    for (size_t n = std::min(pending_.size(), stop.size() - 1); n > held; --n)
      if (pending_.compare(pending_.size() - n, n, stop, 0, n) == 0) held = n;
  return held;
}

void TextStream::emit(size_t bytes) {
  if (!bytes) return;
  text_.append(pending_, 0, bytes);
  refused_ = on_text_ && !on_text_(std::string_view(pending_).substr(0, bytes));
  pending_.erase(0, bytes);
}

}  // namespace lithe
