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
#include "gateway/net/abort_group.h"
#include "gateway/net/loop.h"
#include "gateway/net/tls.h"
#include "plugins/auth/jwks_file.h"
#include "plugins/auth/jwt.h"

namespace gateway {

class Jwks final : private net::Alarm {
 public:
  // Called whenever an issuer's published keys change, or how long they may be believed.
  using OnKeys = std::function<void(size_t issuer, const plugins::auth::PublishedKeys&)>;

  Jwks(net::Loop& loop, OnKeys on_keys);
  ~Jwks() override;

  struct Issuer;
  struct Planned {
    std::shared_ptr<Issuer> issuer;  // the one that runs, where its keys come from the same place still
    config::Jwt config;
    std::shared_ptr<const net::TlsContext> tls;
  };
  // What a configuration asks for, all of it checked; nothing changes yet.
  absl::StatusOr<std::vector<Planned>> Plan(const std::vector<config::Jwt>& issuers) const;
  // From now on these: what is known of an issuer that stays is kept, and of others it is forgotten.
  void Start(std::vector<Planned> planned);
  void Stop();  // for good; what is being fetched ends too

  // What is known of each issuer, in the configuration's order.
  std::vector<plugins::auth::PublishedKeys> published() const;

  // A token named a key that the set does not hold.
  void OnUnknownKeyId(size_t issuer);

  struct Status {
    std::string issuer;
    bool usable = false;
    std::string last_error;
    uint64_t failures = 0;
    std::optional<conf::Duration> age = std::nullopt;  // since the last good fetch
  };
  std::vector<Status> status(conf::TimePoint now) const;

 private:
  void OnAlarm() override;
  void Forget();
  net::Task<void> Fetch(std::shared_ptr<Issuer> issuer);
  void Publish(Issuer& issuer);

  net::Loop& loop_;
  const OnKeys on_keys_;
  std::vector<std::shared_ptr<Issuer>> issuers_;
  net::AbortGroup fetches_;
};

// An issuer in key ids and messages, by its place in the configuration: its host, or all of it, in the few characters
// allowed there.
std::string IssuerName(std::string_view issuer, size_t number);

// What verifies the tokens of the configured issuers; null when there are none.
absl::StatusOr<std::shared_ptr<const std::vector<plugins::auth::JwtVerifier>>> BuildIssuers(
    const std::vector<config::Jwt>& issuers);

}  // namespace gateway
