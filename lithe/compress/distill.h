// A student and its teacher: the recipe of a training that learns from the teacher, and the texts that it writes.
#pragma once

#include <string>
#include <vector>

#include "lithe/model/from_layers.h"
#include "lithe/recipe/recipe.h"
#include "lithe/train/trainer.h"

namespace lithe {

struct DistillRequest {
  Path recipe, out;
  std::string teacher;
  std::vector<std::string> set;  // overrides of the recipe, after everything that is set here
  FromLayers from;               // of the teacher, that the student begins with
  std::string weights, precision = "f32";
  // By word, rows and relations: options of objective distillation.
  double mixing = 1, temperature = 1, hidden = 0, relation = 0;
  std::vector<std::string> relations;
  int64_t top_k = 0;
  std::string cache;
  // By sequence.
  int64_t beams = 5, prompt_tokens = 16, new_tokens = 112, texts = 0;
};

/// The directory in `out` that holds what the teacher wrote.
inline constexpr const char* kTeacherTexts = "teacher_texts";

/// The student's recipe with objective distillation as train.auxiliary_objectives.distillation, and the teacher's
/// tokenizer where the student begins with nothing.
Recipe distillation_recipe(const DistillRequest& request);

/// The same student without a teacher: what distillation_recipe() or sequence_recipe() adds is left out, and the
/// weights begin at random. It learns for as long as its recipe says.
Recipe untaught_recipe(const DistillRequest& request);

/// Fails (usage) where `out` is no place for this run. A `run` that was stopped while the teacher wrote is no run yet:
/// its `resume` is turned off where only that is to go on.
void check_place_of_distillation(const DistillRequest& request, TrainRun& run);

/// The teacher's translations of the training sources by search with `beams`, or its continuations of the first
/// `prompt_tokens` tokens of each piece of the training texts, as section generate says. They are written to
/// out/kTeacherTexts a window at a time, and go on where they were left. False when asked to stop. Fails (usage) where
/// others stand there.
bool write_teacher_texts(const DistillRequest& request, const TrainRun& run);

/// The student's recipe with these texts in place of the targets, or of the texts.
Recipe sequence_recipe(const DistillRequest& request);

}  // namespace lithe
