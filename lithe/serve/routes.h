// What is answered at which path: limits, keys and errors around the endpoints.
#pragma once

#include <atomic>

#include "lithe/serve/endpoints.h"
#include "lithe/serve/server.h"

namespace httplib {
struct Request;
struct Response;
}  // namespace httplib

namespace lithe {

class HttpServer;

class Routes {
 public:
  /// Options outlive it. Fails (usage) where the file of keys has none.
  explicit Routes(const HttpOptions& options);

  /// From now on requests are for these; before they are answered with 503.
  void open(const ServedModels& models) { models_ = &models; }
  /// Answers are being made or written.
  bool busy() const { return under_way_ > 0; }
  void add_to(HttpServer& server);

 private:
  std::atomic<const ServedModels*> models_ = nullptr;
  const HttpOptions& options_;
  std::vector<std::string> keys_;
  std::atomic<uint64_t> next_ = 1, requests_ = 0, refused_ = 0;
  std::atomic<int64_t> under_way_ = 0;

  bool allowed(const httplib::Request& in) const;
  void check_open(const httplib::Request& in) const;
  void get(HttpServer& server, const char* path,
           std::function<void(const httplib::Request&, httplib::Response&)> handler);
  void post(HttpServer& server, const char* path, std::function<void(const Json&, httplib::Response&)> handler);
  Chosen model_named(const std::string& name) const;
  Chosen model_of(const Json& body) const;
  StillWanted still_wanted() const;
  void complete(const Json& body, httplib::Response& out, bool chat);
  void stream(const std::shared_ptr<class CompletionRun>& run, httplib::Response& out);
};

}  // namespace lithe
