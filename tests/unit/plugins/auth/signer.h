// Makes keys and signed tokens for tests, with OpenSSL and by another way than the code under test: an
// issuer's side of JWS, none of which Tidegate itself has.
#pragma once

#include <gtest/gtest.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rsa.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "plugins/auth/base64url.h"
#include "plugins/auth/jws.h"

namespace plugins::auth {

class Signer {
 public:
  static Signer Rsa(unsigned int bits = 2048) { return Signer(EVP_RSA_gen(bits)); }
  static Signer Ec(const char* group) { return Signer(EVP_EC_gen(group)); }
  static Signer Ed25519() { return Signer(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519")); }

  // The key for kJwsAlgorithms[...].name; made once, as RSA keys take a while.
  static const Signer& For(std::string_view algorithm) {
    static const Signer rsa = Rsa();
    static const Signer p256 = Ec("P-256");
    static const Signer p384 = Ec("P-384");
    static const Signer p521 = Ec("P-521");
    static const Signer ed = Ed25519();
    if (algorithm == "ES256") return p256;
    if (algorithm == "ES384") return p384;
    if (algorithm == "ES512") return p521;
    if (algorithm == "EdDSA") return ed;
    return rsa;
  }

  nlohmann::json PublicJwk(const std::string& kid) const {
    nlohmann::json jwk = {{"kid", kid}};
    if (EVP_PKEY_is_a(key_.get(), "RSA")) {
      jwk["kty"] = "RSA";
      jwk["n"] = EncodeBase64Url(Number(OSSL_PKEY_PARAM_RSA_N, 0));
      jwk["e"] = EncodeBase64Url(Number(OSSL_PKEY_PARAM_RSA_E, 0));
    } else if (EVP_PKEY_is_a(key_.get(), "EC")) {
      const int bits = EVP_PKEY_get_bits(key_.get());
      const auto width = static_cast<size_t>((bits + 7) / 8);
      jwk["kty"] = "EC";
      jwk["crv"] = "P-" + std::to_string(bits);
      jwk["x"] = EncodeBase64Url(Number(OSSL_PKEY_PARAM_EC_PUB_X, width));
      jwk["y"] = EncodeBase64Url(Number(OSSL_PKEY_PARAM_EC_PUB_Y, width));
    } else {
      std::string raw(32, '\0');
      size_t size = raw.size();
      EXPECT_EQ(EVP_PKEY_get_raw_public_key(key_.get(), reinterpret_cast<unsigned char*>(raw.data()), &size),
                1);
      jwk["kty"] = "OKP";
      jwk["crv"] = "Ed25519";
      jwk["x"] = EncodeBase64Url(raw);
    }
    return jwk;
  }

  // `salt` is for PS*: -1 is the digest's length, as the standard wants.
  std::string Sign(const JwsAlgorithm& algorithm, const std::string& text, int salt = -1) const {
    const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
    EVP_PKEY_CTX* parameters = nullptr;
    EXPECT_EQ(EVP_DigestSignInit_ex(context.get(), &parameters, algorithm.digest, nullptr, nullptr,
                                    key_.get(), nullptr),
              1);
    if (algorithm.pss) {
      EXPECT_EQ(EVP_PKEY_CTX_set_rsa_padding(parameters, RSA_PKCS1_PSS_PADDING), 1);
      EXPECT_EQ(EVP_PKEY_CTX_set_rsa_pss_saltlen(parameters, salt), 1);
    }
    const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
    size_t size = 0;
    EXPECT_EQ(EVP_DigestSign(context.get(), nullptr, &size, bytes, text.size()), 1);
    std::string signature(size, '\0');
    EXPECT_EQ(EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size, bytes,
                             text.size()),
              1);
    signature.resize(size);
    return algorithm.type == KeyType::kEc ? Joined(signature, algorithm.coordinate) : signature;
  }

  // DER as OpenSSL makes it, for tests that it is not taken.
  std::string SignDer(const JwsAlgorithm& algorithm, const std::string& text) const {
    JwsAlgorithm as_is = algorithm;
    as_is.type = KeyType::kRsa;
    return Sign(as_is, text);
  }

 private:
  explicit Signer(EVP_PKEY* key) : key_(key) { EXPECT_NE(key, nullptr); }

  std::string Number(const char* name, size_t width) const {
    BIGNUM* n = nullptr;
    EXPECT_EQ(EVP_PKEY_get_bn_param(key_.get(), name, &n), 1);
    std::string out(width == 0 ? static_cast<size_t>(BN_num_bytes(n)) : width, '\0');
    EXPECT_GE(BN_bn2binpad(n, reinterpret_cast<unsigned char*>(out.data()), static_cast<int>(out.size())), 0);
    BN_free(n);
    return out;
  }

  static std::string Joined(const std::string& der, size_t coordinate) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(der.data());
    ECDSA_SIG* parts = d2i_ECDSA_SIG(nullptr, &bytes, static_cast<long>(der.size()));
    std::string out(2 * coordinate, '\0');
    auto* to = reinterpret_cast<unsigned char*>(out.data());
    BN_bn2binpad(ECDSA_SIG_get0_r(parts), to, static_cast<int>(coordinate));
    BN_bn2binpad(ECDSA_SIG_get0_s(parts), to + coordinate, static_cast<int>(coordinate));
    ECDSA_SIG_free(parts);
    return out;
  }

  PublicKey key_;
};

// header.claims.signature of texts that need not be JSON.
inline std::string SignToken(const Signer& signer, std::string_view algorithm, const std::string& header,
                             const std::string& claims) {
  const std::string text = EncodeBase64Url(header) + "." + EncodeBase64Url(claims);
  return text + "." + EncodeBase64Url(signer.Sign(*FindJwsAlgorithm(algorithm), text));
}

}  // namespace plugins::auth
