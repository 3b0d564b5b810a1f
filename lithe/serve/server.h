// Routes, limits, keys and metrics: models behind HTTP.
#pragma once

#include "lithe/serve/served_model.h"

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
};

/// Serves until a signal comes (catch_stop_signals()), then waits for what is under way. `ready` is told the port.
/// Fails (usage) on a host that is not this machine's loopback without keys, and where the port cannot be had.
void serve(const std::vector<std::unique_ptr<ServedModel>>& models, const HttpOptions& options,
           const std::function<void(int port)>& ready);

}  // namespace lithe
