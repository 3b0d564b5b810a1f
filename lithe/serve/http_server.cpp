#include "lithe/serve/http_server.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>

namespace lithe {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kHead = std::chrono::seconds(5);  // that the head of a request may take, once it began

/// What this thread answers.
struct Now {
  int socket = -1;
  bool last = false;                                // no other request can follow on the connection
  std::optional<Clock::time_point> head_ends = {};  // while the head of a request is read
};
thread_local Now now;

bool ready(int socket, short events, int milliseconds) {
  pollfd one{.fd = socket, .events = events, .revents = 0};
  return ::poll(&one, 1, milliseconds) > 0;
}

// It has sent something, or is silent; not gone.
bool is_there(int socket) {
  if (!ready(socket, POLLIN, 0)) return true;
  char byte;
  return ::recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

class Connection final : public httplib::Stream {
 public:
  Connection(int socket, int read_milliseconds, int write_milliseconds)
      : socket_(socket), read_milliseconds_(read_milliseconds), write_milliseconds_(write_milliseconds) {}
  bool has_more() const { return begin_ < end_; }
  bool is_readable() const override { return has_more() || ready(socket_, POLLIN, most_milliseconds()); }
  bool is_writable() const override { return ready(socket_, POLLOUT, write_milliseconds_) && is_there(socket_); }
  ssize_t read(char* to, size_t size) override {
    if (!has_more()) {
      if (!is_readable()) return -1;
      const ssize_t got = ::recv(socket_, bytes_, sizeof bytes_, 0);
      if (got <= 0) return got;
      begin_ = 0, end_ = size_t(got);
    }
    const size_t count = std::min(size, end_ - begin_);
    std::copy_n(bytes_ + begin_, count, to);
    begin_ += count;
    return ssize_t(count);
  }
  ssize_t write(const char* from, size_t size) override {
    return is_writable() ? ::send(socket_, from, size, MSG_NOSIGNAL) : -1;
  }
  void get_remote_ip_and_port(std::string& ip, int& port) const override { name(::getpeername, ip, port); }
  void get_local_ip_and_port(std::string& ip, int& port) const override { name(::getsockname, ip, port); }
  socket_t socket() const override { return socket_; }

 private:
  int socket_, read_milliseconds_, write_milliseconds_;
  char bytes_[8192];
  size_t begin_ = 0, end_ = 0;

  int most_milliseconds() const {
    if (!now.head_ends) return read_milliseconds_;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(*now.head_ends - Clock::now()).count();
    return int(std::clamp<int64_t>(left, 0, read_milliseconds_));
  }
  void name(int (*of)(int, sockaddr*, socklen_t*), std::string& ip, int& port) const {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    if (of(socket_, reinterpret_cast<sockaddr*>(&address), &size) != 0) return;
    char text[INET6_ADDRSTRLEN] = "";
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    const bool six = address.ss_family == AF_INET6;
    ::inet_ntop(address.ss_family, six ? static_cast<const void*>(&v6.sin6_addr) : &v4.sin_addr, text, sizeof text);
    ip = text;
    port = ntohs(six ? v6.sin6_port : v4.sin_port);
  }
};

// Reads what the client still sends, for two seconds at most: closed with bytes unread, it would lose the answer.
void linger(int socket) {
  ::shutdown(socket, SHUT_WR);
  char bytes[65536];
  for (const auto begin = Clock::now(); Clock::now() - begin < std::chrono::seconds(2);)
    if (!ready(socket, POLLIN, 200) || ::recv(socket, bytes, sizeof bytes, 0) <= 0) break;
}

void end_connection(httplib::Response& out) {
  now.last = true;
  out.set_header("Connection", "close");
}

}  // namespace

HttpServer::HttpServer(int64_t body_bytes) : body_bytes_(body_bytes) {
  set_payload_max_length(size_t(body_bytes));
  // Bodies of methods that have none would be read as the next request.
  set_pre_routing_handler([](const httplib::Request& in, httplib::Response& out) {
    now.head_ends.reset();
    const bool reads = in.method == "POST" || in.method == "PUT" || in.method == "PATCH" || in.method == "DELETE";
    const bool sends = in.has_header("Transfer-Encoding") ||
                       (in.has_header("Content-Length") && in.get_header_value("Content-Length") != "0");
    if (!reads && sends) end_connection(out);
    if (in.method != "PRI") return HandlerResponse::Unhandled;
    end_connection(out);
    out.status = 400;
    return HandlerResponse::Handled;
  });
}

bool HttpServer::client_is_there() { return now.socket < 0 || is_there(now.socket); }

void HttpServer::post(const char* path, Body answer) {
  Post(path, [this, answer = std::move(answer)](const httplib::Request& in, httplib::Response& out,
                                                const httplib::ContentReader& reader) {
    std::string body;
    bool fits = !in.is_multipart_form_data();
    if (!fits) {
      out.status = 415;
    } else if (in.get_header_value<uint64_t>("Content-Length") > uint64_t(body_bytes_)) {
      out.status = 413;
      fits = false;
    } else if (!reader([&](const char* data, size_t size) {
                 fits = body.size() + size <= size_t(body_bytes_);
                 if (fits) body.append(data, size);
                 return fits;
               })) {
      if (!fits) out.status = 413;
      if (out.status < 400) out.status = 400;
      fits = false;
    }
    if (fits) return answer(in, body, out);
    end_connection(out);
  });
}

void HttpServer::refuse_others() {
  const HandlerWithContentReader none = [](const httplib::Request&, httplib::Response& out,
                                           const httplib::ContentReader&) {
    end_connection(out);
    out.status = 404;
  };
  Post(".*", none);
  Put(".*", none);
  Patch(".*", none);
  Delete(".*", none);
}

bool HttpServer::answer(httplib::Stream& stream, bool last, bool& closed) {
  now.last = false;
  now.head_ends = Clock::now() + kHead;
  const bool fine = process_request(stream, last, closed, [](httplib::Request& in) {
    in.ranges.clear();  // parts of answers are no JSON
  });
  closed |= now.last;
  return fine;
}

bool HttpServer::process_and_close_socket(socket_t socket) {
  const auto milliseconds = [](time_t seconds, time_t microseconds) {
    return int(seconds * 1000 + microseconds / 1000);
  };
  bool fine = true;
  {
    Connection connection(socket, milliseconds(read_timeout_sec_, read_timeout_usec_),
                          milliseconds(write_timeout_sec_, write_timeout_usec_));
    now = {.socket = socket};
    const auto comes = [&] {
      constexpr int kLook = 100;
      for (int64_t waited = 0; !connection.has_more() && !ready(socket, POLLIN, kLook); waited += kLook)
        if (svr_sock_ == INVALID_SOCKET || waited >= int64_t(keep_alive_timeout_sec_) * 1000) return false;
      return true;
    };
    for (size_t left = keep_alive_max_count_; left > 0 && svr_sock_ != INVALID_SOCKET && comes(); --left) {
      bool closed = false;
      fine = answer(connection, left == 1, closed);
      if (!fine || closed) break;
    }
    now = {};
  }
  linger(socket);
  ::close(socket);
  return fine;
}

}  // namespace lithe
