// The words that several sections of the configuration share: addresses, URLs, API families, TLS towards
// others.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/secret.h"
#include "conf/time.h"
#include "router/facts/api.h"

namespace conf {
class Object;
class Value;
class Writer;
}  // namespace conf

namespace gateway::config {

// Where to listen: an IP literal (without brackets) and a port; port 0 asks the system for a free one.
struct Address {
  std::string host;
  uint16_t port = 0;

  bool loopback() const;
  friend bool operator==(const Address&, const Address&) = default;
};
bool IsLoopbackHost(const std::string& host);  // an address of this machine, or localhost
std::string ToString(const Address& address);  // "127.0.0.1:8080", "[::1]:8080"

// A URL without credentials, query or fragment. Its port is the scheme's own when the text gives none.
struct Url {
  std::string scheme;
  std::string host;  // without brackets
  uint16_t port = 0;
  std::string path;  // empty, or begins with "/" and does not end with one

  bool tls() const { return scheme == "https" || scheme == "rediss"; }
  bool empty() const { return host.empty(); }
  std::string authority()
      const;  // host[:port] as a Host header wants it: no port when it is the scheme's own
  friend bool operator==(const Url&, const Url&) = default;
};
std::string ToString(const Url& url);

// Families of endpoints, which tenants may call and engines serve. Listing models is always allowed.
enum class Api : uint8_t {
  kChat,         // /v1/chat/completions
  kCompletions,  // /v1/completions
  kEmbeddings,   // /v1/embeddings
  kResponses,    // /v1/responses and its input_tokens
  kMessages,     // /v1/messages and its count_tokens
  kRerank,       // /v1/rerank
  kScore,        // /v1/score
  kAudio,        // /v1/audio/*
  kImages,       // /v1/images/*
  kTokenize,     // /tokenize
};
inline constexpr unsigned kApiFamilies = 10;
std::string_view Name(Api api);
// The family of an endpoint; none for listing models.
std::optional<Api> FamilyOf(router::Api api);

class ApiSet {
 public:
  constexpr ApiSet() = default;
  constexpr ApiSet(std::initializer_list<Api> apis) {
    for (const Api api : apis) Add(api);
  }
  static constexpr ApiSet All() {
    ApiSet all;
    all.bits_ = (1U << kApiFamilies) - 1;
    return all;
  }
  constexpr void Add(Api api) { bits_ |= Bit(api); }
  constexpr bool Has(Api api) const { return (bits_ & Bit(api)) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  friend constexpr bool operator==(ApiSet, ApiSet) = default;
  friend constexpr ApiSet operator&(ApiSet a, ApiSet b) {
    a.bits_ &= b.bits_;
    return a;
  }

 private:
  static constexpr uint32_t Bit(Api api) { return 1U << static_cast<unsigned>(api); }
  uint32_t bits_ = 0;
};

// TLS when Tidegate is the client. All files are PEM.
struct ClientTls {
  std::string ca;           // empty: the system's roots
  std::string server_name;  // for SNI and verification; empty: the URL's host
  std::string certificate;  // both or neither
  std::string key;
  bool insecure_skip_verify = false;

  friend bool operator==(const ClientTls&, const ClientTls&) = default;
};

// A header whose value may be shown, or one whose value comes by reference.
struct Header {
  std::string name;
  std::string value;
};
struct SecretHeader {
  std::string name;
  conf::Secret value;
};

// Names of a client's headers that are passed on, in lower case.
struct HeaderNames {
  std::vector<std::string>* out;
};
void Read(const conf::Value& value, const HeaderNames& names);
void Write(conf::Writer& writer, const HeaderNames& names);

// Refuses a `tls` that would have no effect because `url` is not over TLS.
void RefuseIdleTls(conf::Object& object, const Url& url, const ClientTls& tls);

// Shell-style match where `*` stands for any run of characters, as in tenants' `models`.
bool GlobMatches(std::string_view pattern, std::string_view name);

void Read(const conf::Value& value, Address& out);
void Read(const conf::Value& value, ApiSet& out);
void Bind(conf::Object& object, ClientTls& out);
void Read(const conf::Value& value, std::vector<Header>& out);
void Read(const conf::Value& value, std::vector<SecretHeader>& out);
// A URL of one of the given schemes, e.g. {"http", "https"}.
void ReadUrl(const conf::Value& value, std::initializer_list<std::string_view> schemes, Url& out);
void Read(const conf::Value& value, Url& out);  // http or https

void Write(conf::Writer& writer, const Address& in);
void Write(conf::Writer& writer, const ApiSet& in);
void Write(conf::Writer& writer, const std::vector<Header>& in);
void Write(conf::Writer& writer, const std::vector<SecretHeader>& in);
void Write(conf::Writer& writer, const Url& in);

// A name of a tenant, model or endpoint: 1 to 128 printable ASCII characters without spaces and quotes.
struct ValidName {
  std::string operator()(std::string_view name) const;
};

// Accepts a duration of at most one day.
struct UpToADay {
  std::string operator()(conf::Duration length) const;
};

// Accepts a path of a request: it begins with "/" and has no spaces.
struct AbsolutePath {
  std::string operator()(std::string_view path) const;
};

}  // namespace gateway::config
