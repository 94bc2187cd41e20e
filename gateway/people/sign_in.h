// SignIn: people sign in at OpenID Connect providers. It fetches what a provider says of itself and its keys, sends
// browsers there and turns what they come back with into a person.
//
// Only the browser's cookie remembers an attempt. A provider that is slow or gone refuses
// sign-ins with its reason and harms nothing else: sessions go on. Its keys are fetched again when a token names
// one that is not known.
//
// Owner: the process. Thread: the control loop's.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "conf/time.h"
#include "gateway/config/config.h"
#include "gateway/net/abort_group.h"
#include "gateway/net/loop.h"
#include "gateway/net/tls.h"
#include "gateway/people/oidc.h"
#include "gateway/people/session.h"
#include "plugins/auth/jwks.h"

namespace gateway {

class SignIn {
 public:
  // `config` is asked at each call.
  SignIn(net::Loop& loop, std::function<const Config&()> config);
  ~SignIn();

  // Who may come in without a rule that gives a role.
  void LetIn(std::function<bool(const Person&)> is_member) { is_member_ = std::move(is_member); }
  // Forgets what is known of providers; after a reload, for one.
  void Reset();
  void Stop();

  struct Started {
    std::string url;     // where the browser goes
    std::string secret;  // what its cookie keeps meanwhile
  };
  // NotFound: no provider has the name. Unavailable: the provider does not answer as it should.
  net::Task<absl::StatusOr<Started>> Begin(std::string provider);

  // What the browser comes back with.
  struct Return {
    std::string provider;
    std::string code = {};
    std::string state = {};
    std::string error = {};   // instead of a code
    std::string secret = {};  // of the cookie; empty: there is none
  };
  struct Finished {
    Person person;
    std::string id_token;
  };
  // InvalidArgument: it fits no attempt of this browser. Cancelled: the provider refused, or the person there.
  // Unauthenticated: the provider's answer is not good. PermissionDenied: the person has no role. NotFound,
  // Unavailable: as above.
  net::Task<absl::StatusOr<Finished>> Finish(Return from, conf::TimePoint now);

  // Where the provider ends the session that it has of its own; nothing where it cannot, or is not known yet.
  std::optional<std::string> EndUrl(const Session& session) const;

 private:
  struct Known;  // of one provider

  const config::Provider* Find(std::string_view name) const;
  std::string RedirectUri(const config::Provider& provider) const;
  net::Task<absl::StatusOr<std::shared_ptr<Known>>> Know(std::string name);
  net::Task<absl::Status> FetchKeys(std::shared_ptr<Known> known);
  // Unless somebody did since `old` were the keys, or it was just done.
  net::Task<absl::Status> RenewKeys(std::shared_ptr<Known> known,
                                    std::shared_ptr<const plugins::auth::JwkSet> old);
  net::Task<absl::StatusOr<std::string>> FetchText(std::shared_ptr<Known> known, net::Url url,
                                                   std::string authorization);
  net::Task<absl::StatusOr<oidc::Tokens>> FetchTokens(std::shared_ptr<Known> known, std::string code,
                                                      oidc::Proofs proofs);
  net::Task<absl::StatusOr<nlohmann::json>> Claims(std::shared_ptr<Known> known, oidc::Tokens tokens,
                                                   oidc::Proofs proofs, conf::TimePoint now);

  net::Loop& loop_;
  const std::function<const Config&()> config_;
  std::function<bool(const Person&)> is_member_ = [](const Person&) { return false; };
  std::vector<std::shared_ptr<Known>> known_;
  uint64_t resets_ = 0;  // what was asked for before one is not remembered after it
  net::AbortGroup fetches_;
};

}  // namespace gateway
