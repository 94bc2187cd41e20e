#include "gateway/net/http/listener.h"

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

Task<void> Listener::Serve(std::unique_ptr<Stream> stream) {
  handler_.OnOpen();
  Client client(loop_, std::move(stream), limits_);
  clients_.insert(&client);
  while (!draining_) {
    const ServerConnection::Status head = co_await client.connection.ReadHead();
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
