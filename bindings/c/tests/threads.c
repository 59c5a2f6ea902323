/* Interrupts from another thread, the poll function, progress, and one connection of many threads. */
#include "check.h"

#include <pthread.h>
#include <unistd.h>

static const char *const endless =
    "SELECT count(*) FROM generate_series(1, 1000000) AS a, generate_series(1, 1000000) AS b";

static void *interrupt_soon(void *unused) {
  (void)unused;
  usleep(300000);
  hypostyle_interrupt(connection);
  return NULL;
}

static int32_t poll_calls = 0;

static int32_t count_calls(void *context, const hypostyle_progress *progress) {
  CHECK(progress->size == sizeof *progress && progress->is_running);
  ++*(int32_t *)context;
  return *(int32_t *)context >= 3;
}

static void interrupts(void) {
  pthread_t thread;
  SIZED(hypostyle_progress, progress);
  CHECK(pthread_create(&thread, NULL, interrupt_soon, NULL) == 0);
  REFUSED(hypostyle_execute(connection, endless, HYPOSTYLE_NUL, NULL, &error), HYPOSTYLE_INTERRUPTED, "57014");
  pthread_join(thread, NULL);
  SAYS("SELECT 1", "1");
  OK(hypostyle_set_poll(connection, count_calls, &poll_calls, &error));
  REFUSED(hypostyle_execute(connection, endless, HYPOSTYLE_NUL, NULL, &error), HYPOSTYLE_INTERRUPTED, "57014");
  CHECK(poll_calls >= 3);
  OK(hypostyle_set_poll(connection, NULL, NULL, &error));
  SAYS("SELECT 1", "1");
  OK(hypostyle_get_progress(connection, &progress, &error));
  CHECK(progress.size == sizeof progress && !progress.is_running && progress.seconds >= 0);
}

static void *work(void *number) {
  hypostyle_error *mine = NULL;
  for (int round = 0; round < 20; round++) {
    hypostyle_result *result = NULL;
    int32_t has_row = 0;
    int64_t value = 0;
    char sql[100];
    snprintf(sql, sizeof sql, "SELECT sum(value) + %d FROM generate_series(1, 1000)", *(int *)number);
    if (hypostyle_execute(connection, sql, HYPOSTYLE_NUL, &result, &mine) != HYPOSTYLE_OK ||
        hypostyle_result_step(result, &has_row, &mine) != HYPOSTYLE_OK ||
        hypostyle_row_int64(result, 0, &value, &mine) != HYPOSTYLE_OK || value != 500500 + *(int *)number) {
      fprintf(stderr, "thread %d: %s\n", *(int *)number, hypostyle_error_message(mine));
      hypostyle_error_free(&mine);
      return number;
    }
    hypostyle_result_free(&result);
  }
  return NULL;
}

static void many_threads(void) {
  pthread_t threads[8];
  int numbers[8];
  for (int thread = 0; thread < 8; thread++) {
    numbers[thread] = thread;
    CHECK(pthread_create(&threads[thread], NULL, work, &numbers[thread]) == 0);
  }
  for (int thread = 0; thread < 8; thread++) {
    void *failed = NULL;
    pthread_join(threads[thread], &failed);
    CHECK(failed == NULL);
  }
}

int main(int argc, char **argv) {
  begin(argc, argv);
  interrupts();
  many_threads();
  /* Their first statements begin one transaction. */
  OK(hypostyle_set_autocommit(connection, 0, &error));
  many_threads();
  CHECK(hypostyle_transaction_state(connection) == HYPOSTYLE_IN_TRANSACTION);
  OK(hypostyle_commit(connection, &error));
  return finish();
}
