#include "plugins/auth/digest.h"

// The calls below are deprecated in OpenSSL 3 in favour of EVP, which allocates at every hash (3.0).
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/crypto.h>
#include <openssl/sha.h>

namespace plugins::auth {

Digest Sha256(std::string_view first, std::string_view second) {
  Digest out;
  SHA256_CTX context;
  SHA256_Init(&context);
  SHA256_Update(&context, first.data(), first.size());
  SHA256_Update(&context, second.data(), second.size());
  SHA256_Final(out.data(), &context);
  return out;
}

bool EqualInConstantTime(const Digest& a, const Digest& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace plugins::auth
