// The HTTP library's server, with what it lacks.
#pragma once

#include <httplib.h>

#include <string>

namespace lithe {

/// - Whoever answers can ask whether the client is still there.
/// - A client that still sends when it is answered hears the answer: the rest of what it sends is read and dropped.
/// - Bodies have limits, however they are sent (with a length, in chunks, compressed).
class HttpServer : public httplib::Server {
 public:
  explicit HttpServer(int64_t body_bytes);
  ~HttpServer() override = default;

  /// Of the request that this thread answers. True where no socket is known.
  static bool client_is_there();

  using Body = std::function<void(const httplib::Request&, const std::string& body, httplib::Response&)>;
  /// Called with the whole body. What is too large is not: the error handler answers with status 413.
  void post(const char* path, Body answer);
  /// What is left is not found; bodies are not read. Call after all routes.
  void refuse_others();

 protected:
  /// One request of a connection. `closed`: none can follow.
  bool answer(httplib::Stream& stream, bool last, bool& closed);

 private:
  int64_t body_bytes_;
  bool process_and_close_socket(socket_t socket) override;
};

}  // namespace lithe
