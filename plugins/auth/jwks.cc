#include "plugins/auth/jwks.h"

#include <fmt/format.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "plugins/auth/base64url.h"
#include "plugins/auth/strict_json.h"

namespace plugins::auth {
namespace {

using nlohmann::json;

constexpr int kMinRsaBits = 2048;
constexpr int kMaxRsaBits = 8192;  // bounds the cost of a verification
constexpr size_t kMaxExponentBytes = 8;
constexpr size_t kMaxKidBytes = 256;
constexpr size_t kEd25519KeyBytes = 32;

struct CurveRow {
  std::string_view crv;
  Curve curve;
  const char* group;
  size_t coordinate;
};
constexpr CurveRow kCurves[] = {{"P-256", Curve::kP256, "prime256v1", 32},
                                {"P-384", Curve::kP384, "secp384r1", 48},
                                {"P-521", Curve::kP521, "secp521r1", 66}};

struct NumberFree {
  void operator()(BIGNUM* n) const { BN_free(n); }
};
struct BuilderFree {
  void operator()(OSSL_PARAM_BLD* b) const { OSSL_PARAM_BLD_free(b); }
};
struct ParamsFree {
  void operator()(OSSL_PARAM* p) const { OSSL_PARAM_free(p); }
};
struct KeyContextFree {
  void operator()(EVP_PKEY_CTX* c) const { EVP_PKEY_CTX_free(c); }
};
using Number = std::unique_ptr<BIGNUM, NumberFree>;
using Builder = std::unique_ptr<OSSL_PARAM_BLD, BuilderFree>;

const uint8_t* Octets(std::string_view s) {
  return reinterpret_cast<const uint8_t*>(s.data());
}

absl::Status Unusable(std::string_view why) {
  return absl::InvalidArgumentError(absl::string_view(why.data(), why.size()));
}

// The member's text; empty when it is absent or no string.
std::string Text(const json& key, const char* name) {
  const auto it = key.find(name);
  return it != key.end() && it->is_string() ? it->get<std::string>() : std::string();
}

absl::StatusOr<std::string> Binary(const json& key, const char* name) {
  std::optional<std::string> bytes = DecodeBase64Url(Text(key, name));
  if (!bytes || bytes->empty())
    return Unusable(fmt::format("\"{}\" must be base64url without padding", name));
  return *std::move(bytes);
}

absl::StatusOr<PublicKey> Build(const char* type, OSSL_PARAM_BLD* builder) {
  const std::unique_ptr<OSSL_PARAM, ParamsFree> params(OSSL_PARAM_BLD_to_param(builder));
  const std::unique_ptr<EVP_PKEY_CTX, KeyContextFree> context(
      EVP_PKEY_CTX_new_from_name(nullptr, type, nullptr));
  EVP_PKEY* raw = nullptr;
  if (params == nullptr || context == nullptr || EVP_PKEY_fromdata_init(context.get()) != 1 ||
      EVP_PKEY_fromdata(context.get(), &raw, EVP_PKEY_PUBLIC_KEY, params.get()) != 1) {
    ERR_clear_error();
    return Unusable("is not a valid public key of its type");
  }
  PublicKey key(raw);
  return key;
}

absl::Status ReadRsa(const json& object, Jwk* out) {
  const absl::StatusOr<std::string> n_bytes = Binary(object, "n");
  if (!n_bytes.ok()) return n_bytes.status();
  const absl::StatusOr<std::string> e_bytes = Binary(object, "e");
  if (!e_bytes.ok()) return e_bytes.status();
  const Number n(BN_bin2bn(Octets(*n_bytes), static_cast<int>(n_bytes->size()), nullptr));
  const Number e(BN_bin2bn(Octets(*e_bytes), static_cast<int>(e_bytes->size()), nullptr));
  const int bits = BN_num_bits(n.get());
  if (!BN_is_odd(n.get())) return Unusable("has an even RSA modulus");
  if (bits < kMinRsaBits || bits > kMaxRsaBits) {
    return Unusable(
        fmt::format("is an RSA key of {} bits; {} to {} are accepted", bits, kMinRsaBits, kMaxRsaBits));
  }
  if (e_bytes->size() > kMaxExponentBytes || !BN_is_odd(e.get()) || BN_is_one(e.get())) {
    return Unusable("has an RSA exponent that is even, 1, or longer than 64 bits");
  }
  const Builder builder(OSSL_PARAM_BLD_new());
  if (builder == nullptr || OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_N, n.get()) != 1 ||
      OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_E, e.get()) != 1) {
    return Unusable("is not a valid public key of its type");
  }
  absl::StatusOr<PublicKey> key = Build("RSA", builder.get());
  if (!key.ok()) return key.status();
  out->type = KeyType::kRsa;
  out->key = *std::move(key);
  return absl::OkStatus();
}

absl::Status ReadEc(const json& object, Jwk* out) {
  const std::string crv = Text(object, "crv");
  const auto row =
      std::find_if(std::begin(kCurves), std::end(kCurves), [&](const CurveRow& r) { return r.crv == crv; });
  if (row == std::end(kCurves)) return Unusable("has a curve other than P-256, P-384 and P-521");
  const absl::StatusOr<std::string> x = Binary(object, "x");
  if (!x.ok()) return x.status();
  const absl::StatusOr<std::string> y = Binary(object, "y");
  if (!y.ok()) return y.status();
  if (x->size() != row->coordinate || y->size() != row->coordinate) {
    return Unusable(fmt::format("needs coordinates of {} bytes for {}", row->coordinate, row->crv));
  }
  const std::string point = "\x04" + *x + *y;  // uncompressed
  const Builder builder(OSSL_PARAM_BLD_new());
  if (builder == nullptr ||
      OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME, row->group, 0) != 1 ||
      OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY, point.data(), point.size()) !=
          1) {
    return Unusable("is not a valid public key of its type");
  }
  absl::StatusOr<PublicKey> key = Build("EC", builder.get());
  if (!key.ok()) return key.status();
  const std::unique_ptr<EVP_PKEY_CTX, KeyContextFree> check(
      EVP_PKEY_CTX_new_from_pkey(nullptr, key->get(), nullptr));
  if (check == nullptr || EVP_PKEY_public_check_quick(check.get()) != 1) {
    ERR_clear_error();
    return Unusable("is a point that is not on its curve");
  }
  out->type = KeyType::kEc;
  out->curve = row->curve;
  out->key = *std::move(key);
  return absl::OkStatus();
}

