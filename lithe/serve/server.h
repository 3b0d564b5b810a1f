// Models behind HTTP.
#pragma once

#include "lithe/serve/endpoints.h"

namespace lithe {

struct HttpOptions {
  std::string host = "127.0.0.1";
  int64_t port = 8080;        // 0: any that is free
  std::string key_file;       // one key a line; empty: nobody is asked for one
  int64_t connections = 256;  // that are open at once
  int64_t body_bytes = int64_t(16) << 20;
  int64_t timeout_seconds = 600;  // of a request
  int64_t drain_seconds = 30;     // that requests under way may take once a signal came
  bool log_prompts = false;
  std::string log_format = "text";  // of a line for each request: text, or json
};

/// Listens, has the models loaded, which are in use until this returns, and serves them until a signal comes
/// (catch_stop_signals()); then waits for what is under way. Until they are loaded, and once a signal came, requests
/// are answered with 503. `ready` is told the port once they are loaded. Fails (usage) on a host that is not this
/// machine's loopback without keys, and where the port cannot be had; and as `load` does.
void serve(const std::function<const ServedModels&()>& load, const HttpOptions& options,
           const std::function<void(int port)>& ready);

}  // namespace lithe
