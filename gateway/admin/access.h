// The caller of the admin API: an admin key of the key store, or the bootstrap key of the configuration.
//
// Pure; control loop's thread.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "conf/time.h"
#include "gateway/api/error.h"
#include "gateway/config/config.h"
#include "gateway/net/http/head.h"
#include "plugins/auth/key_table.h"

namespace gateway::admin {

struct Caller {
  std::string actor;
  plugins::auth::Role role;
  std::vector<plugins::auth::Right> rights{};  // beside the role's

  bool Has(plugins::auth::Right right) const;
};

// The caller, or why there is none. Compared in constant time; the secret is in no message.
std::variant<Caller, api::ApiError> Identify(const net::http::Head& head, const Config& config,
                                             const plugins::auth::KeyTable& keys, conf::TimePoint now);

}  // namespace gateway::admin
