// Web: requests for weights and objects: redirects are followed, bodies may be of any size.
//
// A request's credentials go to the host of its URL, never to one that a redirect names; a redirect from
// https to http is refused, and so is one of a request with a body. Errors, which name the URL without its query: Unavailable (not reached, cut,
// silent, 408, 429, 5xx: try again), Unauthenticated (401), PermissionDenied (403), NotFound (404, 410),
// FailedPrecondition (anything else).
//
// Thread: its loop's.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "conf/time.h"
#include "gateway/net/http/client_connection.h"
#include "gateway/net/loop.h"
#include "gateway/net/tls.h"
#include "gateway/net/url.h"

namespace plugins::weights {

using WebFields = std::vector<std::pair<std::string, std::string>>;

class Web;
struct WebRequest;

// The credentials that a source demands of its callers. Any thread.
class Credentials {
 public:
  virtual ~Credentials() = default;
  // `url`: the request's own.
  virtual WebFields FieldsOf(const WebRequest& request, const gateway::net::Url& url,
                             conf::TimePoint now) = 0;
  // After an answer 401: gets others where the challenge says how. False: that makes no sense.
  virtual gateway::net::Task<bool> Renew(Web& /*web*/, std::string /*challenge*/) { co_return false; }
};

// The body of a request.
struct WebBody {
  uint64_t bytes = 0;
  std::string sha256{};  // hex
  // Fills `out` with the bytes from `offset` on. Called on the loop's thread, and may block it.
  std::function<absl::Status(uint64_t offset, std::span<char> out)> read{};
};

struct WebRequest {
  std::string method = "GET";
  std::string url{};
  WebFields fields{};
  std::shared_ptr<Credentials> credentials{};  // may be null
  std::optional<WebBody> body{};
};

struct WebAnswer {
  int status = 0;
  std::string body{};
  std::string link{};  // the field of that name
  std::optional<uint64_t> length{};
};

class Web {
 public:
  struct Options {
    std::shared_ptr<const gateway::net::TlsContext> tls{};        // null: with the system's authorities
    conf::Duration silence = std::chrono::seconds(60);            // of a server
    conf::Duration connect{};                                     // for a connection; 0: as for silence
    conf::Duration least_pause = std::chrono::milliseconds(500);  // before another try, doubling
    conf::Duration most_pause = std::chrono::seconds(20);
    int tries = 6;       // without any progress
    int redirects = 10;  // most redirects that are followed
  };
  Web(gateway::net::Loop& loop, Options options) : loop_(loop), options_(std::move(options)) {}

  gateway::net::Loop& loop() { return loop_; }
  const Options& options() const { return options_; }

  using Connection = gateway::net::http::ClientConnection;
  // Its head was read; the status is 200, 206 or 416, or of a DELETE 204. The body comes by ReadSome().
  gateway::net::Task<absl::StatusOr<std::unique_ptr<Connection>>> Open(const WebRequest& request);

  // The whole of a small answer 200 (of a DELETE, also 204); tries again what is worth it. A HEAD has the length
  // alone.
  gateway::net::Task<absl::StatusOr<WebAnswer>> Ask(WebRequest request, size_t most_bytes);

 private:
  gateway::net::Task<absl::StatusOr<std::unique_ptr<Connection>>> Once(const WebRequest& request,
                                                                       const gateway::net::Url& url,
                                                                       bool with_credentials);
  // False: the connection failed.
  gateway::net::Task<absl::StatusOr<bool>> Send(Connection& connection, const WebBody& body);
  gateway::net::Task<absl::StatusOr<WebAnswer>> AskOnce(const WebRequest& request, size_t most_bytes);

  gateway::net::Loop& loop_;
  Options options_;
};

// The URL without query and fragment, for messages: queries hold signatures.
std::string ShownUrl(std::string_view url);

}  // namespace plugins::weights
