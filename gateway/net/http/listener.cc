#include "gateway/net/http/listener.h"

#include <algorithm>
#include <utility>

namespace gateway::net::http {

absl::StatusOr<uint16_t> Listener::Listen(Acceptor::Options options) {
  auto acceptor = Acceptor::Listen(
      loop_.io, loop_.watchdog, loop_.tasks, std::move(options),
      [this](std::unique_ptr<Stream> stream) { loop_.tasks.Spawn(Serve(std::move(stream))); });
  if (!acceptor.ok()) return acceptor.status();
  acceptors_.push_back(*std::move(acceptor));
  return acceptors_.back()->port();
}

void Listener::Drain() {
  draining_ = true;
  for (const auto& acceptor : acceptors_) acceptor->Close();
  for (Client* client : clients_) {
    if (client->idle) client->connection.Close();
  }
}

void Listener::CloseAll() {
  Drain();
  for (Client* client : clients_) client->connection.Close();
}

void Listener::CloseOneWaiting() {
  const auto longest = std::ranges::find_if(waiting_, [](const Client* client) { return client != nullptr; });
  if (longest == waiting_.end()) return;
  std::exchange(*longest, nullptr)->connection.Close();
}

Task<void> Listener::Serve(std::unique_ptr<Stream> stream) {
  handler_.OnOpen();
  Client client(loop_, std::move(stream), limits_);
  clients_.insert(&client);
  if (max_connections_ > 0 && clients_.size() > max_connections_) CloseOneWaiting();
  while (!draining_) {
    std::list<Client*>::iterator waiting;
    if (max_connections_ > 0) waiting = waiting_.insert(waiting_.end(), &client);
    const ServerConnection::Status head = co_await client.connection.ReadHead();
    if (max_connections_ > 0) waiting_.erase(waiting);
    if (head == ServerConnection::Status::kClosed) break;
    client.idle = false;
    if (!co_await handler_.Serve(client, head)) break;
    client.idle = true;
  }
  clients_.erase(&client);
  co_await client.connection.Shutdown();
  handler_.OnClosed(client);
}

}  // namespace gateway::net::http
