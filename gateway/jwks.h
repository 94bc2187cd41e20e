// Jwks: keeps the key sets of the configured token issuers fresh, from a file or a URL, and hands them on.
//
// When to fetch and what to believe is plugins::auth::JwksCache's to say; here it is fetched. Control loop's
// thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "gateway/config/auth.h"
#include "gateway/net/loop.h"
#include "plugins/auth/jwks_file.h"
#include "plugins/auth/jwt.h"

namespace gateway {

class Jwks final : private net::Alarm {
 public:
  // Called whenever an issuer's published keys change, or how long they may be believed.
  using OnKeys = std::function<void(size_t issuer, const plugins::auth::PublishedKeys&)>;

  Jwks(net::Loop& loop, OnKeys on_keys);
  ~Jwks() override;

  // The issuers of a new configuration; what was known of others is forgotten.
  absl::Status Start(const std::vector<config::Jwt>& issuers);
  void Stop();

  // A token named a key that the set does not hold.
  void OnUnknownKeyId(size_t issuer);

  struct Status {
    std::string issuer;
    bool usable = false;
    std::string last_error;
  };
  std::vector<Status> status(conf::TimePoint now) const;

 private:
  struct Issuer;

  void OnAlarm() override;
  net::Task<void> Fetch(std::shared_ptr<Issuer> issuer);
  void Publish(Issuer& issuer);

  net::Loop& loop_;
  const OnKeys on_keys_;
  std::vector<std::shared_ptr<Issuer>> issuers_;
};

// What verifies the tokens of the configured issuers; null when there are none.
absl::StatusOr<std::shared_ptr<const std::vector<plugins::auth::JwtVerifier>>> BuildIssuers(
    const std::vector<config::Jwt>& issuers);

}  // namespace gateway
