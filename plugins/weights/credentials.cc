#include "plugins/weights/credentials.h"

#include <absl/strings/escaping.h>
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "conf/json_parse.h"
#include "conf/text.h"

namespace plugins::weights {
namespace {

constexpr size_t kLongestToken = 64U << 10;

class BearerCredentials final : public Credentials {
 public:
  explicit BearerCredentials(const std::string& token) : field_("Bearer " + token) {}
  WebFields FieldsOf(const WebRequest&, const gateway::net::Url&, conf::TimePoint) override {
    return {{"authorization", field_}};
  }

 private:
  const std::string field_;
};

class SigningCredentials final : public Credentials {
 public:
  explicit SigningCredentials(S3Keys keys) : keys_(std::move(keys)) {}
  WebFields FieldsOf(const WebRequest& request, const gateway::net::Url& url, conf::TimePoint now) override {
    return SignS3({.method = request.method,
                   .host = url.Authority(),
                   .path = url.path,
                   .query = url.query,
                   .body_sha256 = request.body ? request.body->sha256 : std::string()},
                  keys_, now);
  }

 private:
  const S3Keys keys_;
};

// The parameters of `Bearer realm="…",service="…"`, by name.
std::map<std::string, std::string, std::less<>> ChallengeParameters(std::string_view text) {
  std::map<std::string, std::string, std::less<>> out;
  while (true) {
    const size_t equals = text.find("=\"");
    if (equals == std::string_view::npos) return out;
    std::string_view name = text.substr(0, equals);
    name = name.substr(name.find_last_of(" ,") + 1);
    text.remove_prefix(equals + 2);
    const size_t end = text.find('"');
    if (end == std::string_view::npos) return out;
    out.emplace(name, text.substr(0, end));
    text.remove_prefix(end + 1);
  }
}

}  // namespace

std::shared_ptr<Credentials> BearerOf(const std::string& token) {
  return token.empty() ? nullptr : std::make_shared<BearerCredentials>(token);
}

std::shared_ptr<Credentials> SigningOf(S3Keys keys) {
  if (keys.access_key.empty()) return nullptr;
  return std::make_shared<SigningCredentials>(std::move(keys));
}

RegistryCredentials::RegistryCredentials(std::string username, std::string password, std::string repository)
    : basic_(username.empty()
                 ? std::string()
                 : "Basic " + absl::Base64Escape(conf::Abseil(fmt::format("{}:{}", username, password)))),
      repository_(std::move(repository)) {}

WebFields RegistryCredentials::FieldsOf(const WebRequest&, const gateway::net::Url&, conf::TimePoint) {
  const std::scoped_lock lock(mutex_);
  if (field_.empty()) return {};
  return {{"authorization", field_}};
}

gateway::net::Task<bool> RegistryCredentials::Renew(Web& web, std::string challenge) {
  if (conf::EqualsIgnoreCase(std::string_view(challenge).substr(0, 5), "basic")) {
    const std::scoped_lock lock(mutex_);
    if (basic_.empty() || field_ == basic_) co_return false;
    field_ = basic_;
    co_return true;
  }
  if (!conf::EqualsIgnoreCase(std::string_view(challenge).substr(0, 6), "bearer")) co_return false;
  auto parameters = ChallengeParameters(challenge);
  const std::string realm = parameters["realm"];
  if (realm.empty()) co_return false;
  if (parameters["scope"].empty()) parameters["scope"] = fmt::format("repository:{}:pull", repository_);
  WebRequest request;
  request.url = fmt::format(
      "{}{}service={}&scope={}", realm, realm.find('?') == std::string::npos ? "?" : "&",
      gateway::net::PercentEncode(parameters["service"]), gateway::net::PercentEncode(parameters["scope"]));
  if (!basic_.empty()) request.fields.emplace_back("authorization", basic_);
  const absl::StatusOr<WebAnswer> answer = co_await web.Ask(std::move(request), kLongestToken);
  if (!answer.ok()) co_return false;
  const nlohmann::json said = conf::ParseJson(answer->body);
  if (!said.is_object()) co_return false;
  for (const char* const key : {"token", "access_token"}) {
    const auto found = said.find(key);
    if (found == said.end() || !found->is_string()) continue;
    const std::scoped_lock lock(mutex_);
    field_ = "Bearer " + found->get<std::string>();
    co_return true;
  }
  co_return false;
}

}  // namespace plugins::weights
