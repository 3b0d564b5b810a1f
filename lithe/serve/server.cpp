#include "lithe/serve/server.h"

#include <sys/socket.h>

#include "lithe/base/stop.h"
#include "lithe/serve/http_server.h"
#include "lithe/serve/routes.h"

namespace lithe {
namespace {

using Clock = std::chrono::steady_clock;

bool is_loopback(const std::string& host) { return host == "localhost" || host == "::1" || host.rfind("127.", 0) == 0; }

}  // namespace

void serve(const std::function<const ServedModels&()>& load, const HttpOptions& options,
           const std::function<void(int port)>& ready) {
  check_usage(is_loopback(options.host) || !options.key_file.empty(), "serve", "'", options.host,
              "' can be reached by others; give --api-key-file, or stay at 127.0.0.1");
  Routes routes(options);
  HttpServer server(options.body_bytes);
  server.new_task_queue = [n = size_t(options.connections)] { return new httplib::ThreadPool(n); };
  server.set_keep_alive_max_count(1000);
  server.set_keep_alive_timeout(5);
  server.set_read_timeout(30);
  server.set_tcp_nodelay(true);
  routes.add_to(server);
  int door = -1;
  server.set_socket_options([&](int socket) {
    // Not the library's SO_REUSEPORT, by which two servers would share a port.
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    door = socket;
  });
  int port = int(options.port);
  if (port == 0)
    port = server.bind_to_any_port(options.host);
  else if (!server.bind_to_port(options.host, port))
    port = -1;
  check_usage(port > 0, "serve", "port ", options.port, " of '", options.host, "' cannot be had; is it in use?");
  // The library lets five clients wait at the door; more at once were turned away without an answer.
  check(::listen(door, SOMAXCONN) == 0, "serve", "port ", port, " cannot be listened to");
  std::thread listener([&] { server.listen_after_bind(); });
  while (!server.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const auto close = [&] {
    server.stop();
    listener.join();
  };
  const ServedModels* models = nullptr;
  try {
    models = &load();
    routes.open(*models);
    ready(port);
  } catch (...) {
    close();
    throw;
  }
  while (!stop_signal()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const auto begin = Clock::now();
  while (routes.busy() && Clock::now() - begin < std::chrono::seconds(options.drain_seconds))
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  close();
}

}  // namespace lithe
