// Signals may come while a product runs.
#include <gtest/gtest.h>

#include <csignal>
#include <ctime>

#include "lithe/base/stop.h"
#include "lithe/base/threads.h"
#include "lithe/kernels/gemm/gemm.h"
#include "tests/kernels/sweep.h"

namespace lithe::kernels {
namespace {

// Products of a training step, while SIGUSR1 comes ten thousand times a second.
void multiply_under_signals() {
  set_threads(1);
  catch_stop_signals();
  sigevent event = {};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGUSR1;
  timer_t timer = {};
  timer_create(CLOCK_MONOTONIC, &event, &timer);
  const itimerspec often = {.it_interval = {.tv_sec = 0, .tv_nsec = 100'000},
                            .it_value = {.tv_sec = 0, .tv_nsec = 100'000}};
  timer_settime(timer, 0, &often, nullptr);
  const Tensor rows = zeros({2048, 192}, DType::f32, Device::cpu), wide = zeros({2048, 512}, DType::f32, Device::cpu),
               weight = zeros({192, 512}, DType::f32, Device::cpu);
  for (int i = 0; i < 100; ++i) {
    gemm({.a = rows, .b = weight, .c = wide});
    gemm({.a = wide, .b = weight, .c = rows, .transpose_b = true});
    gemm({.a = rows, .b = wide, .c = weight, .transpose_a = true});
  }
  timer_delete(timer);
  std::_Exit(stop_signal() == SIGUSR1 ? 0 : 1);
}

TEST(SignalsDeathTest, DoNotDamageTheHeap) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(multiply_under_signals(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace lithe::kernels
