#include "gateway/config/types.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/url/parse.hpp>
#include <boost/url/url_view.hpp>
#include <optional>
#include <set>
#include <utility>

#include "conf/reader.h"
#include "conf/text.h"
#include "gateway/net/url.h"

namespace gateway::config {
namespace {

constexpr conf::Word<Api> kApis[] = {{"chat", Api::kChat},
                                     {"completions", Api::kCompletions},
                                     {"embeddings", Api::kEmbeddings},
                                     {"responses", Api::kResponses},
                                     {"messages", Api::kMessages},
                                     {"rerank", Api::kRerank},
                                     {"score", Api::kScore},
                                     {"audio", Api::kAudio},
                                     {"images", Api::kImages},
                                     {"tokenize", Api::kTokenize}};

constexpr std::array<std::pair<std::string_view, uint16_t>, 6> kSchemePorts = {
    {{"http", 80}, {"https", 443}, {"redis", 6379}, {"rediss", 6379}, {"udp", 514}, {"tcp", 601}}};

uint16_t DefaultPort(std::string_view scheme) {
  for (const auto& [name, port] : kSchemePorts) {
    if (name == scheme) return port;
  }
  return 0;
}

bool IsIpv6(const std::string& host) {
  in6_addr v6;
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1;
}

bool IsIpv4(const std::string& host) {
  in_addr v4;
  return inet_pton(AF_INET, host.c_str(), &v4) == 1;
}

std::optional<Address> ParseAddress(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string host(text.substr(0, colon));
  const std::string_view digits = text.substr(colon + 1);
  const std::optional<uint16_t> port = conf::ReadNumber<uint16_t>(digits);
  if (!port) return std::nullopt;
  if (host == "localhost") host = "127.0.0.1";
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
    return IsIpv6(host) ? std::optional(Address{host, *port}) : std::nullopt;
  }
  return IsIpv4(host) ? std::optional(Address{host, *port}) : std::nullopt;
}

bool IsTokenCharacter(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

constexpr std::array<std::string_view, 10> kOwnHeaders = {
    "host", "content-length",    "content-type", "connection", "keep-alive", "upgrade",
    "te",   "transfer-encoding", "expect",       "trailer"};
constexpr std::array<std::string_view, 5> kCredentialHeaders = {"authorization", "proxy-authorization",
                                                                "x-api-key", "api-key", "cookie"};

// The problem of a header's name; empty: none.
std::string WrongHeaderName(const std::string& lower, bool secret) {
  const auto is_in = [&lower](const auto& names) {
    return std::find(names.begin(), names.end(), lower) != names.end();
  };
  if (lower.empty() || !std::all_of(lower.begin(), lower.end(), IsTokenCharacter)) {
    return "is not the name of an HTTP header";
  }
  if (is_in(kOwnHeaders) || lower.starts_with("x-tidegate-")) {
    return "is a header that Tidegate sets itself; remove it";
  }
  if (!secret && is_in(kCredentialHeaders)) {
    return "carries a credential; use api_key, or give it by reference under secret_headers";
  }
  return {};
}

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return text;
}

template <class HeaderType>
void ReadHeaders(const conf::Value& value, bool secret, std::vector<HeaderType>& out) {
  if (value.kind() != conf::Kind::kMapping) {
    value.ErrorExpected("a mapping of header names to values");
    return;
  }
  out.clear();
  std::set<std::string> names;
  for (const auto& [key, field] : value.Fields()) {
    const std::string lower = Lower(key);
    std::string wrong = WrongHeaderName(lower, secret);
    if (wrong.empty() && !names.insert(lower).second) wrong = "is given twice; header names ignore case";
    if (!wrong.empty()) {
      value.ErrorAtKey(key, wrong);
      continue;
    }
    HeaderType header{.name = lower, .value = {}};
    conf::Read(field, header.value);
    out.push_back(std::move(header));
  }
}

// Boost 1.81's port_number() wraps around.
std::optional<uint16_t> ParsePort(std::string_view digits) {
  const std::optional<uint16_t> port = conf::ReadNumber<uint16_t>(digits);
  return port != 0 ? port : std::nullopt;
}

// Boost 1.81 takes what follows an authority without a slash for a path.
bool IsHierarchical(const boost::urls::url_view& url) {
  return url.has_authority() && (url.encoded_path().empty() || url.encoded_path().starts_with('/'));
}

// The problem of a parsed URL; empty: none.
std::string WrongUrl(const boost::urls::url_view& url, std::string_view scheme,
                     std::initializer_list<std::string_view> schemes) {
  if (std::find(schemes.begin(), schemes.end(), scheme) == schemes.end()) {
    std::string wanted;
    for (const std::string_view one : schemes)
      wanted += (wanted.empty() ? "" : " or ") + std::string(one) + "://";
    return fmt::format("expected a URL that begins with {}, found {}://", wanted, scheme);
  }
  if (url.has_userinfo())
    return "must not contain credentials; give them by reference, env:NAME or file:PATH";
  if (url.encoded_host().empty()) return "has no host";
  if (url.has_port() && !ParsePort({url.port().data(), url.port().size()}))
    return "has a port that is not between 1 and 65535";
  if (url.has_query()) return "must not have a query";
  if (url.has_fragment()) return "must not have a fragment";
  return {};
}

}  // namespace

