#include "plugins/auth/hmac.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>

#include "conf/hex.h"

namespace plugins::auth {

std::string HmacSha256(std::string_view secret, std::string_view message) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(message.data()), message.size(), digest.data(), &size);
  return conf::Hex({digest.data(), size});
}

}  // namespace plugins::auth
