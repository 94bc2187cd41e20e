#include "gateway/net/resolver.h"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/error.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <coroutine>
#include <cstring>
#include <utility>

#include "gateway/net/clock.h"

namespace gateway::net {
namespace {

using Timer =
    asio::basic_waitable_timer<std::chrono::steady_clock, asio::wait_traits<std::chrono::steady_clock>,
                               IoContext::executor_type>;

ErrorCode ErrorOf(int gai_error) {
  switch (gai_error) {
    case 0:
      return {};
    case EAI_NONAME:
    case EAI_NODATA:
      return asio::error::host_not_found;
    case EAI_AGAIN:
      return asio::error::host_not_found_try_again;
    case EAI_MEMORY:
      return asio::error::no_memory;
    case EAI_SYSTEM:
      return {errno, boost::system::system_category()};
    default:
      return asio::error::no_recovery;
  }
}

}  // namespace

// Shared by the waiting side and the resolver; either thread may release it last. Everything but `name` and
// `io` belongs to the loop.
struct Resolver::Wait::State {
  State(IoContext& loop, std::string asked) : io(loop), name(std::move(asked)) {}

  void Finish(Resolved found) {
    if (done) return;
    done = true;
    result = std::move(found);
    waiter.resume();
  }

  IoContext& io;
  const std::string name;
  std::coroutine_handle<> waiter;
  Resolved result;
  bool done = false;
};

Task<Resolved> Resolver::Wait::Get(std::string name) {
  struct Awaiter {
    Resolver& resolver;
    const std::shared_ptr<State>& state;
    Timer patience;

    bool await_ready() { return false; }
    bool await_suspend(std::coroutine_handle<> waiter) {
      state->waiter = waiter;
      if (std::optional<Resolved> at_once = resolver.Ask(state)) {
        state->done = true;
        state->result = *std::move(at_once);
        return false;
      }
      patience.expires_after(resolver.options_.patience);
      patience.async_wait([&resolver = resolver, state = state](ErrorCode error) {
        if (error || state->done) return;
        Addresses known = resolver.LastGood(state->name);
        if (known.empty()) return;
        resolver.Leave(state);
        state->Finish({{}, std::move(known)});
      });
      return true;
    }
    Resolved await_resume() { return std::move(state->result); }
  };
  state_ = std::make_shared<State>(io_, std::move(name));
  Awaiter awaiter{resolver_, state_, Timer(io_)};
  co_return co_await awaiter;
}

void Resolver::Wait::Abort() {
  if (!state_ || state_->done) return;
  resolver_.Leave(state_);
  asio::post(io_, [state = state_] { state->Finish({asio::error::operation_aborted, {}}); });
}

Resolver::Resolver(Options options, Lookup lookup) : options_(options), lookup_(std::move(lookup)) {}

Resolver::~Resolver() {
  std::vector<std::thread> threads;
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    threads.swap(threads_);
  }
  work_.notify_all();
  for (std::thread& thread : threads) thread.join();
}

Resolver& Resolver::OfProcess() {
  static Resolver& resolver = *new Resolver(Options{});
  return resolver;
}

Resolved Resolver::SystemLookup(const std::string& name) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(name.c_str(), nullptr, &hints, &list);
  Resolved found{ErrorOf(error), {}};
  if (error != 0) return found;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(list, freeaddrinfo);
  for (const addrinfo* entry = list; entry; entry = entry->ai_next) {
    asio::ip::tcp::endpoint endpoint;
    if (entry->ai_addrlen > endpoint.capacity()) continue;
    std::memcpy(endpoint.data(), entry->ai_addr, entry->ai_addrlen);
    found.addresses.push_back(endpoint.address());
  }
  if (found.addresses.empty()) found.error = asio::error::host_not_found;
  return found;
}

std::optional<Resolved> Resolver::Ask(const Waiting& waiting) {
  const std::scoped_lock lock(mutex_);
  Name* name = Find(waiting->name);
  if (!name) return Resolved{asio::error::no_buffer_space, {}};
  const conf::TimePoint now = Now();
  name->asked_at = now;
  if (!name->last_good.empty() && now - name->found_at < options_.fresh) return Resolved{{}, name->last_good};
  name->waiting.push_back(waiting);
  if (std::exchange(name->looking, true)) return std::nullopt;
  queue_.push_back(waiting->name);
  if (queue_.size() > idle_ && threads_.size() < options_.threads) threads_.emplace_back([this] { Work(); });
  work_.notify_one();
  return std::nullopt;
}

void Resolver::Leave(const Waiting& waiting) {
  const std::scoped_lock lock(mutex_);
  const auto it = names_.find(waiting->name);
  if (it != names_.end()) std::erase(it->second->waiting, waiting);
}

Addresses Resolver::LastGood(const std::string& name) {
  const std::scoped_lock lock(mutex_);
  const auto it = names_.find(name);
  return it == names_.end() ? Addresses() : it->second->last_good;
}

// Null when there is no room, because all known names are being looked up.
Resolver::Name* Resolver::Find(const std::string& name) {
  if (const auto it = names_.find(name); it != names_.end()) return it->second.get();
  if (names_.size() >= options_.max_names) {
    auto oldest = names_.end();
    for (auto it = names_.begin(); it != names_.end(); ++it) {
      if (it->second->looking) continue;
      if (oldest == names_.end() || it->second->asked_at < oldest->second->asked_at) oldest = it;
    }
    if (oldest == names_.end()) return nullptr;
    names_.erase(oldest);
  }
  return (names_[name] = std::make_unique<Name>()).get();
}

void Resolver::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    work_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    --idle_;
    if (stopping_) return;
    const std::string name = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    Resolved found = lookup_(name);
    lock.lock();
    Answer(*names_[name], std::move(found));  // stays while it is looked up
  }
}

void Resolver::Answer(Name& name, Resolved found) {
  name.looking = false;
  if (!found.error) {
    name.last_good = found.addresses;
    name.found_at = Now();
  } else if (found.error == asio::error::host_not_found) {
    name.last_good.clear();
  } else if (!name.last_good.empty()) {
    found = {{}, name.last_good};
  }
  // Under the lock: a waiter that has not left still exists, and so does its loop.
  for (const Waiting& waiting : std::exchange(name.waiting, {})) {
    asio::post(waiting->io, [waiting, found] { waiting->Finish(found); });
  }
}

}  // namespace gateway::net