absl::Status ReadEd25519(const json& object, Jwk* out) {
  if (Text(object, "crv") != "Ed25519") return Unusable("has a curve other than Ed25519");
  const absl::StatusOr<std::string> x = Binary(object, "x");
  if (!x.ok()) return x.status();
  if (x->size() != kEd25519KeyBytes) return Unusable("needs 32 bytes in \"x\" for Ed25519");
  PublicKey key(EVP_PKEY_new_raw_public_key_ex(nullptr, "ED25519", nullptr, Octets(*x), x->size()));
  if (key == nullptr) {
    ERR_clear_error();
    return Unusable("is not a valid public key of its type");
  }
  out->type = KeyType::kEd25519;
  out->key = std::move(key);
  return absl::OkStatus();
}

// Checks the purpose that the issuer states for the key.
absl::Status CheckPurpose(const json& object) {
  const auto use = object.find("use");
  if (use != object.end() && *use != "sig") return Unusable("is not for signatures: \"use\" must be \"sig\"");
  const auto ops = object.find("key_ops");
  if (ops != object.end() &&
      (!ops->is_array() || std::find(ops->begin(), ops->end(), "verify") == ops->end())) {
    return Unusable("is not for verifying: \"key_ops\" must contain \"verify\"");
  }
  return absl::OkStatus();
}

absl::StatusOr<Jwk> ReadKey(const json& object) {
  if (!object.is_object()) return Unusable("is not an object");
  Jwk key;
  for (const auto& [name, out] :
       {std::pair<const char*, std::string*>{"kid", &key.kid}, {"alg", &key.algorithm}}) {
    if (!object.contains(name)) continue;
    *out = Text(object, name);
    if (out->empty() || out->size() > kMaxKidBytes)
      return Unusable(fmt::format("has a \"{}\" that is not a short text", name));
  }
  if (absl::Status s = CheckPurpose(object); !s.ok()) return s;
  const std::string kty = Text(object, "kty");
  if (kty == "oct") return Unusable("is a symmetric key, which no public key set may contain");
  if (object.contains("d")) return Unusable("holds a private key: it is public now and must be replaced");
  absl::Status read = kty == "RSA"   ? ReadRsa(object, &key)
                      : kty == "EC"  ? ReadEc(object, &key)
                      : kty == "OKP" ? ReadEd25519(object, &key)
                                     : Unusable("has a \"kty\" other than RSA, EC and OKP");
  if (!read.ok()) return read;
  const bool fits = std::any_of(kJwsAlgorithms.begin(), kJwsAlgorithms.end(),
                                [&](const JwsAlgorithm& a) { return key.Fits(a); });
  if (!fits) return Unusable("has an \"alg\" that its type cannot do or that is not accepted");
  return key;
}

}  // namespace

absl::StatusOr<JwkSet> JwkSet::Parse(std::string_view text) {
  if (text.size() > kMaxJwksBytes) {
    return absl::InvalidArgumentError(
        fmt::format("the key set has {} bytes; at most {} are read", text.size(), kMaxJwksBytes));
  }
  const absl::StatusOr<json> document = ParseStrictObject(text);
  if (!document.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("the key set {}", std::string(document.status().message())));
  }
  const auto keys = document->find("keys");
  if (keys == document->end() || !keys->is_array()) {
    return absl::InvalidArgumentError("the key set has no list \"keys\"");
  }
  if (keys->size() > kMaxJwksKeys) {
    return absl::InvalidArgumentError(
        fmt::format("the key set holds {} keys; at most {} are read", keys->size(), kMaxJwksKeys));
  }
  JwkSet set;
  for (size_t i = 0; i < keys->size(); ++i) {
    absl::StatusOr<Jwk> key = ReadKey((*keys)[i]);
    if (key.ok()) {
      const bool repeated = std::any_of(set.keys_.begin(), set.keys_.end(), [&](const Jwk& other) {
        return !key->kid.empty() && other.kid == key->kid && other.type == key->type &&
               other.curve == key->curve && other.algorithm == key->algorithm;
      });
      if (repeated) key = Unusable("has the \"kid\" of an earlier one");
    }
    if (key.ok()) {
      set.keys_.push_back(*std::move(key));
    } else {
      set.skipped_.push_back(fmt::format("key {} {}", i, std::string(key.status().message())));
    }
  }
  return set;
}

JwkSet::Found JwkSet::Find(std::string_view kid, const JwsAlgorithm& algorithm) const {
  Found found;
  for (const Jwk& key : keys_) {
    if (!kid.empty() && key.kid != kid) continue;
    if (!key.Fits(algorithm)) {
      if (found.state == Found::State::kUnknownKid && !kid.empty()) found.state = Found::State::kWrongKind;
      continue;
    }
    if (found.key != nullptr) return {Found::State::kAmbiguous, nullptr};
    found = {Found::State::kFound, &key};
  }
  return found;
}

}  // namespace plugins::auth
