#include "plugins/auth/credential.h"

#include <algorithm>

#include "conf/text.h"
#include "plugins/auth/api_key.h"

namespace plugins::auth {
namespace {

constexpr std::string_view kBearer = "bearer";

std::string_view TrimBlanks(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
  return s;
}

// Visible ASCII without the comma that would join two header lines into one.
bool IsSecretText(std::string_view s) {
  return std::all_of(s.begin(), s.end(), [](char c) { return c > ' ' && c < 0x7f && c != ','; });
}

}  // namespace

void CredentialReader::Header(std::string_view name, std::string_view value) {
  if (conf::EqualsIgnoreCase(name, "authorization")) {
    value = TrimBlanks(value);
    const size_t space = value.find(' ');
    if (!conf::EqualsIgnoreCase(value.substr(0, space), kBearer)) {
      Malformed("the Authorization header must be 'Bearer <key>'");
    } else {
      Found(space == std::string_view::npos ? std::string_view() : TrimBlanks(value.substr(space)));
    }
  } else if (conf::EqualsIgnoreCase(name, "x-api-key") || conf::EqualsIgnoreCase(name, "api-key")) {
    Found(TrimBlanks(value));
  }
}

void CredentialReader::Found(std::string_view value) {
  if (value.empty()) return Malformed("the API key in the request headers is empty");
  if (value.size() > kMaxCredentialBytes) return Malformed("the API key is longer than 16384 bytes");
  if (!IsSecretText(value)) return Malformed("the API key has a character that keys never have");
  if (result_.state == Credential::State::kMissing) {
    result_ = {Credential::State::kFound, value, {}};
  } else if (result_.state == Credential::State::kFound && result_.value != value) {
    result_ = {Credential::State::kConflict,
               {},
               "the request carries two different API keys in its headers: send one"};
  }
}

void CredentialReader::Malformed(std::string_view message) {
  if (result_.state != Credential::State::kConflict) result_ = {Credential::State::kMalformed, {}, message};
}

CredentialKind Classify(std::string_view credential) {
  if (credential.starts_with(kApiKeyPrefix)) return CredentialKind::kApiKey;
  return std::count(credential.begin(), credential.end(), '.') == 2 ? CredentialKind::kJwt
                                                                    : CredentialKind::kUnrecognised;
}

}  // namespace plugins::auth
