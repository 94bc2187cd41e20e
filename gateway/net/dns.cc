#include "gateway/net/dns.h"

#include <ares.h>
#include <arpa/nameser.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/asio/posix/basic_stream_descriptor.hpp>
#include <functional>
#include <map>
#include <span>
#include <utility>

#include "conf/text.h"

namespace gateway::net {
namespace {

constexpr conf::Duration kCheckTimeouts = std::chrono::milliseconds(100);

absl::Status DnsError(std::string_view name, int status) {
  const std::string text = fmt::format("{}: {}", name, ares_strerror(status));
  switch (status) {
    case ARES_ENOTFOUND:
    case ARES_ENODATA:
    case ARES_ENONAME:
      return absl::NotFoundError(text);
    case ARES_ECANCELLED:
    case ARES_EDESTRUCTION:
      return absl::CancelledError(text);
    default:
      return absl::UnavailableError(text);
  }
}

std::string TextOf(const ares_addrinfo_node& node) {
  std::array<char, 64> text{};
  const void* address = nullptr;
  if (node.ai_family == AF_INET) address = &reinterpret_cast<const sockaddr_in*>(node.ai_addr)->sin_addr;
  if (node.ai_family == AF_INET6) address = &reinterpret_cast<const sockaddr_in6*>(node.ai_addr)->sin6_addr;
  if (address == nullptr) return {};
  const char* const made = ares_inet_ntop(node.ai_family, address, text.data(), text.size());
  return made == nullptr ? std::string() : std::string(made);
}

DnsAddresses AddressesOf(const ares_addrinfo& info) {
  DnsAddresses out;
  for (const ares_addrinfo_node* node = info.nodes; node != nullptr; node = node->ai_next) {
    std::string text = TextOf(*node);
    if (text.empty()) continue;
    out.addresses.push_back(std::move(text));
    const conf::Duration ttl = std::chrono::seconds(std::max(node->ai_ttl, 0));
    if (ttl > conf::Duration::zero()) out.ttl = std::min(out.ttl.value_or(ttl), ttl);
  }
  std::ranges::sort(out.addresses);
  const auto twice = std::ranges::unique(out.addresses);
  out.addresses.erase(twice.begin(), twice.end());
  return out;
}

}  // namespace

// Some queries on one channel of c-ares. Handlers of descriptors keep it alive; the channel ends with its last
// query.
class DnsClient::LookUp final : public std::enable_shared_from_this<LookUp>, private Alarm {
 public:
  explicit LookUp(Loop& loop) : Alarm(loop.watchdog), loop_(loop) {}
  ~LookUp() override { Close(); }

  absl::Status Open(const Options& options) {
    ares_options how{};
    how.timeout = static_cast<int>(conf::ToSeconds(options.timeout) * 1000);
    how.tries = options.tries;
    how.sock_state_cb = [](void* self, ares_socket_t fd, int reads, int writes) {
      static_cast<LookUp*>(self)->Watch(fd, reads != 0, writes != 0);
    };
    how.sock_state_cb_data = this;
    std::array<char, 2> dns_only{'b', '\0'};
    how.lookups = dns_only.data();
    int mask = ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_SOCK_STATE_CB;
    if (!options.server.empty()) mask |= ARES_OPT_LOOKUPS;  // no hosts file
    if (const int status = ares_init_options(&channel_, &how, mask); status != ARES_SUCCESS) {
      channel_ = nullptr;
      return DnsError("DNS", status);
    }
    if (options.server.empty()) return absl::OkStatus();
    const int status = ares_set_servers_ports_csv(channel_, options.server.c_str());
    return status == ARES_SUCCESS ? absl::OkStatus() : DnsError(options.server, status);
  }

  void AskAddresses(const std::string& name, std::function<void(int, const ares_addrinfo*)> then) {
    ares_addrinfo_hints hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_flags = ARES_AI_NOSORT;
    ++asked_;
    ares_getaddrinfo(
        channel_, name.c_str(), nullptr, &hints,
        [](void* given, int status, int, ares_addrinfo* found) {
          const std::unique_ptr<AddressQuery> query(static_cast<AddressQuery*>(given));
          query->then(status, found);
          if (found != nullptr) ares_freeaddrinfo(found);
          query->of.Ended();
        },
        std::make_unique<AddressQuery>(AddressQuery{*this, std::move(then)}).release());
  }

  void AskServices(const std::string& name, std::function<void(int, std::span<const unsigned char>)> then) {
    ++asked_;
    ares_search(
        channel_, name.c_str(), ns_c_in, ns_t_srv,
        [](void* given, int status, int, unsigned char* text, int length) {
          const std::unique_ptr<ServiceQuery> query(static_cast<ServiceQuery*>(given));
          query->then(status, {text, static_cast<size_t>(std::max(length, 0))});
          query->of.Ended();
        },
        std::make_unique<ServiceQuery>(ServiceQuery{*this, std::move(then)}).release());
  }

  // Until all queries have ended.
  auto Done() {
    if (asked_ > 0) SetAfter(kCheckTimeouts);
    return done_.Wait();
  }
  void Begun() {
    begun_ = true;
    if (asked_ == 0) done_.Set();
  }
  void Cancel() {
    if (channel_ != nullptr) ares_cancel(channel_);
  }
  void Close() {
    Clear();
    if (ares_channeldata* const channel = std::exchange(channel_, nullptr)) ares_destroy(channel);
  }

 private:
  struct AddressQuery {
    LookUp& of;
    std::function<void(int, const ares_addrinfo*)> then;
  };
  struct ServiceQuery {
    LookUp& of;
    std::function<void(int, std::span<const unsigned char>)> then;
  };
  struct Watched {
    explicit Watched(IoContext& io) : descriptor(io) {}
    asio::posix::basic_stream_descriptor<IoContext::executor_type> descriptor;
    bool reads = false;
    bool writes = false;
    bool waits_to_read = false;
    bool waits_to_write = false;
  };

