#include "lithe/serve/server.h"

#include <cstdio>
#include <iostream>
#include <map>
#include <set>

#include "lithe/base/log.h"
#include "lithe/base/stop.h"
#include "lithe/cli/command.h"
#include "lithe/cli/neighbour_options.h"
#include "lithe/infer/weights_file.h"
#include "lithe/train/plan.h"

namespace lithe {
namespace {

struct ServeArguments {
  std::vector<std::string> runs, adapters;
  ServeOptions model;
  HttpOptions http;
  DatastoreOptions datastore;
  std::string cache_type, prefix_cache, memory;
};

// Each model has a share as its weights have; the program itself, requests and grammars have the rest.
std::vector<int64_t> shares_of(const ServeArguments& o) {
  std::vector<int64_t> out(o.runs.size(), 0);
  if (o.memory.empty()) return out;
  constexpr int64_t kProgram = int64_t(128) << 20;
  const int64_t all = parse_bytes(o.memory, "serve", "--memory") - kProgram;
  check_usage(all > 0, "serve", "--memory ", o.memory,
              " has no room for the program, which has 128 MiB of it; raise it");
  std::vector<double> sizes;
  double sum = 0;
  for (const std::string& run : o.runs) {
    sizes.push_back(double(std::filesystem::file_size(weights_file(run, o.model.weights))));
    sum += sizes.back();
  }
  for (size_t i = 0; i < out.size(); ++i) out[i] = int64_t(double(all) * sizes[i] / sum);
  return out;
}

// NAME=DIR or RUN:NAME=DIR, by the run's name.
std::map<std::string, std::vector<std::pair<std::string, Path>>> adapters_of(const ServeArguments& o) {
  std::map<std::string, std::vector<std::pair<std::string, Path>>> out;
  std::set<std::string> names;
  for (const std::string& run : o.runs)
    check_usage(names.insert(served_name(run)).second, "serve", "two runs are named '", served_name(run),
                "', which clients choose by; rename one");
  const std::set<std::string> runs = names;
  for (const std::string& given : o.adapters) {
    const size_t equals = given.find('=');
    std::string name = given.substr(0, equals), run = *runs.begin();
    const size_t colon = name.rfind(':');
    check_usage(equals != std::string::npos && equals + 1 < given.size() && !name.empty(), "serve", "--adapter '",
                given, "' must be NAME=DIRECTORY, or RUN:NAME=DIRECTORY");
    check_usage(colon != std::string::npos || runs.size() == 1, "serve", "--adapter '", given,
                "' must say of which run it is: RUN:", given);
    if (colon != std::string::npos) run = name.substr(0, colon), name = name.substr(colon + 1);
    check_usage(runs.count(run), "serve", "--adapter '", given, "' is of run '", run, "', which is not served");
    check_usage(!name.empty() && names.insert(name).second, "serve", "--adapter '", given,
                "' needs a name that no run and no other adapter has");
    out[run].emplace_back(name, given.substr(equals + 1));
  }
  return out;
}

int run_serve(ServeArguments o) {
  catch_stop_signals();
  GenerateConfig cache;
  cache.cache_dtype = o.cache_type;
  o.model.budget.cache = cache.cache_type();
  if (!o.prefix_cache.empty()) o.model.budget.prefix_bytes = parse_bytes(o.prefix_cache, "serve", "--prefix-cache");
  check_usage(o.datastore.directory.empty() || o.runs.size() == 1, "serve",
              "--datastore is of one model; start a server for each");
  o.model.neighbours = [&](const Path& run, const LoadedModel& loaded) {
    return neighbours_of(o.datastore, run, o.model.weights, loaded);
  };
  check_usage(o.model.chat_template.empty() || o.runs.size() == 1, "serve",
              "--chat-template is of one model; start a server for each, or put chat_template.jinja into the runs");
  auto adapters = adapters_of(o);
  ServedModels models;
  const std::vector<int64_t> shares = shares_of(o);
  const auto load = [&]() -> const ServedModels& {
    for (const std::string& run : o.runs) {
      o.model.memory = shares[models.size()];
      o.model.adapters = std::move(adapters[served_name(run)]);
      models.push_back(std::make_unique<ServedModel>(run, o.model));
      check_not_stopped("serve", "nothing was served");
    }
    return models;
  };
  serve(load, o.http, [&](int port) {
    std::printf("http://%s:%d\n", o.http.host.c_str(), port);
    std::fflush(stdout);
  });
  log_info("stopped by signal ", stop_signal());
  return 0;
}

}  // namespace

Command add_serve(CommandLine& app) {
  auto o = std::make_shared<ServeArguments>();
  app.add_option("runs", o->runs, "directories of training runs or imported models, each served under its name")
      .required();
  app.add_option("--adapter", o->adapters,
                 "NAME=DIR: a low-rank adapter (adapter/ of a run with train.adapters), which clients choose by NAME; "
                 "RUN:NAME=DIR where there are several runs (repeatable)")
      .repeatable();
  app.add_option("--host", o->http.host, "address to listen at; every address except 127.0.0.1 needs --api-key-file")
      .show_default();
  app.add_option("--port", o->http.port, "port; 0: any free port, which the program prints")
      .between(0, 65535)
      .show_default();
  app.add_option("--api-key-file", o->http.key_file,
                 "file with one key on each line; clients send Authorization: Bearer KEY");
  add_weights_options(app, o->model.weights, o->model.precision);
  add_el_rewrite_option(app, o->model.el_rewrite);
  app.add_option("--slots", o->model.budget.slots, "largest number of requests of a model that run at the same time")
      .positive()
      .show_default();
  app.add_option("--queue", o->model.queue,
                 "largest number of requests of a model that wait; further requests get status 429")
      .non_negative()
      .show_default();
  app.add_option("--cache-type", o->cache_type, "number format of stored keys and values; default: that of --precision")
      .one_of({"f32", "bf16", "int8", "int4"});
  app.add_option("--cache-tokens", o->model.budget.tokens,
                 "largest number of tokens stored for all requests of a model together; 0: no limit")
      .non_negative()
      .show_default();
  app.add_option("--memory", o->memory,
                 "memory limit of the server, for example 4GiB. It is planned at the start, and limits the number of "
                 "stored tokens. Models share the memory in proportion to their weights; default: no limit");
  app.add_option("--prefix-cache", o->prefix_cache,
                 "memory for stored beginnings of prompts, for example 512MiB; later prompts with the same beginning "
                 "use them; answers stay the same; default: none");
  const Option draft = app.add_option("--draft", o->model.draft,
                                      "source of drafted tokens, which the model then checks: a smaller run with the "
                                      "same tokenizer, exit:N or prompt, as for `lithe generate`");
  app.add_option("--draft-tokens", o->model.draft_tokens, "largest number of tokens drafted at a time")
      .positive()
      .needs(draft);
  app.add_option("--exit", o->model.exit,
                 "rule that says at which exit a token leaves a model with early exits, for example maxprob:0.9");
  app.add_option("--early-stop", o->model.early_stop,
                 "end a text when the early-stop head of the model is certain by this margin, from -1 to 1");
  add_datastore_options(app, o->datastore);
  app.add_option("--chat-template", o->model.chat_template,
                 "file with a Jinja template for /v1/chat/completions; default: the run's chat_template.jinja");
  app.add_option("--connections", o->http.connections, "largest number of open connections")
      .between(1, 4096)
      .show_default();
  app.add_option("--body-bytes", o->http.body_bytes, "largest size of a request in bytes").positive().show_default();
  app.add_option("--timeout", o->http.timeout_seconds, "longest time of a request in seconds; 0: no limit")
      .non_negative()
      .show_default();
  app.add_option("--drain", o->http.drain_seconds, "seconds that running requests have to end after a signal")
      .non_negative()
      .show_default();
  app.add_option("--log-format", o->http.log_format,
                 "form of the line for each request on standard error: text, or json (an object a line)")
      .one_of({"text", "json"});
  app.add_flag("--log-prompts", o->http.log_prompts, "also log the texts that clients send");
  add_threads_option(app);
  app.footer(
      "Example: lithe serve runs/first --port 8080\nThe interface is that of OpenAI: /v1/completions, "
      "/v1/chat/completions, /v1/embeddings; docs/serve.md describes it.\nAfter SIGTERM the server lets running "
      "requests end, then it stops. The page at / lets you try the models.");
  return [o] { return run_serve(*o); };
}

}  // namespace lithe
