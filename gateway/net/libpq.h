// libpq, PostgreSQL's client. It is opened when the first server is connected to, since it brings Kerberos, LDAP and
// GnuTLS: 3 MiB that a gateway with another store would hold for nothing. For postgres.cc alone.
#pragma once

#include <absl/status/status.h>
#include <libpq-fe.h>

#include "gateway/net/dynamic_library.h"

namespace gateway::net {

class Libpq {
 public:
  // Opens it, once; callable from every thread. NotFound: it is not installed, or lacks a function.
  static absl::Status Load();
  // After a Load that went well.
  static const Libpq& Get();

 private:
  template <class Signature>
  class Function : public LibraryFunction<Signature> {
   public:
    Function(Libpq& owner, const char* name);
  };
  Libpq();
  static Libpq& Only();

  const DynamicLibrary library_;
  const char* missing_ = nullptr;  // the first function that it lacks

 public:
  const Function<decltype(PQconnectStartParams)> begin{*this, "PQconnectStartParams"};
  const Function<decltype(PQclear)> clear{*this, "PQclear"};
  const Function<decltype(PQnfields)> columns{*this, "PQnfields"};
  const Function<decltype(PQconsumeInput)> consume_input{*this, "PQconsumeInput"};
  const Function<decltype(PQenterPipelineMode)> enter_pipeline_mode{*this, "PQenterPipelineMode"};
  const Function<decltype(PQresultErrorField)> error_field{*this, "PQresultErrorField"};
  const Function<decltype(PQerrorMessage)> error_message{*this, "PQerrorMessage"};
  const Function<decltype(PQfinish)> finish{*this, "PQfinish"};
  const Function<decltype(PQflush)> flush{*this, "PQflush"};
  const Function<decltype(PQconninfoFree)> free_address{*this, "PQconninfoFree"};
  const Function<decltype(PQfreemem)> free_memory{*this, "PQfreemem"};
  const Function<decltype(PQgetResult)> get_result{*this, "PQgetResult"};
  const Function<decltype(PQisBusy)> is_busy{*this, "PQisBusy"};
  const Function<decltype(PQgetisnull)> is_null{*this, "PQgetisnull"};
  const Function<decltype(PQgetlength)> length{*this, "PQgetlength"};
  const Function<decltype(PQnotifies)> notification{*this, "PQnotifies"};
  const Function<decltype(PQconninfoParse)> parse_address{*this, "PQconninfoParse"};
  const Function<decltype(PQconnectPoll)> poll{*this, "PQconnectPoll"};
  const Function<decltype(PQresultErrorMessage)> result_error{*this, "PQresultErrorMessage"};
  const Function<decltype(PQresultStatus)> result_status{*this, "PQresultStatus"};
  const Function<decltype(PQntuples)> rows{*this, "PQntuples"};
  const Function<decltype(PQsendQueryParams)> send_query{*this, "PQsendQueryParams"};
  const Function<decltype(PQsetnonblocking)> set_nonblocking{*this, "PQsetnonblocking"};
  const Function<decltype(PQsetNoticeProcessor)> set_notice_processor{*this, "PQsetNoticeProcessor"};
  const Function<decltype(PQsocket)> socket{*this, "PQsocket"};
  const Function<decltype(PQstatus)> status{*this, "PQstatus"};
  const Function<decltype(PQpipelineSync)> sync_pipeline{*this, "PQpipelineSync"};
  const Function<decltype(PQgetvalue)> value{*this, "PQgetvalue"};
};

}  // namespace gateway::net
