#include "lithe/compress/distill.h"

#include "lithe/base/json.h"
#include "lithe/objective/teacher.h"
#include "lithe/train/resume.h"

namespace lithe {
namespace {

std::string quoted(const std::string& text) { return dump(Json(text)); }

// Keys that say what the student begins as.
std::vector<std::string> beginning_of(const DistillRequest& request) {
  std::vector<std::string> out;
  if (!request.from.any()) return out;
  out.push_back("from_pretrained=" + quoted(request.teacher));
  const auto choose = [&](const char* key, const std::vector<int64_t>& layers, const char* count) {
    if (layers.empty()) return;
    out.push_back(cat(key, "=", dump(Json(layers))));
    out.push_back(cat(count, "=", layers.size()));
  };
  choose("from_layers", request.from.layers, "model.num_hidden_layers");
  choose("from_encoder_layers", request.from.encoder, "model.encoder.num_hidden_layers");
  return out;
}

std::vector<std::string> with_own(std::vector<std::string> set, const DistillRequest& request) {
  set.insert(set.end(), request.set.begin(), request.set.end());
  return set;
}

// The teacher's tokenizer where the student begins with nothing.
std::vector<std::string> with_tokenizer(std::vector<std::string> set, const DistillRequest& request) {
  if (!load_recipe(request.recipe, with_own(set, request)).from_pretrained.empty()) return set;
  const Path tokenizer = Path(request.teacher) / "tokenizer.json",
             source = Path(request.teacher) / kSource / "tokenizer.json";
  set.push_back(cat("data.tokenizer={type: file, file: ", quoted(tokenizer.string()), "}"));
  if (std::filesystem::exists(source))
    set.push_back(cat("data.source_tokenizer={type: file, file: ", quoted(source.string()), "}"));
  return set;
}

}  // namespace

Recipe distillation_recipe(const DistillRequest& request) {
  TeacherConfig{request.teacher, request.weights, request.precision}.file();
  std::vector<std::string> set = with_tokenizer(beginning_of(request), request);
  const std::string key = "train.auxiliary_objectives.distillation.";
  set.push_back(key + "type=distillation");
  set.push_back(key + "teacher=" + quoted(request.teacher));
  const DistillRequest plain;
  const auto number = [&](const char* name, double value, double otherwise) {
    if (value != otherwise) set.push_back(cat(key, name, "=", value));
  };
  number("mixing", request.mixing, plain.mixing);
  number("temperature", request.temperature, plain.temperature);
  number("hidden_weight", request.hidden, 0);
  number("relation_weight", request.relation, 0);
  number("top_k", double(request.top_k), 0);
  if (!request.relations.empty()) set.push_back(key + "relations=" + dump(Json(request.relations)));
  if (!request.cache.empty()) set.push_back(key + "cache=" + quoted(request.cache));
  if (!request.weights.empty()) set.push_back(key + "teacher_weights=" + request.weights);
  if (request.precision != plain.precision) set.push_back(key + "teacher_precision=" + request.precision);
  return load_recipe(request.recipe, with_own(set, request));
}

Recipe untaught_recipe(const DistillRequest& request) {
  Recipe recipe = load_recipe(request.recipe, with_own(with_tokenizer(beginning_of(request), request), request));
  recipe.fresh_weights = !recipe.from_pretrained.empty();
  recipe.from_layers = {};
  return recipe;
}

void check_place_of_distillation(const DistillRequest& request, TrainRun& run) {
  const Path texts = request.out / kTeacherTexts;
  const bool begun = std::filesystem::exists(run.out / "resolved_recipe.yaml");
  std::error_code none;
  check_usage(!std::filesystem::equivalent(request.teacher, request.out, none), "distill", "'", request.out.string(),
              "' is the teacher, which the student would replace; give --out another directory");
  if (run.overwrite) return;
  if (std::filesystem::exists(texts) && !begun) {
    check_usage(run.resume, "distill", "'", run.out.string(),
                "' holds texts of a teacher that was stopped; give --resume to go on, --overwrite to begin anew, or "
                "another --out");
    run.resume = run.extend = false;
  } else {
    check_usage(!run.resume || has_begun(run.out), "distill", "'", run.out.string(),
                "' holds no run to resume; leave --resume out to begin one, or give --resume auto for either");
  }
}

// spec: kd.sequence | distillation | a student learns what the teacher's search writes | TB 6.4.7(1)
Recipe sequence_recipe(const DistillRequest& request) {
  std::vector<std::string> set = beginning_of(request);
  const Path texts = request.out / kTeacherTexts;
  if (load_recipe(request.recipe, with_own(set, request)).has_translation()) {
    set.push_back(cat("translation.train={source: [", quoted((texts / "source.txt").string()), "], target: [",
                      quoted((texts / "target.txt").string()), "]}"));
  } else {
    set.push_back(cat("data.files=[", quoted((texts / "texts.jsonl").string()), "]"));
    set.push_back("data.text_field=text");
  }
  std::vector<std::string> own = request.set;  // the recipe's own training files are not the student's
  std::erase_if(own, [](const std::string& s) {
    return s.starts_with("translation.train") || s.starts_with("data.files") || s.starts_with("data.text_field");
  });
  set.insert(set.end(), own.begin(), own.end());
  return load_recipe(request.recipe, set);
}

}  // namespace lithe