  void Ended() {
    --asked_;
    if (asked_ == 0 && begun_) loop_.Post([self = shared_from_this()] { self->done_.Set(); });
  }

  void OnAlarm() override {
    const std::shared_ptr<LookUp> self = shared_from_this();
    if (channel_ == nullptr || asked_ == 0) return;
    SetAfter(kCheckTimeouts);
    ares_process_fd(channel_, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
  }

  // The descriptor is c-ares' own, which closes it after it was let go here.
  void Watch(ares_socket_t fd, bool reads, bool writes) {
    const auto known = watched_.find(fd);
    if (!reads && !writes) {
      if (known == watched_.end()) return;
      known->second->descriptor.release();
      watched_.erase(known);
      return;
    }
    std::shared_ptr<Watched>& watched = watched_[fd];
    if (!watched) {
      watched = std::make_shared<Watched>(loop_.io);
      ErrorCode error;
      watched->descriptor.assign(fd, error);
      if (error) {  // the query ends by its timeout
        watched_.erase(fd);
        return;
      }
    }
    watched->reads = reads;
    watched->writes = writes;
    Arm(fd, watched);
  }

  void Arm(ares_socket_t fd, const std::shared_ptr<Watched>& watched) {
    using asio::posix::descriptor_base;
    if (watched->reads && !std::exchange(watched->waits_to_read, true)) {
      watched->descriptor.async_wait(descriptor_base::wait_read,
                                     [self = shared_from_this(), fd, watched](ErrorCode error) {
                                       watched->waits_to_read = false;
                                       self->Ready(error, fd, watched, true);
                                     });
    }
    if (watched->writes && !std::exchange(watched->waits_to_write, true)) {
      watched->descriptor.async_wait(descriptor_base::wait_write,
                                     [self = shared_from_this(), fd, watched](ErrorCode error) {
                                       watched->waits_to_write = false;
                                       self->Ready(error, fd, watched, false);
                                     });
    }
  }

  void Ready(ErrorCode error, ares_socket_t fd, const std::shared_ptr<Watched>& watched, bool to_read) {
    const auto is_open = [&] {
      const auto known = watched_.find(fd);
      return channel_ != nullptr && known != watched_.end() && known->second == watched;
    };
    if (error || !is_open()) return;
    ares_process_fd(channel_, to_read ? fd : ARES_SOCKET_BAD, to_read ? ARES_SOCKET_BAD : fd);
    if (is_open()) Arm(fd, watched);
  }

  Loop& loop_;
  ares_channel channel_ = nullptr;
  std::map<ares_socket_t, std::shared_ptr<Watched>> watched_;
  size_t asked_ = 0;  // queries that have not ended
  bool begun_ = false;
  Event done_;
};

DnsClient::DnsClient(Loop& loop, Options options) : loop_(loop), options_(std::move(options)) {
  // Once in a process; later calls count only.
  static const int kInitialised = ares_library_init(ARES_LIB_INIT_ALL);
  (void)kInitialised;
}

DnsClient::~DnsClient() = default;

Task<std::vector<absl::StatusOr<DnsAddresses>>> DnsClient::FindAddresses(std::vector<std::string> names) {
  std::vector<absl::StatusOr<DnsAddresses>> found(names.size(), absl::CancelledError("not looked up"));
  const auto look_up = std::make_shared<LookUp>(loop_);
  if (const absl::Status opened = look_up->Open(options_); !opened.ok()) {
    std::ranges::fill(found, opened);
    co_return found;
  }
  under_way_.push_back(look_up);
  for (size_t i = 0; i < names.size(); ++i) {
    look_up->AskAddresses(names[i], [&found, &names, i](int status, const ares_addrinfo* info) {
      found[i] = status == ARES_SUCCESS && info != nullptr
                     ? absl::StatusOr<DnsAddresses>(AddressesOf(*info))
                     : DnsError(names[i], status == ARES_SUCCESS ? ARES_ENODATA : status);
      if (found[i].ok() && found[i]->addresses.empty()) found[i] = DnsError(names[i], ARES_ENODATA);
    });
  }
  look_up->Begun();
  co_await look_up->Done();
  look_up->Close();
  std::erase(under_way_, look_up);
  co_return found;
}

Task<absl::StatusOr<std::vector<DnsService>>> DnsClient::FindServices(std::string name) {
  absl::StatusOr<std::vector<DnsService>> found = absl::CancelledError("not looked up");
  const auto look_up = std::make_shared<LookUp>(loop_);
  if (const absl::Status opened = look_up->Open(options_); !opened.ok()) co_return opened;
  under_way_.push_back(look_up);
  look_up->AskServices(name, [&found, &name](int status, std::span<const unsigned char> text) {
    ares_srv_reply* first = nullptr;
    if (status == ARES_SUCCESS)
      status = ares_parse_srv_reply(text.data(), static_cast<int>(text.size()), &first);
    if (status != ARES_SUCCESS) {
      found = DnsError(name, status);
      return;
    }
    std::vector<DnsService> services;
    for (const ares_srv_reply* reply = first; reply != nullptr; reply = reply->next)
      services.push_back({reply->host, reply->port, reply->priority, reply->weight});
    ares_free_data(first);
    found = std::move(services);
  });
  look_up->Begun();
  co_await look_up->Done();
  look_up->Close();
  std::erase(under_way_, look_up);
  co_return found;
}

void DnsClient::Cancel() {
  for (const std::shared_ptr<LookUp>& look_up : std::vector(under_way_)) look_up->Cancel();
}

}  // namespace gateway::net
