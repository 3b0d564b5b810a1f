#include <pybind11/stl.h>

#include <mutex>

#include "lithe/base/node.h"
#include "lithe/compare/compare.h"
#include "lithe/train/plan_recipe.h"
#include "lithe/train/result_json.h"
#include "lithe/train/resume.h"
#include "model.h"
#include "values.h"

namespace lithe::python {
namespace {

// The books of memory are the process's own: what reads their peak runs alone.
std::mutex one_training;
thread_local bool trains = false;

template <class F>
auto alone_in_process(const char* operation, F&& f) {
  check_usage(!trains, operation, "a callback of a training cannot train; do it when that is done");
  return long_call([&] {
    const std::lock_guard lock(one_training);
    struct Mark {
      Mark() { trains = true; }
      ~Mark() { trains = false; }
    } mark;
    return f();
  });
}

// {"train.max_steps": 10}, or ["train.max_steps=10"].
std::vector<std::string> overrides_of(const py::object& set) {
  std::vector<std::string> out;
  if (set.is_none()) return out;
  if (!py::isinstance<py::dict>(set))
    return cast_of<std::vector<std::string>>(set, "set", "a dict of keys and values, or a list of 'key=value'");
  for (const auto& [key, value] : set.cast<py::dict>()) {  // written as in a recipe that is a dict
    out.push_back(std::string(py::str(key)) + "=" + to_yaml(to_node(value, "set")));
    out.back().pop_back();  // the end of the line
  }
  return out;
}

Recipe recipe_of(const py::object& recipe, const py::object& set) {
  const std::vector<std::string> overrides = overrides_of(set);
  if (!py::isinstance<py::dict>(recipe)) return load_recipe(path_of(recipe), overrides);
  return read_recipe(to_yaml(to_node(recipe, "dict")), "the dict", overrides);
}

int64_t bytes_of(const py::object& budget, const char* operation) {
  if (budget.is_none()) return 0;
  return py::isinstance<py::str>(budget) ? parse_bytes(utf8_of(budget), operation, "memory_budget")
                                         : cast_of<int64_t>(budget, "memory_budget", "bytes or a str like '2GiB'");
}

py::object plan(const py::object& recipe, const py::object& set, const py::object& memory_budget, bool fit,
                bool speed) {
  Recipe read = recipe_of(recipe, set);
  const int64_t budget = bytes_of(memory_budget, "plan");
  check_usage(!fit || budget, "plan", "fit needs memory_budget");
  return from_json(alone_in_process("plan", [&] {
    const Plan planned = plan_recipe(read, fit ? budget : 0, speed);
    if (budget && planned.memory.peak > budget)
      throw Error("memory",
                  cat("the plan needs ", format_bytes(double(planned.memory.peak)), ", the budget is ",
                      format_bytes(double(budget)), "; fit=True chooses accumulation and recomputation"),
                  ExitCode::memory);
    return plan_json(planned, read);
  }));
}

py::object train_run(const py::object& recipe, const py::object& out, const py::object& set, const py::object& callback,
                     const py::object& resume, bool overwrite, const py::object& memory_budget, bool fit) {
  TrainRun run{.out = path_of(out), .recipe = recipe_of(recipe, set), .overwrite = overwrite, .fit_memory = fit};
  const bool automatic = py::isinstance<py::str>(resume) && resume.cast<std::string>() == "auto";
  run.resume = automatic ? has_begun(run.out) : cast_of<bool>(resume, "resume", "True, False or 'auto'");
  run.extend = run.resume;
  run.memory_budget = bytes_of(memory_budget, "train");
  check_usage(!fit || run.memory_budget, "train", "fit needs memory_budget");
  if (!callback.is_none())
    run.on_step = [&](const TrainStep& step) {
      const py::gil_scoped_acquire locked;
      return goes_on(callback(step), "callback");
    };
  const std::string name = run.out.string();
  return from_json(alone_in_process("train", [&] { return result_json(train(std::move(run)), name); }));
}

// Names of recipes are relative to the experiment's file; a dict has none, and they are relative to where we are.
void make_absolute(Node& node) {
  const Node* recipe = node.find("recipe");
  if (recipe && recipe->is_scalar())
    node.set("recipe", Node::scalar(std::filesystem::absolute(recipe->text()).string(), recipe->mark(), true));
}

Node experiment_of(const py::object& dict) {
  Node out = to_node(dict, "dict");
  make_absolute(out);
  if (const Node* given = out.find("variants"); given && given->is_map()) {
    Node variants = *given;
    for (const auto& [name, variant] : given->entries()) {
      Node whole = variant;
      if (whole.is_map()) make_absolute(whole);
      variants.set(name, whole);
    }
    out.set("variants", variants);
  }
  return out;
}

py::object compare_variants(const py::object& experiment, const py::object& out, bool plan_only) {
  check_usage(plan_only || !out.is_none(), "compare", "give out, the directory of the comparison");
  compare::Request request{.plan_only = plan_only};
  if (!out.is_none()) request.out = path_of(out);
  py::object kept;  // the directory of a file, as long as it is read
  if (py::isinstance<py::dict>(experiment)) {
    kept = py::module_::import("tempfile").attr("TemporaryDirectory")();
    request.experiment = path_of(kept.attr("name")) / "experiment.yaml";
    write_file(request.experiment, to_yaml(experiment_of(experiment)));
  } else {
    request.experiment = path_of(experiment);
  }
  const std::string text =
      alone_in_process("compare", [&] { return compare::to_json_text(compare::compare(request)); });
  return from_json(parse_json(text, "comparison"));
}

}  // namespace

void add_training(py::module_& module) {
  py::class_<TrainStep>(module, "TrainStep", "Where a training stands after a step.")
      .def_readonly("step", &TrainStep::step, "Steps that are done, from 1.")
      .def_readonly("total_steps", &TrainStep::total_steps, "Of the run; 0 where it has no end in steps.")
      .def_readonly("tokens", &TrainStep::tokens, "Of all steps.")
      .def_readonly("loss", &TrainStep::loss, "Of this step, the mean over its labels.")
      .def_readonly("learning_rate", &TrainStep::learning_rate, "Of this step.")
      .def_readonly("gradient_norm", &TrainStep::gradient_norm, "Before it is cut.")
      .def_readonly("seconds", &TrainStep::seconds, "Of training so far.")
      .def_readonly("eval_loss", &TrainStep::eval_loss, "Held-out, where it was measured after this step; else None.")
      .def("__repr__", [](const TrainStep& s) { return cat("TrainStep(step=", s.step, ", loss=", s.loss, ")"); });
  module.def(
      "plan", plan, py::arg("recipe"), py::kw_only(), py::arg("set") = py::none(),
      py::arg("memory_budget") = py::none(), py::arg("fit") = false, py::arg("speed") = true,
      "What a recipe (a file or a dict) will cost, as `lithe plan --json` prints it: parameters, FLOPs, bytes and the\n"
      "exact peak of memory. set: keys to override, {'train.max_steps': 10}. memory_budget: bytes or '2GiB'; Error\n"
      "with code 'memory' above it, unless fit chooses accumulation and recomputation. speed: measure this machine.");
  module.def(
      "train", train_run, py::arg("recipe"), py::arg("out"), py::kw_only(), py::arg("set") = py::none(),
      py::arg("callback") = py::none(), py::arg("resume") = false, py::arg("overwrite") = false,
      py::arg("memory_budget") = py::none(), py::arg("fit") = false,
      "Trains a recipe (a file or a dict) in the directory out, as `lithe train` does and to the same bits, and "
      "returns\n"
      "what its --json prints. callback(step) is called with a TrainStep after each step; returning False stops the "
      "run,\n"
      "saved, and an exception ends it. Ctrl-C stops and saves the run, then raises KeyboardInterrupt. resume: True\n"
      "continues the run in out, bit for bit, 'auto' begins it where there is none. One training runs at a time.");
  module.def(
      "compare", compare_variants, py::arg("experiment"), py::arg("out") = py::none(), py::kw_only(),
      py::arg("plan") = false,
      "Trains the variants of an experiment (a file or a dict), scores and times them, as `lithe compare` does, and\n"
      "returns comparison.json. plan: only checks and costs them.");
}

}  // namespace lithe::python
