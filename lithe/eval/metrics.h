// How much quality a cheaper model keeps, and what its parameters buy [TH 2.4, 3.4.6].
#pragma once

namespace lithe {

enum class Better { higher, lower };  // accuracy; perplexity

/// Performance retention ratio in percent: 100 score / reference, or 100 (2 - score / reference) where lower is better.
/// Below zero when a lower-is-better score is more than twice the reference. The reference must be above 0.
double prr(double score, double reference, Better better);

/// Performance elasticity of parameters: the relative gain in score over the relative growth in parameters, both
/// against a base model; with its sign turned where lower is better. NaN where it is undefined: equal parameters.
double peop(double score, double base_score, double parameters, double base_parameters, Better better);

/// Parameter compression rate in percent: 100 (1 - parameters / base). Of all parameters, or of the embeddings' alone
/// with the base's embeddings. Below zero when there are more than in the base, which must have some.
double pcr(double parameters, double base_parameters);

/// Proportion of the embeddings' parameters in percent: 100 embeddings / parameters.
double poep(double embedding_parameters, double parameters);

/// How many times faster than the base: base time / time. Both must be above 0.
double speed_up(double time, double base_time);

}  // namespace lithe
