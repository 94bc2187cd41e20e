// What the configuration's tests share: sources of secrets that touch neither environment nor files, and
// valid documents of which a case replaces some part.
#pragma once

#include <absl/status/status.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/config/load.h"
#include "tests/support/shipped.h"

namespace gateway {

struct KeyPair {
  std::string certificate;
  std::string key;
};

inline std::string Contents(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<size_t>(size)};
}

inline KeyPair MakeKeyPair() {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(X509_new(), X509_free);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), 0);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
  X509_set_pubkey(certificate.get(), key.get());
  X509_sign(certificate.get(), key.get(), EVP_sha256());
  const std::unique_ptr<BIO, decltype(&BIO_free)> c(BIO_new(BIO_s_mem()), BIO_free);
  const std::unique_ptr<BIO, decltype(&BIO_free)> k(BIO_new(BIO_s_mem()), BIO_free);
  PEM_write_bio_X509(c.get(), certificate.get());
  PEM_write_bio_PrivateKey(k.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  return {Contents(c.get()), Contents(k.get())};
}

inline constexpr std::string_view kSecret = "0123456789abcdef0123456789abcdef";

// Files by their extension: any .crt and .key belong together, other.key does not.
inline conf::Sources FakeSources() {
  static const KeyPair pair = MakeKeyPair();
  static const KeyPair other = MakeKeyPair();
  return {.environment = [](const std::string& name) -> std::optional<std::string> {
            if (name == "GONE") return std::nullopt;
            if (name == "SHORT") return "short";
            return std::string(kSecret);
          },
          .file = [](const std::string& path) -> absl::StatusOr<std::string> {
            if (path == "other.key") return other.key;
            if (path.ends_with(".crt")) return pair.certificate;
            if (path.ends_with(".key")) return pair.key;
            if (path == "jwks.json") return "{}";
            if (path == "junk.pem") return "junk";
            if (path.starts_with("conf/")) return tests::ReadShipped(path.substr(5));
            return absl::UnavailableError(fmt::format("cannot read \"{}\": No such file or directory", path));
          }};
}

inline LoadResult Parse(std::string_view text) {
  const conf::Sources sources = FakeSources();
  return ParseConfig(text, "t.yaml", sources);
}

inline std::vector<std::string> Problems(std::string_view text) {
  const LoadResult result = Parse(text);
  EXPECT_NE(result.config.has_value(), !result.problems.empty())
      << "a Config exists exactly without problems";
  std::vector<std::string> out;
  for (const conf::Problem& problem : result.problems) out.push_back(conf::ToString(problem));
  return out;
}

// A valid document of which a case replaces some sections by its own.
inline std::string With(const std::map<std::string, std::string>& sections) {
  std::map<std::string, std::string> all = {
      {"server", "{listen: 127.0.0.1:8080}"},
      {"tenants", "[{name: search, models: [small]}]"},
      {"models", "[{name: small, endpoints: [{url: http://h:1, engine: vllm}]}]"},
  };
  for (const auto& [name, body] : sections) all[name] = body;
  std::string out;
  for (const auto& [name, body] : all) out.append(name).append(": ").append(body).append("\n");
  return out;
}

inline std::string OneModel(const std::string& fields) {
  return With({{"models", "[{name: small, endpoints: [{url: http://h:1, engine: vllm}], " + fields + "}]"}});
}
// With the models `small`, of a vLLM, and `paid`, of a provider, behind these.
inline std::string Adapters(std::string models) {
  models.back() = ',';
  return With(
      {{"models", models + "{name: small, endpoints: [{url: http://h:1, engine: vllm}]}, {name: paid, "
                           "endpoints: [{url: http://h:3, engine: openai}]}]"}});
}
// Two endpoints, the second of the track v2.
inline std::string Tracked(const std::string& routing) {
  return With({{"models",
                "[{name: small, endpoints: [{url: http://h:1, engine: vllm}, {url: http://h:2, engine: vllm, "
                "track: v2}], routing: {" +
                    routing + "}}]"}});
}
inline std::string OneEndpoint(const std::string& fields) {
  return With({{"models", "[{name: small, endpoints: [{engine: vllm, " + fields + "}]}]"}});
}
inline std::string OneTenant(const std::string& fields) {
  return With({{"tenants", "[{name: search, models: [small], " + fields + "}]"}});
}
inline std::string OneServer(const std::string& fields) {
  return With({{"server", "{" + fields + "}"}});
}
inline std::string OneJwt(const std::string& fields) {
  return With({{"auth", "{jwt: [{issuer: i, audience: a, " + fields + "}]}"}});
}
inline std::string OneSink(const std::string& fields) {
  return With({{"ledger", "{sinks: [{name: s, " + fields + "}]}"}});
}

}  // namespace gateway
