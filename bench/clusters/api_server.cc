#include "bench/clusters/api_server.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <future>
#include <optional>
#include <utility>

namespace bench::clusters {

ApiServer::ApiServer(const std::function<void(tests::FakeKube&)>& prepare)
    : loop_([](std::exception_ptr) { std::abort(); }), server_(loop_) {
  server_.answer = [this](std::string_view method,
                          std::string_view path) -> std::optional<std::pair<int, tests::FakeKube::Json>> {
    if (path == "/apis/discovery.k8s.io")
      return std::pair(200, tests::FakeKube::Json{{"versions", {{{"version", "v1"}}}}});
    if (method == "POST" && path.ends_with("/pods")) {
      const auto now = std::chrono::system_clock::now().time_since_epoch();
      const std::lock_guard lock(mutex_);
      created_.push_back(std::chrono::duration_cast<std::chrono::microseconds>(now).count());
    }
    return std::nullopt;
  };
  prepare(server_);
  server_.Listen();
  url_ = server_.url();
  std::ofstream(kubeconfig()) << fmt::format(
      "apiVersion: v1\nkind: Config\ncurrent-context: bench\n"
      "contexts: [{{name: bench, context: {{cluster: bench, user: bench, namespace: {}}}}}]\n"
      "clusters: [{{name: bench, cluster: {{server: \"http://127.0.0.1:{}\"}}}}]\n"
      "users: [{{name: bench, user: {{token: t}}}}]\n",
      kNameSpace, server_.port());
  thread_ = std::thread([this] { loop_.Run(); });
}

ApiServer::~ApiServer() {
  loop_.Post([this] {
    server_.CloseAll();
    loop_.Stop();
  });
  thread_.join();
}

void ApiServer::Do(const std::function<void(tests::FakeKube&)>& act) {
  std::promise<void> done;
  loop_.Post([&] {
    act(server_);
    done.set_value();
  });
  done.get_future().wait();
}

int ApiServer::Count(const std::string& prefix) {
  int count = 0;
  Do([&](const tests::FakeKube& server) { count = server.Count(prefix); });
  return count;
}

std::vector<int64_t> ApiServer::Created() const {
  const std::lock_guard lock(mutex_);
  return created_;
}

}  // namespace bench::clusters