bool Address::loopback() const {
  return host == "::1" || host.starts_with("127.");
}

std::string ToString(const Address& address) {
  return fmt::format("{}:{}", net::Bracketed(address.host), address.port);
}

std::string Url::authority() const {
  return port == DefaultPort(scheme) ? net::Bracketed(host)
                                     : fmt::format("{}:{}", net::Bracketed(host), port);
}

std::string ToString(const Url& url) {
  return url.empty() ? std::string() : fmt::format("{}://{}{}", url.scheme, url.authority(), url.path);
}

std::string_view Name(Api api) {
  return conf::WordOf(kApis, api);
}

std::optional<Api> FamilyOf(router::Api api) {
  switch (api) {
    case router::Api::kChatCompletions:
      return Api::kChat;
    case router::Api::kCompletions:
      return Api::kCompletions;
    case router::Api::kEmbeddings:
      return Api::kEmbeddings;
    case router::Api::kResponses:
    case router::Api::kInputTokens:
      return Api::kResponses;
    case router::Api::kMessages:
    case router::Api::kCountTokens:
      return Api::kMessages;
    case router::Api::kRerank:
      return Api::kRerank;
    case router::Api::kScore:
      return Api::kScore;
    case router::Api::kAudioTranscriptions:
    case router::Api::kAudioTranslations:
    case router::Api::kAudioSpeech:
      return Api::kAudio;
    case router::Api::kImageGenerations:
    case router::Api::kImageEdits:
    case router::Api::kImageVariations:
      return Api::kImages;
    case router::Api::kTokenize:
    case router::Api::kDetokenize:
      return Api::kTokenize;
    case router::Api::kModels:
    case router::Api::kFiles:
    case router::Api::kBatches:
    case router::Api::kMessageBatches:
    case router::Api::kFeedback:
      return std::nullopt;
  }
  return std::nullopt;
}

