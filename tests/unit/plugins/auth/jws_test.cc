#include "plugins/auth/jws.h"

#include <gtest/gtest.h>

#include "plugins/auth/base64url.h"
#include "plugins/auth/jwks.h"
#include "tests/unit/plugins/auth/signer.h"

namespace plugins::auth {
namespace {

JwkSet OneKey(const nlohmann::json& jwk) {
  auto set = JwkSet::Parse(nlohmann::json{{"keys", {jwk}}}.dump());
  EXPECT_TRUE(set.ok()) << set.status();
  EXPECT_TRUE(set->skipped().empty()) << set->skipped()[0];
  return *std::move(set);
}

TEST(Base64Url, RoundTripsEveryLengthAndByte) {
  std::string bytes;
  for (int i = 0; i < 600; ++i) {
    EXPECT_EQ(DecodeBase64Url(EncodeBase64Url(bytes)), bytes);
    bytes.push_back(static_cast<char>(i * 7));
  }
}

TEST(Base64Url, HasOneTextForOneValue) {
  EXPECT_EQ(DecodeBase64Url("AA"), std::string(1, '\0'));
  EXPECT_EQ(DecodeBase64Url("-_8"), "\xfb\xff");
  for (const char* bad :
       {"A", "AAAAA", "AB", "AA=", "AA==", "A A", "AA\n", "+/8", "AAB", "AA.", "\xc3\xa4"}) {
    EXPECT_FALSE(DecodeBase64Url(bad).has_value()) << bad;
  }
}

struct Vector {
  const char* source;
  const char* algorithm;
  const char* jwk;
  const char* token;
};
constexpr Vector kVectors[] = {
    {"RFC 7515 A.2", "RS256",
     R"({"kty":"RSA","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ","e":"AQAB"})",
     "eyJhbGciOiJSUzI1NiJ9."
     "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ."
     "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_"
     "O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_"
     "nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-"
     "eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_"
     "IoypGlUPQGe77Rw"},
    {"RFC 7515 A.3", "ES256",
     R"({"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"})",
     "eyJhbGciOiJFUzI1NiJ9."
     "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ."
     "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"},
    {"RFC 7515 A.4", "ES512",
     R"({"kty":"EC","crv":"P-521","x":"AekpBQ8ST8a8VcfVOTNl353vSrDCLLJXmPk06wTjxrrjcBpXp5EOnYG_NjFZ6OvLFV1jSfS9tsz4qUxcWceqwQGk","y":"ADSmRA43Z1DSNx_RvcLI87cdL07l6jQyyBXMoxVg_l2Th-x3S1WDhjDly79ajL4Kkd0AZMaZmh9ubmf63e3kyMj2"})",
     "eyJhbGciOiJFUzUxMiJ9.UGF5bG9hZA.AdwMgeerwtHoh-l192l60hp9wAHZFVJbLfD_UxMi70cwnZOYaRI1bKPWROc-mZZqwqT2SI-"
     "KGDKB34XO0aw_7XdtAG8GaSwFKdCAPZgoXD2YBJZCPEX3xKpRwcdOO8KpEHwJjyqOgzDO7iKvU8vcnwNrmxYbSW9ERBXukOXolLzeO_"
     "Jn"},
    {"RFC 8037 A.4", "EdDSA",
     R"({"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"})",
     "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-"
     "09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"},
};

TEST(Jws, VerifiesTheVectorsOfTheStandards) {
  for (const Vector& v : kVectors) {
    SCOPED_TRACE(v.source);
    const JwkSet set = OneKey(nlohmann::json::parse(v.jwk));
    const std::string_view token = v.token;
    const std::string_view text = token.substr(0, token.rfind('.'));
    const std::string signature = *DecodeBase64Url(token.substr(text.size() + 1));
    EVP_PKEY* key = set.keys()[0].key.get();
    EXPECT_TRUE(VerifyJws(*FindJwsAlgorithm(v.algorithm), key, text, signature));
    EXPECT_FALSE(VerifyJws(*FindJwsAlgorithm(v.algorithm), key, text.substr(1), signature));
  }
}

TEST(Jws, EveryAlgorithmVerifiesWhatWasSignedAndNothingElse) {
  const std::string text = "header.claims";
  for (const JwsAlgorithm& algorithm : kJwsAlgorithms) {
    SCOPED_TRACE(algorithm.name);
    const Signer& signer = Signer::For(algorithm.name);
    const JwkSet set = OneKey(signer.PublicJwk("k"));
    EVP_PKEY* key = set.keys()[0].key.get();
    const std::string signature = signer.Sign(algorithm, text);
    EXPECT_TRUE(VerifyJws(algorithm, key, text, signature));
    EXPECT_FALSE(VerifyJws(algorithm, key, text + "x", signature));
    EXPECT_FALSE(VerifyJws(algorithm, key, text, ""));
    EXPECT_FALSE(VerifyJws(algorithm, key, text, signature.substr(1)));
    EXPECT_FALSE(VerifyJws(algorithm, key, text, signature + std::string(1, '\0')));
    EXPECT_FALSE(VerifyJws(algorithm, key, text, std::string(signature.size(), '\0')));
    for (size_t byte = 0; byte < signature.size(); byte += 9) {
      std::string wrong = signature;
      wrong[byte] ^= 1;
      EXPECT_FALSE(VerifyJws(algorithm, key, text, wrong)) << byte;
    }
  }
}

TEST(Jws, PaddingAndDigestAreThoseOfTheAlgorithm) {
  const std::string text = "header.claims";
  const Signer& signer = Signer::For("RS256");
  const JwkSet set = OneKey(signer.PublicJwk("k"));
  EVP_PKEY* key = set.keys()[0].key.get();
  for (const JwsAlgorithm& signed_as : kJwsAlgorithms) {
    if (signed_as.type != KeyType::kRsa) continue;
    const std::string signature = signer.Sign(signed_as, text);
    for (const JwsAlgorithm& read_as : kJwsAlgorithms) {
      if (read_as.type != KeyType::kRsa) continue;
      EXPECT_EQ(VerifyJws(read_as, key, text, signature), signed_as.name == read_as.name)
          << signed_as.name << " read as " << read_as.name;
    }
  }
  EXPECT_FALSE(VerifyJws(*FindJwsAlgorithm("PS256"), key, text,
                         signer.Sign(*FindJwsAlgorithm("PS256"), text, /*salt=*/8)));
}

TEST(Jws, EcdsaIsTakenAtFullWidthAndNotAsDer) {
  const JwsAlgorithm& es256 = *FindJwsAlgorithm("ES256");
  const Signer& signer = Signer::For("ES256");
  const JwkSet set = OneKey(signer.PublicJwk("k"));
  EXPECT_FALSE(VerifyJws(es256, set.keys()[0].key.get(), "a.b", signer.SignDer(es256, "a.b")));
}

TEST(Jws, KnowsNoSymmetricAlgorithmAndNoNone) {
  for (const char* name :
       {"none", "None", "", "HS256", "HS384", "HS512", "rs256", "ES256K", "RS1", "EdDSA "}) {
    EXPECT_EQ(FindJwsAlgorithm(name), nullptr) << name;
  }
}

}  // namespace
}  // namespace plugins::auth
