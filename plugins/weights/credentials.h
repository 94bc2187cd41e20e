// The ways in which sources want to know their callers. Any thread.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "plugins/weights/s3_signature.h"
#include "plugins/weights/web.h"

namespace plugins::weights {

// A token that was given. Null without one.
std::shared_ptr<Credentials> BearerOf(const std::string& token);

// Signs each request. Null without keys.
std::shared_ptr<Credentials> SigningOf(S3Keys keys);

// A registry's: a token from the service that its challenge names, for which user and password are given, if
// there are any; or these themselves, where the registry wants them ("Basic").
class RegistryCredentials final : public Credentials {
 public:
  RegistryCredentials(std::string username, std::string password, std::string repository);
  WebFields FieldsOf(const WebRequest& request, const gateway::net::Url& url, conf::TimePoint now) override;
  gateway::net::Task<bool> Renew(Web& web, std::string challenge) override;

 private:
  const std::string basic_;  // a field's value; empty: no user
  const std::string repository_;
  std::mutex mutex_;
  std::string field_;
};

}  // namespace plugins::weights
