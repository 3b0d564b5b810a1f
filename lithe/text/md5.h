// MD5 and HMAC-MD5, from OpenSSL. A hash of words, not a protection of anything.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace lithe {

/// 128 bits, most significant byte first.
using Digest = std::array<uint8_t, 16>;

/// MD5 (RFC 1321) or, with a key that is not empty, HMAC-MD5 (RFC 2104). Thread-safe, cheap to copy. Fails where
/// OpenSSL offers no MD5 (a FIPS configuration).
class Md5 {
 public:
  explicit Md5(const std::string& key = "");
  Digest operator()(std::string_view bytes) const;

 private:
  struct Keyed;
  std::shared_ptr<const Keyed> keyed_;  // null without a key
};

/// The digest, an unsigned integer of 128 bits, modulo `divisor` (at least 1).
int64_t modulo(const Digest& digest, int64_t divisor);

}  // namespace lithe
