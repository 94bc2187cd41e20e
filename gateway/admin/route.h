// The admin API as one table: the path, the permission, the input and the answer of each call. The dispatcher
// and the OpenAPI document both read it, so they cannot disagree.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "conf/json_schema.h"
#include "conf/time.h"
#include "gateway/admin/access.h"
#include "gateway/admin/answer.h"
#include "gateway/admin/operations.h"
#include "gateway/net/http/head.h"
#include "gateway/net/task.h"
#include "gateway/people/permissions.h"

namespace gateway::admin {

enum class Type : uint8_t { kText, kTexts, kWhole, kObject };

// A member of a request's body, or a parameter of its query.
struct Member {
  std::string_view name;
  Type type = Type::kText;
  bool required = false;
  std::string_view about;
  std::span<const std::string_view> words{};  // of a query's kText: the values that there are; empty: any
};

// One call, checked against its route: every member is known and of its type.
struct Call {
  std::string request_id;
  Caller caller;            // nobody where the route is open
  std::string item;         // the part of the path that the first {…} stands for
  std::string second_item;  // likewise, the second
  std::map<std::string, std::string, std::less<>> query;
  nlohmann::json body;    // an object; of a route with `raw_body` empty
  std::string_view text;  // the body as it came
  std::shared_ptr<const Runtime> runtime;
  conf::TimePoint now;

  // Of the client and its connection.
  std::string address;
  std::string agent;                      // its User-Agent
  std::string host;                       // as it named us
  bool secure = false;                    // it speaks TLS, to us or to what stands in front
  std::string cookies;                    // all that it sent
  const net::http::Head* head = nullptr;  // until the exchange ends

  // Has the function called if the client leaves before its answer is complete. Once.
  std::function<void(std::function<void()>)> on_gone;

  // Runs work that reads the disk on the readers' thread, in turn with that of other calls. What takes long
  // does it in steps. False: too many wait already, and nothing was done.
  std::function<net::Task<bool>(std::function<void()>)> read;

  // Whether the caller has the permission for what belongs to that tenant.
  bool May(Permission permission, std::string_view tenant) const {
    return caller.authority.MayFor(permission, tenant);
  }

  // Empty when it is not given.
  std::string Query(std::string_view name) const;
  std::string Text(const char* name) const;
  std::vector<std::string> Texts(const char* name) const;
};

// Where a handler runs: on the control loop; or, since it reads the disk, on a thread of its own, one at a
// time.
enum class Lane : uint8_t { kLoop, kReads };

struct Route {
  std::string_view name;  // operationId
  net::http::Verb method;
  std::string_view path;  // at most two {…}
  std::string_view summary;
  std::optional<Permission>
      permission;  // that the caller needs, over some tenant at least; none: open to all
  std::span<const Member> query;
  std::span<const Member> body;
  nlohmann::ordered_json (*schema)(conf::JsonSchemas&);  // of the answer; nullptr: it is text
  std::span<const int> statuses;                         // of the answers that are not errors
  Lane lane;
  Answer (*run)(const Operations&, const Call&);
  // In its place, on the control loop: for what waits there without holding it up.
  net::Task<Answer> (*task)(const Operations&, const Call&) = nullptr;
  // The action of the record that the ledger gets of the reader; empty: none.
  std::string_view read = {};
  bool takes_any_query = false;          // a browser brings what others have added
  std::string_view text = "text/plain";  // the type of an answer without a schema
  bool raw_body = false;                 // the handler reads it: it is large, or its bytes matter
};

std::span<const Route> Routes();

// What a caller needs: the route's own permission; metrics are open unless the configuration protects them.
std::optional<Permission> PermissionFor(const Route& route, const Config& config);

// Whether a gateway that follows passes the call to the one that leads (leader_calls.h).
bool IsAnsweredByLeader(const Route& route);

struct Match {
  const Route* route = nullptr;
  std::vector<std::string> items;  // what each {…} of the path stands for
  std::string allow;               // when the path is known, but not for this method: the methods that are
};

// `path` is still percent-encoded. HEAD is matched as GET.
Match FindRoute(net::http::Verb method, std::string_view path);

}  // namespace gateway::admin
