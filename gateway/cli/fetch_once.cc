#include "gateway/cli/fetch_once.h"

#include <utility>

#include "gateway/net/loop.h"

namespace gateway::cli {

absl::StatusOr<net::http::FetchResponse> FetchOnce(net::http::FetchRequest request) {
  absl::StatusOr<net::http::FetchResponse> answer = absl::InternalError("the connection broke");
  net::Loop loop([](const std::exception_ptr&) {});
  loop.tasks.Spawn([](net::Loop& on, net::http::FetchRequest asked,
                      absl::StatusOr<net::http::FetchResponse>& out) -> net::Task<void> {
    out = co_await net::http::Fetch(on, std::move(asked));
  }(loop, std::move(request), answer));
  loop.Stop();
  loop.Run();
  return answer;
}

}  // namespace gateway::cli