bool GlobMatches(std::string_view pattern, std::string_view name) {
  size_t p = 0;
  size_t n = 0;
  size_t star = std::string_view::npos;
  size_t matched_by_star = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      matched_by_star = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++matched_by_star;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::string UpToADay::operator()(conf::Duration length) const {
  return conf::Duration::zero() < length && length <= std::chrono::hours(24)
             ? ""
             : "must be longer than 0, at most 24h";
}

std::string AbsolutePath::operator()(std::string_view path) const {
  const bool valid = path.starts_with('/') &&
                     std::all_of(path.begin(), path.end(), [](char c) { return c > 0x20 && c < 0x7f; });
  return valid ? "" : "must be a path that begins with /, such as /health";
}

bool IsLoopbackHost(const std::string& host) {
  return host == "localhost" || Address{host, 0}.loopback();
}

std::string ValidName::operator()(std::string_view name) const {
  const auto valid = [](char c) { return c > 0x20 && c < 0x7f && c != '"' && c != '\'' && c != '*'; };
  if (!name.empty() && name.size() <= 128 && std::all_of(name.begin(), name.end(), valid)) return {};
  return "must be 1 to 128 printable ASCII characters without spaces, quotes and *";
}

void Read(const conf::Value& value, Address& out) {
  const std::optional<Address> parsed =
      value.kind() == conf::Kind::kScalar ? ParseAddress(value.text()) : std::nullopt;
  if (parsed) {
    out = *parsed;
  } else {
    value.ErrorExpected("an IP address and a port, such as 127.0.0.1:8080, 0.0.0.0:8080 or [::]:8080");
  }
}

void Read(const conf::Value& value, ApiSet& out) {
  if (value.kind() != conf::Kind::kSequence) {
    value.ErrorExpected("a list of API families");
    return;
  }
  ApiSet read;
  for (const conf::Value& item : value.Items()) {
    Api api = Api::kChat;
    const size_t before = item.document().problem_count();
    conf::Read(item, conf::Choice(api, "API family", kApis));
    if (item.document().problem_count() == before) read.Add(api);
  }
  out = read;
}

void ReadUrl(const conf::Value& value, std::initializer_list<std::string_view> schemes, Url& out) {
  const std::string expected = fmt::format("a URL such as {}://HOST:PORT", *schemes.begin());
  if (value.kind() != conf::Kind::kScalar) {
    value.ErrorExpected(expected);
    return;
  }
  const bool maybe_secret = value.text().find('@') != std::string::npos;
  const auto parsed = boost::urls::parse_uri(value.text());
  if (!parsed || !IsHierarchical(*parsed)) {
    maybe_secret ? value.ErrorHidingValue("is not a URL; expected " + expected)
                 : value.ErrorExpected(expected);
    return;
  }
  const boost::urls::url_view& url = *parsed;
  std::string scheme(url.scheme().data(), url.scheme().size());
  std::transform(scheme.begin(), scheme.end(), scheme.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  if (const std::string wrong = WrongUrl(url, scheme, schemes); !wrong.empty()) {
    maybe_secret || url.has_query() ? value.ErrorHidingValue(wrong) : value.Error(wrong);
    return;
  }
  out.scheme = std::move(scheme);
  out.host = url.host_address();
  out.port = ParsePort({url.port().data(), url.port().size()}).value_or(DefaultPort(out.scheme));
  out.path = std::string(url.encoded_path().data(), url.encoded_path().size());
  while (out.path.ends_with('/')) out.path.pop_back();
}

void Read(const conf::Value& value, Url& out) {
  ReadUrl(value, {"http", "https"}, out);
}
void Read(const conf::Value& value, std::vector<Header>& out) {
  ReadHeaders(value, false, out);
}
void Read(const conf::Value& value, std::vector<SecretHeader>& out) {
  ReadHeaders(value, true, out);
}

void Read(const conf::Value& value, const HeaderNames& names) {
  std::vector<std::string> read;
  conf::Read(value, read);
  names.out->clear();
  for (const std::string& name : read) {
    std::string lower = Lower(name);
    std::string wrong = WrongHeaderName(lower, false);
    if (lower == "x-request-id" || lower == "accept-encoding")
      wrong = "is a header that Tidegate sets itself; remove it";
    else if (std::find(kCredentialHeaders.begin(), kCredentialHeaders.end(), lower) !=
             kCredentialHeaders.end())
      wrong = "carries a credential of the client, which no engine may see; remove it";
    if (!wrong.empty()) {
      value.Error(fmt::format("\"{}\" {}", name, wrong));
    } else if (std::find(names.out->begin(), names.out->end(), lower) == names.out->end()) {
      names.out->push_back(std::move(lower));
    }
  }
}

void Write(conf::Writer& writer, const HeaderNames& names) {
  conf::Write(writer, *names.out);
}

void Bind(conf::Object& o, ClientTls& tls) {
  o.Optional("ca", tls.ca, conf::NotEmpty());
  o.Optional("server_name", tls.server_name, conf::NotEmpty());
  o.Optional("certificate", tls.certificate, conf::NotEmpty());
  o.Optional("key", tls.key, conf::NotEmpty());
  o.Optional("insecure_skip_verify", tls.insecure_skip_verify);
  if (o.Has("certificate") != o.Has("key")) o.Error("needs both certificate and key, or neither");
}

void RefuseIdleTls(conf::Object& o, const Url& url, const ClientTls& tls) {
  if (tls == ClientTls() || url.empty() || url.tls()) return;
  o.Error("has no effect on a URL that begins with " + url.scheme + ":// and not with " + url.scheme + "s://",
          "tls");
}

void Write(conf::Writer& writer, const Address& in) {
  conf::Write(writer, ToString(in));
}
void Write(conf::Writer& writer, const Url& in) {
  conf::Write(writer, ToString(in));
}

void Write(conf::Writer& writer, const ApiSet& in) {
  for (const auto& [word, api] : kApis) {
    if (!in.Has(api)) continue;
    conf::Writer item = writer.Item();
    conf::Write(item, std::string(word));
  }
}

void Write(conf::Writer& writer, const std::vector<Header>& in) {
  for (const Header& header : in) {
    conf::Writer field = writer.Field(header.name);
    conf::Write(field, header.value);
  }
}

void Write(conf::Writer& writer, const std::vector<SecretHeader>& in) {
  for (const SecretHeader& header : in) {
    conf::Writer field = writer.Field(header.name);
    conf::Write(field, header.value);
  }
}

}  // namespace gateway::config
