// request_body: the client's body on its way in: the next piece of a form, and what is said of a body that
// did not come as it should.
//
// Thread: the shard's.
#pragma once

#include <string_view>

#include "gateway/exchange.h"
#include "gateway/net/task.h"

namespace gateway {

// The body ended with `status`, which is not kOk.
Verdict RefuseBody(Exchange& x, net::http::ServerConnection::Status status);

// The next piece of a form, empty at its end; by then it is scanned, and kept in x.form_head, so that it can
// be sent and sent again. False: x has failed.
net::Task<bool> ReadFormPiece(Exchange& x, std::string_view& piece);

}  // namespace gateway
