/* Calls of c_threads.c from six threads, some of them in calls, for sanitizers. The status is 1 after a wrong result. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

void eqfuse_run(void (*chunk)(void *, int64_t), void *args, int64_t chunks, int64_t threads);
void eqfuse_start(const int64_t *limit);

enum { CALLERS = 6, CALLS = 2000, CHUNKS = 60, INNER = 10 };
static const int64_t limit = 1 << 30;

static void count(void *counts, int64_t i) { ((int *)counts)[i]++; }
static void nested(void *counts, int64_t i) { eqfuse_run(count, (int *)counts + INNER * i, INNER, 3); }

static void *call(void *number) {
    unsigned seed = (unsigned)(intptr_t)number;
    for (int i = 0; i < CALLS; i++) {
        int chunks = rand_r(&seed) % CHUNKS, inner = rand_r(&seed) % 3 ? 1 : INNER;
        int *counts = calloc(CHUNKS * INNER, sizeof *counts);
        eqfuse_run(inner == 1 ? count : nested, counts, chunks, 2 + rand_r(&seed) % 4);
        for (int j = 0; j < CHUNKS * INNER; j++)
            if (counts[j] != (j < chunks * inner))
                return number;
        free(counts);
        if (!(rand_r(&seed) % 50))
            usleep(rand_r(&seed) % 200);
    }
    return 0;
}

int main(void) {
    pthread_t callers[CALLERS];
    void *wrong, *any = 0;
    eqfuse_start(&limit);
    for (intptr_t i = 0; i < CALLERS; i++)
        pthread_create(&callers[i], 0, call, (void *)(i + 1));
    for (int i = 0; i < CALLERS; i++) {
        pthread_join(callers[i], &wrong);
        any = wrong ? wrong : any;
    }
    return any != 0;
}
