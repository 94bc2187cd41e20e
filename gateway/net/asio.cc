// Asio's own translation unit (BOOST_ASIO_SEPARATE_COMPILATION).
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wconversion"
#include <boost/asio/impl/src.hpp>
#include <boost/asio/ssl/impl/src.hpp>
#pragma clang diagnostic pop
