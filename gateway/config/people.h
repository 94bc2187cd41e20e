// Section `people`: where people open the console, how they sign in, and how long they stay signed in.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "conf/secret.h"
#include "conf/time.h"
#include "gateway/config/auth.h"
#include "gateway/config/tenant.h"
#include "gateway/config/types.h"
#include "plugins/auth/permissions.h"

namespace gateway::config {

// Gives a role to people whose claim has that value.
struct RoleRule {
  std::string claim = "groups";  // a name, or a path such as /realm_access/roles
  std::string value;             // one text of the claim; "*": any text
  plugins::auth::Role role = plugins::auth::Role::kNone;
  std::string tenant;                        // name or path, of lead and member; else empty
  std::vector<plugins::auth::Right> rights;  // beside the role's
};

// An OpenID Connect provider.
struct Provider {
  std::string name;   // in URLs and in ids of people
  std::string label;  // on the button; empty: the name
  Url issuer;         // <issuer>/.well-known/openid-configuration is read
  std::string client_id;
  conf::Secret client_secret;  // empty: a public client, which PKCE alone protects
  std::vector<std::string> scopes = {"openid", "profile", "email"};
  std::vector<JwtAlgorithm> algorithms = {JwtAlgorithm::kRs256, JwtAlgorithm::kEs256};  // of ID tokens
  std::vector<RoleRule> roles;  // somebody to whom none applies is refused
  ClientTls tls;
};

struct PeopleSessions {
  conf::Duration idle = std::chrono::hours(8);
  conf::Duration lifetime = std::chrono::hours(24);
};

// The most of a budget for that period; at least one of the amounts.
struct MostBudget {
  std::optional<int64_t> micro_usd;
  std::optional<uint64_t> tokens;
  Period period = Period::kMonth;
};

// Approves what people ask for without a person. What a rule does not name, it does not approve.
struct ApprovalRule {
  std::string name;                 // in the ledger, as "rule:NAME"
  std::string tenant;               // name or path: requests for it and those below it
  std::vector<std::string> models;  // names or globs
  Limits limits;                    // the most of each
  std::optional<MostBudget> budget;
  std::optional<uint32_t> weight;                    // the most
  conf::Duration longest = std::chrono::hours(720);  // from the beginning of the grant to its end
};

// Requests of people: their life, rules that approve them, and notices.
struct Requests {
  conf::Duration expire = std::chrono::hours(336);  // one that nobody decides
  std::vector<ApprovalRule> approve;
};

// Where notices go, such as of a new request.
struct Webhook {
  Url url;
  conf::Secret secret;  // signs each notice; empty: none is signed
  ClientTls tls;
};

struct People {
  Url url;      // what people open: scheme, host and port; empty: the admin listener, on this machine
  Url api_url;  // what applications call, for people to copy; empty: made from server.listen
  std::vector<AllowedAddresses> allow;  // that may connect to server.console; empty: all
  bool insecure = false;                // server.console speaks plain HTTP off loopback
  PeopleSessions sessions;
  std::vector<Provider> providers;
  Requests requests;
  std::optional<Webhook> webhook;
  std::vector<uint32_t> budget_thresholds = {50, 80, 100};  // in percent; each is told once per period
};

void Bind(conf::Object& object, People& out);

}  // namespace gateway::config
