#include "plugins/weights/s3_signature.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <span>

#include "conf/hex.h"
#include "gateway/net/url.h"
#include "plugins/weights/digest.h"

namespace plugins::weights {
namespace {

std::string HmacSha256(std::string_view key, std::string_view text) {
  std::array<uint8_t, EVP_MAX_MD_SIZE> out{};
  unsigned int size = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const uint8_t*>(text.data()),
       text.size(), out.data(), &size);
  return {reinterpret_cast<const char*>(out.data()), size};
}

// "a=1&b=": in the order of the names; a name alone has an empty value.
std::string CanonicalQuery(std::string_view query) {
  std::vector<std::string> parts;
  while (!query.empty()) {
    const size_t end = std::min(query.find('&'), query.size());
    std::string part(query.substr(0, end));
    query.remove_prefix(std::min(end + 1, query.size()));
    if (part.empty()) continue;
    if (part.find('=') == std::string::npos) part += '=';
    parts.push_back(std::move(part));
  }
  std::ranges::sort(parts);
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : "&") + part;
  return out;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> SignS3(const S3Request& request, const S3Keys& keys,
                                                        conf::TimePoint now) {
  // "2013-05-24T00:00:00.000000Z" without its punctuation.
  std::string stamp = conf::FormatTime(now).substr(0, 19);
  std::erase_if(stamp, [](char c) { return c == '-' || c == ':'; });
  stamp += 'Z';
  const std::string day = stamp.substr(0, 8);
  const std::string body = request.body_sha256.empty() ? Sha256Hex({}) : request.body_sha256;
  std::map<std::string, std::string> fields = {
      {"host", request.host}, {"x-amz-content-sha256", body}, {"x-amz-date", stamp}};
  if (!keys.session_token.empty()) fields["x-amz-security-token"] = keys.session_token;
  std::string canonical_fields;
  std::string signed_names;
  for (const auto& [name, value] : fields) {
    canonical_fields += fmt::format("{}:{}\n", name, value);
    signed_names += (signed_names.empty() ? "" : ";") + name;
  }
  const std::string canonical =
      fmt::format("{}\n{}\n{}\n{}\n{}\n{}", request.method, request.path.empty() ? "/" : request.path,
                  CanonicalQuery(request.query), canonical_fields, signed_names, body);
  const std::string scope = fmt::format("{}/{}/s3/aws4_request", day, keys.region);
  const std::string to_sign = fmt::format("AWS4-HMAC-SHA256\n{}\n{}\n{}", stamp, scope, Sha256Hex(canonical));
  std::string key = HmacSha256("AWS4" + keys.secret_key, day);
  for (const std::string_view part :
       {std::string_view(keys.region), std::string_view("s3"), std::string_view("aws4_request")})
    key = HmacSha256(key, part);
  const std::string signature = HmacSha256(key, to_sign);
  const std::span bytes(reinterpret_cast<const uint8_t*>(signature.data()), signature.size());
  std::vector<std::pair<std::string, std::string>> out = {
      {"authorization", fmt::format("AWS4-HMAC-SHA256 Credential={}/{},SignedHeaders={},Signature={}",
                                    keys.access_key, scope, signed_names, conf::Hex(bytes))}};
  fields.erase("host");
  out.insert(out.end(), fields.begin(), fields.end());
  return out;
}

std::string S3BucketUrl(std::string_view endpoint, std::string_view bucket) {
  while (endpoint.ends_with('/')) endpoint.remove_suffix(1);
  return fmt::format("{}/{}", endpoint, gateway::net::PercentEncode(bucket));
}

std::string EncodeS3Key(std::string_view key) {
  std::string out;
  while (true) {
    const size_t slash = key.find('/');
    out += gateway::net::PercentEncode(key.substr(0, slash));
    if (slash == std::string_view::npos) return out;
    out += '/';
    key.remove_prefix(slash + 1);
  }
}

}  // namespace plugins::weights
