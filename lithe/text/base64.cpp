#include "lithe/text/base64.h"

#include <openssl/evp.h>

#include <limits>

namespace lithe {

std::string to_base64(std::string_view bytes) {
  std::string out(4 * ((bytes.size() + 2) / 3), '\0');
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()), reinterpret_cast<const unsigned char*>(bytes.data()),
                  int(bytes.size()));
  return out;
}

std::string from_base64(std::string_view text) {
  if (text.empty() || text.size() % 4 != 0 || text.size() > size_t(std::numeric_limits<int>::max())) return {};
  std::string out(text.size() / 4 * 3, '\0');
  if (EVP_DecodeBlock(reinterpret_cast<unsigned char*>(out.data()), reinterpret_cast<const unsigned char*>(text.data()),
                      int(text.size())) < 0)
    return {};
  for (int padding = 0; padding < 2 && text[text.size() - 1 - size_t(padding)] == '='; ++padding) out.pop_back();
  return out;
}

}  // namespace lithe
