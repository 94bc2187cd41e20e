// Section `state`: where the store is, if it is not the file of state_dir.
#pragma once

#include <optional>
#include <string>

#include "conf/secret.h"
#include "conf/time.h"

namespace conf {
class Object;
class Value;
class Writer;
}  // namespace conf

namespace gateway::config {

// A PostgreSQL database that several gateways share. A URL alone stands for the rest's defaults.
struct State {
  // postgres://USER@HOST:PORT/DATABASE?sslmode=verify-full; several hosts with commas; without a password.
  std::string url;
  conf::Secret password;
  std::string ca;           // PEM files
  std::string certificate;  // of this client; both or neither
  std::string key;
  conf::Duration timeout = std::chrono::seconds(5);  // of an operation

  // With sslmode as it is where the URL does not say it.
  std::string full_url() const;
};

void Bind(conf::Object& object, State& out);
void Read(const conf::Value& value, State& out);

}  // namespace gateway::config
