#include "plugins/auth/jws.h"

#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>

#include <cstdint>
#include <string>

namespace plugins::auth {
namespace {

constexpr size_t kEd25519SignatureBytes = 64;

struct ContextFree {
  void operator()(EVP_MD_CTX* c) const { EVP_MD_CTX_free(c); }
};
struct EcdsaFree {
  void operator()(ECDSA_SIG* s) const { ECDSA_SIG_free(s); }
};

const uint8_t* Bytes(std::string_view s) {
  return reinterpret_cast<const uint8_t*>(s.data());
}

// JWS carries r and s side by side at full width; OpenSSL wants them as DER. Empty when that fails.
std::string EcdsaToDer(std::string_view signature, size_t coordinate) {
  if (signature.size() != 2 * coordinate) return {};
  const std::unique_ptr<ECDSA_SIG, EcdsaFree> parts(ECDSA_SIG_new());
  BIGNUM* r = BN_bin2bn(Bytes(signature), static_cast<int>(coordinate), nullptr);
  BIGNUM* s = BN_bin2bn(Bytes(signature) + coordinate, static_cast<int>(coordinate), nullptr);
  if (parts == nullptr || r == nullptr || s == nullptr || ECDSA_SIG_set0(parts.get(), r, s) != 1) {
    BN_free(r);
    BN_free(s);
    return {};
  }
  const int size = i2d_ECDSA_SIG(parts.get(), nullptr);
  if (size <= 0) return {};
  std::string der(static_cast<size_t>(size), '\0');
  auto* out = reinterpret_cast<uint8_t*>(der.data());
  return i2d_ECDSA_SIG(parts.get(), &out) == size ? der : std::string();
}

}  // namespace

const JwsAlgorithm* FindJwsAlgorithm(std::string_view name) {
  for (const JwsAlgorithm& algorithm : kJwsAlgorithms) {
    if (algorithm.name == name) return &algorithm;
  }
  return nullptr;
}

void PublicKeyFree::operator()(EVP_PKEY* key) const {
  EVP_PKEY_free(key);
}

bool VerifyJws(const JwsAlgorithm& algorithm, EVP_PKEY* key, std::string_view signed_text,
               std::string_view signature) {
  std::string der;
  if (algorithm.type == KeyType::kEc) {
    der = EcdsaToDer(signature, algorithm.coordinate);
    if (der.empty()) return false;
    signature = der;
  } else if (algorithm.type == KeyType::kEd25519 && signature.size() != kEd25519SignatureBytes) {
    return false;
  } else if (algorithm.type == KeyType::kRsa &&
             signature.size() != static_cast<size_t>(EVP_PKEY_get_size(key))) {
    return false;  // RFC 8017: as long as the modulus; OpenSSL takes a PSS signature without its leading zero
  }
  const std::unique_ptr<EVP_MD_CTX, ContextFree> context(EVP_MD_CTX_new());
  EVP_PKEY_CTX* parameters = nullptr;  // owned by context
  const bool valid =
      context != nullptr &&
      EVP_DigestVerifyInit_ex(context.get(), &parameters, algorithm.digest, nullptr, nullptr, key, nullptr) ==
          1 &&
      (!algorithm.pss || (EVP_PKEY_CTX_set_rsa_padding(parameters, RSA_PKCS1_PSS_PADDING) == 1 &&
                          EVP_PKEY_CTX_set_rsa_pss_saltlen(parameters, RSA_PSS_SALTLEN_DIGEST) == 1)) &&
      EVP_DigestVerify(context.get(), Bytes(signature), signature.size(), Bytes(signed_text),
                       signed_text.size()) == 1;
  if (!valid) ERR_clear_error();  // a wrong signature must not show up in another connection's TLS error
  return valid;
}

}  // namespace plugins::auth
