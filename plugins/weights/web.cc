#include "plugins/weights/web.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "conf/shown.h"
#include "conf/text.h"
#include "gateway/net/backoff.h"
#include "gateway/net/clock.h"
#include "gateway/net/connect_deadline.h"

namespace plugins::weights {
namespace {

using gateway::net::AsBuffer;
using gateway::net::ConstBuffer;
using gateway::net::Now;
using gateway::net::ParseUrl;
using gateway::net::Task;
using gateway::net::Url;
using ReadStatus = gateway::net::http::ClientConnection::Status;

constexpr size_t kSentPiece = 256U << 10;

bool IsRedirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

bool IsGood(const WebRequest& request, int status) {
  return status == 200 || (status == 204 && request.method == "DELETE");
}

std::string HostUrl(const Url& url) {
  return fmt::format("{}://{}", url.tls ? "https" : "http", url.Authority());
}

std::string Whole(const Url& url) {
  return fmt::format("{}{}{}{}", HostUrl(url), url.path, url.query.empty() ? "" : "?", url.query);
}

// The target of a redirect, absolute or not.
absl::StatusOr<Url> Target(const Url& from, std::string_view location) {
  if (location.starts_with("http://") || location.starts_with("https://")) return ParseUrl(location);
  if (location.starts_with("//"))
    return ParseUrl(fmt::format("{}:{}", from.tls ? "https" : "http", location));
  if (location.starts_with('/')) return ParseUrl(HostUrl(from) + std::string(location));
  const std::string folder = from.path.substr(0, from.path.rfind('/') + 1);
  return ParseUrl(fmt::format("{}{}{}", HostUrl(from), folder.empty() ? "/" : folder, location));
}

absl::Status WebError(int status, std::string_view url) {
  const std::string text = fmt::format("{} answers {}", ShownUrl(url), status);
  switch (status) {
    case 401:
      return absl::UnauthenticatedError(
          fmt::format("{}: it requires credentials, or other ones than the given", text));
    case 403:
      return absl::PermissionDeniedError(text);
    case 404:
    case 410:
      return absl::NotFoundError(text);
    case 408:
    case 429:
      return absl::UnavailableError(text);
    default:
      return status >= 500 ? absl::UnavailableError(text) : absl::FailedPreconditionError(text);
  }
}

absl::Status CutError(ReadStatus status, std::string_view url) {
  switch (status) {
    case ReadStatus::kTimedOut:
      return absl::UnavailableError(fmt::format("{}: silent for too long", ShownUrl(url)));
    case ReadStatus::kMalformed:
      return absl::FailedPreconditionError(fmt::format("{}: the answer is not HTTP", ShownUrl(url)));
    default:
      return absl::UnavailableError(fmt::format("{}: closed before the answer was complete", ShownUrl(url)));
  }
}

}  // namespace

std::string ShownUrl(std::string_view url) {
  return conf::Visible(url.substr(0, url.find_first_of("?#")));
}

Task<absl::StatusOr<std::unique_ptr<Web::Connection>>> Web::Once(const WebRequest& request, const Url& url,
                                                                 bool with_credentials) {
  const std::string shown = ShownUrl(Whole(url));
  gateway::net::Remote remote{url.host, url.port, nullptr, {}};
  if (url.tls) {
    if (options_.tls == nullptr) {
      auto made = gateway::net::TlsContext::Client({});
      if (!made.ok()) co_return made.status();
      options_.tls = *std::move(made);
    }
    remote.tls = options_.tls;
  }
  gateway::net::Connector connector(loop_.io);
  gateway::net::ConnectDeadline deadline(loop_.watchdog, connector);
  deadline.Set(Now() + (options_.connect > conf::Duration::zero() ? options_.connect : options_.silence));
  gateway::net::ConnectResult connected = co_await connector.Connect(remote);
  deadline.Clear();
  if (deadline.passed()) co_return absl::UnavailableError(fmt::format("{}: no connection in time", shown));
  if (connected.error)
    co_return absl::UnavailableError(fmt::format("{}: {}", shown, connected.error.message()));
  std::string head = fmt::format(
      "{} {}{}{} HTTP/1.1\r\nhost: {}\r\nuser-agent: tidegate\r\nconnection: close\r\n", request.method,
      url.path.empty() ? "/" : url.path, url.query.empty() ? "" : "?", url.query, url.Authority());
  const auto add = [&head](const WebFields& fields) {
    for (const auto& [name, value] : fields) head += fmt::format("{}: {}\r\n", name, value);
  };
  add(request.fields);
  if (with_credentials && request.credentials != nullptr)
    add(request.credentials->FieldsOf(request, url, Now()));
  if (request.body) head += fmt::format("content-length: {}\r\n", request.body->bytes);
  head += "accept-encoding: identity\r\n\r\n";
  auto connection = std::make_unique<Connection>(loop_, std::move(connected.stream));
  connection->SetTimeoutAt(Now() + options_.silence);
  connection->BeginExchange();
  const std::array<ConstBuffer, 1> parts{AsBuffer(head)};
  const gateway::net::IoResult written = co_await connection->Write(parts);
  if (!written) co_return absl::UnavailableError(fmt::format("{}: {}", shown, written.error.message()));
  // A server that refuses may answer before it has read the body, and close.
  if (request.body) {
    const absl::StatusOr<bool> sent = co_await Send(*connection, *request.body);
    if (!sent.ok()) co_return sent.status();
  }
  const ReadStatus status = co_await connection->ReadHead({}, request.method == "HEAD");
  connection->ClearTimeout();
  if (status != ReadStatus::kOk) co_return CutError(status, shown);
  co_return connection;
}

Task<absl::StatusOr<bool>> Web::Send(Connection& connection, const WebBody& body) {
  std::string piece;
  for (uint64_t sent = 0; sent < body.bytes; sent += piece.size()) {
    piece.resize(std::min<uint64_t>(kSentPiece, body.bytes - sent));
    if (absl::Status read = body.read(sent, piece); !read.ok()) co_return read;
    connection.SetTimeoutAt(Now() + options_.silence);
    const std::array<ConstBuffer, 1> parts{AsBuffer(piece)};
    const gateway::net::IoResult written = co_await connection.Write(parts);
    if (!written) co_return false;
  }
  connection.SetTimeoutAt(Now() + options_.silence);
  co_return true;
}

Task<absl::StatusOr<std::unique_ptr<Web::Connection>>> Web::Open(const WebRequest& request) {
  absl::StatusOr<Url> url = ParseUrl(request.url);
  if (!url.ok()) co_return url.status();
  const Url first = *url;
  bool renewed = false;
  for (int redirects = 0; redirects <= options_.redirects;) {
    const bool own = url->tls == first.tls && url->Authority() == first.Authority();
    absl::StatusOr<std::unique_ptr<Connection>> connection = co_await Once(request, *url, own);
    if (!connection.ok()) co_return connection.status();
    const gateway::net::http::Head& head = (*connection)->head();
    const int status = head.status;
    if (IsGood(request, status) || status == 206 || status == 416) co_return connection;
    if (status == 401 && own && request.credentials != nullptr && !renewed) {
      renewed = true;
      std::string challenge(head.Find("www-authenticate"));
      connection->reset();
      if (co_await request.credentials->Renew(*this, std::move(challenge))) continue;
    }
    const std::string_view location =
        IsRedirect(status) && !request.body ? head.Find("location") : std::string_view();
    if (location.empty()) co_return WebError(status, Whole(*url));
    absl::StatusOr<Url> next = Target(*url, location);
    if (!next.ok()) {
      co_return absl::FailedPreconditionError(
          fmt::format("{} redirects to something that is not an http or https URL", ShownUrl(Whole(*url))));
    }
    if (url->tls && !next->tls) {
      co_return absl::FailedPreconditionError(
          fmt::format("{} redirects from https to http, at {}, which is not followed", ShownUrl(Whole(*url)),
                      next->Authority()));
    }
    url = std::move(next);
    ++redirects;
  }
  co_return absl::FailedPreconditionError(
      options_.redirects == 0
          ? fmt::format("{}: it redirects, which is not followed", ShownUrl(request.url))
          : fmt::format("{}: more than {} redirects", ShownUrl(request.url), options_.redirects));
}

Task<absl::StatusOr<WebAnswer>> Web::AskOnce(const WebRequest& request, size_t most_bytes) {
  absl::StatusOr<std::unique_ptr<Connection>> opened = co_await Open(request);
  if (!opened.ok()) co_return opened.status();
  Connection& connection = **opened;
  WebAnswer answer;
  answer.status = connection.head().status;
  answer.link = connection.head().Find("link");
  answer.length = connection.head().content_length;
  if (!IsGood(request, answer.status)) co_return WebError(answer.status, request.url);
  while (true) {
    answer.body.append(connection.payload());
    connection.Take(connection.payload().size());
    if (answer.body.size() > most_bytes) {
      co_return absl::FailedPreconditionError(
          fmt::format("{}: the answer is larger than {} bytes", ShownUrl(request.url), most_bytes));
    }
    if (connection.done()) co_return answer;
    const ReadStatus status = co_await connection.ReadSome(Now() + options_.silence);
    if (status != ReadStatus::kOk) co_return CutError(status, request.url);
  }
}

Task<absl::StatusOr<WebAnswer>> Web::Ask(WebRequest request, size_t most_bytes) {
  gateway::net::Backoff backoff(options_.least_pause, options_.most_pause,
                                static_cast<uint64_t>(conf::ToUnixNanos(Now())));
  gateway::net::Sleep pause(loop_.watchdog);
  for (int tries = 1;; ++tries) {
    absl::StatusOr<WebAnswer> answer = co_await AskOnce(request, most_bytes);
    if (answer.ok() || !absl::IsUnavailable(answer.status()) || tries >= options_.tries) co_return answer;
    co_await pause.For(backoff.Next());
  }
}

}  // namespace plugins::weights
