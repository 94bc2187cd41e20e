// The signature algorithms of JSON Web Signatures that Tidegate accepts (RFC 7518, RFC 8037), and
// verification.
//
// Only asymmetric ones exist here: there is no HS* and no `none` to be switched on by mistake.
#pragma once

#include <openssl/types.h>

#include <array>
#include <memory>
#include <string_view>

namespace plugins::auth {

enum class KeyType { kRsa, kEc, kEd25519 };
enum class Curve { kNone, kP256, kP384, kP521 };

struct JwsAlgorithm {
  std::string_view name;  // as in the header's `alg`
  KeyType type;
  Curve curve;
  const char* digest;  // OpenSSL's name; null where the algorithm brings its own
  bool pss;
  size_t coordinate;  // bytes of each half of an ECDSA signature; else 0
};

inline constexpr std::array<JwsAlgorithm, 10> kJwsAlgorithms = {{
    {"RS256", KeyType::kRsa, Curve::kNone, "SHA256", false, 0},
    {"RS384", KeyType::kRsa, Curve::kNone, "SHA384", false, 0},
    {"RS512", KeyType::kRsa, Curve::kNone, "SHA512", false, 0},
    {"PS256", KeyType::kRsa, Curve::kNone, "SHA256", true, 0},
    {"PS384", KeyType::kRsa, Curve::kNone, "SHA384", true, 0},
    {"PS512", KeyType::kRsa, Curve::kNone, "SHA512", true, 0},
    {"ES256", KeyType::kEc, Curve::kP256, "SHA256", false, 32},
    {"ES384", KeyType::kEc, Curve::kP384, "SHA384", false, 48},
    {"ES512", KeyType::kEc, Curve::kP521, "SHA512", false, 66},
    {"EdDSA", KeyType::kEd25519, Curve::kNone, nullptr, false, 0},
}};

// Null for a name that is not in the table; names are compared as they are, case included.
const JwsAlgorithm* FindJwsAlgorithm(std::string_view name);

struct PublicKeyFree {
  void operator()(EVP_PKEY* key) const;
};
using PublicKey = std::unique_ptr<EVP_PKEY, PublicKeyFree>;

// `key` must be of the algorithm's type and curve. False for any signature that is not exactly right, one of
// another length or form included.
bool VerifyJws(const JwsAlgorithm& algorithm, EVP_PKEY* key, std::string_view signed_text,
               std::string_view signature);

}  // namespace plugins::auth
