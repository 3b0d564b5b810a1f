#include "lithe/text/md5.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include "lithe/base/error.h"

namespace lithe {
struct FreeDigest {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  void operator()(EVP_MAC* mac) const { EVP_MAC_free(mac); }
  void operator()(EVP_MAC_CTX* context) const { EVP_MAC_CTX_free(context); }
};

namespace {

void check_openssl(bool succeeded) {
  check(succeeded, "md5",
        "OpenSSL offers no MD5, as in its FIPS configuration: choose hash lsh or another configuration");
}

Digest plain(std::string_view bytes) {
  static const EVP_MD* const algorithm =
      EVP_MD_fetch(nullptr, "MD5", nullptr);  // looking it up costs more than hashing
  thread_local const std::unique_ptr<EVP_MD_CTX, FreeDigest> context(EVP_MD_CTX_new());
  Digest digest;
  check_openssl(algorithm && context && EVP_DigestInit_ex2(context.get(), algorithm, nullptr) == 1 &&
                EVP_DigestUpdate(context.get(), bytes.data(), bytes.size()) == 1 &&
                EVP_DigestFinal_ex(context.get(), digest.data(), nullptr) == 1);
  return digest;
}

}  // namespace

struct Md5::Keyed {
  std::unique_ptr<EVP_MAC_CTX, FreeDigest> context;  // with the key; each use takes a copy
};

Md5::Md5(const std::string& key) {
  if (key.empty()) {
    plain("");  // fails here if at all, not later in a parallel loop
    return;
  }
  const std::unique_ptr<EVP_MAC, FreeDigest> mac(EVP_MAC_fetch(nullptr, "HMAC", nullptr));
  auto keyed = std::make_shared<Keyed>();
  keyed->context.reset(mac ? EVP_MAC_CTX_new(mac.get()) : nullptr);
  char name[] = "MD5";
  const OSSL_PARAM parameters[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, name, 0),
                                   OSSL_PARAM_construct_end()};
  check_openssl(keyed->context && EVP_MAC_init(keyed->context.get(), reinterpret_cast<const uint8_t*>(key.data()),
                                               key.size(), parameters) == 1);
  keyed_ = std::move(keyed);
}

Digest Md5::operator()(std::string_view bytes) const {
  if (!keyed_) return plain(bytes);
  const std::unique_ptr<EVP_MAC_CTX, FreeDigest> context(EVP_MAC_CTX_dup(keyed_->context.get()));
  Digest digest;
  size_t length = 0;
  check_openssl(context &&
                EVP_MAC_update(context.get(), reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()) == 1 &&
                EVP_MAC_final(context.get(), digest.data(), &length, digest.size()) == 1 && length == digest.size());
  return digest;
}

int64_t modulo(const Digest& digest, int64_t divisor) {
  __uint128_t rest = 0;
  for (const uint8_t byte : digest) rest = (rest << 8 | byte) % __uint128_t(divisor);
  return int64_t(rest);
}

}  // namespace lithe
