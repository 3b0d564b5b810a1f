#include "lithe/data/features.h"

#include <cmath>

#include "lithe/base/error.h"
#include "lithe/base/token_code.h"
#include "lithe/data/batches.h"

namespace lithe {

void add_feature_rows(Batch& batch, const std::string& modality, int64_t rows, int64_t width,
                      const std::vector<float>& numbers) {
  check(int64_t(numbers.size()) == rows * width, "features", modality, " of ", rows, " rows of ", width,
        " numbers must have ", rows * width, ", got ", numbers.size());
  Batch::Guests& guests = batch.modalities[modality];
  guests.token_width = 1 + width;
  int64_t row = batch.rows();
  guests.tokens.reserve(guests.tokens.size() + size_t(rows * (1 + width)));
  for (int64_t r = 0; r < rows; ++r, ++row) {
    guests.rows.push_back(row);
    guests.tokens.push_back(code_ordinary);
    for (int64_t c = 0; c < width; ++c) {
      const float number = numbers[size_t(r * width + c)];
      check(std::isfinite(number), "features", "number ", c, " of row ", r, " of a ", modality,
            " is not finite; the file is damaged");
      guests.tokens.push_back(code_of_number(number));
    }
  }
  batch.tokens.resize(batch.tokens.size() + size_t(rows * batch.token_width), 0);
  batch.offsets.back() += rows;
}

}  // namespace lithe
