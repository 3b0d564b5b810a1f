#include "lithe/train/result_json.h"

namespace lithe {

Json result_json(const TrainResult& r, const std::string& out) {
  return {{"status", name_of(r.status)},
          {"steps", r.steps},
          {"tokens", r.tokens},
          {"final_loss", r.final_loss},
          {"eval_loss", r.eval_loss},
          {"best_eval_loss", r.best_eval_loss},
          {"best_step", r.best_step},
          {"best_by", r.best_by},
          {"best_value", r.best_value},
          {"seconds", r.seconds},
          {"planned_peak_bytes", r.planned.peak},
          {"measured_peak_bytes", r.measured.peak},
          {"out", out}};
}

}  // namespace lithe
