/* The threads that run native kernels: a job is a function, its arguments, and how many chunks it has.

   A caller publishes its job in a slot and works through the chunks itself; workers that come in time help. Whoever
   wants a chunk takes its number from the job's ticket. So a caller waits only for chunks that another thread is at
   this moment working on, never for a worker to wake up; calls may come from many threads at once, and from chunks.

   The caller works from the first chunk up, workers from the last one down: where kernel after kernel has chunks of the
   same arrays, each core finds most of its share in its own cache.

   A ticket and a team hold the generation of the slot's job beside a number. A worker reads what it needs of the job,
   and then takes a number by compare-and-swap: that succeeds only if the job is still the one that it has read of.
   From then on until the chunk is done the job cannot end, and all its fields hold.

   Workers look for jobs for SPIN nanoseconds after the last one is over, and then sleep. A guest takes 50 to 100 us to
   wake one, in which a small kernel is done: so nobody sleeps while the last chunks of a job are at work, unless these
   take longer than PATIENCE. They start at the first need, get no
   signals from outside, and take over the caller's floating-point state and the CPUs it may use. A forked child starts anew.

   A guest's kernel may take an idle CPU for one that the host has given away, and wake a worker on the caller's own,
   where it waits until some balance moves it, tens of milliseconds later. So a caller keeps workers off its CPU when it
   wakes them. */

#define _GNU_SOURCE
#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

enum { SLOTS = 64, SPIN = 50000, PATIENCE = 500000, PAUSES = 32, STACK = 4 << 20, PLACED = 64 };
#define CLOSED UINT32_MAX /* the number of a ticket or a team from which nobody takes one */
#define MOST ((int64_t)1 << 30) /* chunks of a job that is shared: a ticket's number must not overflow */

typedef void chunk_fn(void *args, int64_t index);

struct job {
    _Alignas(128) _Atomic uint64_t ticket; /* generation, and chunks that are taken */
    _Atomic uint64_t team;                 /* generation, and workers that have joined */
    _Atomic uint32_t count, helpers;       /* chunks; workers that may join */
    _Atomic uint32_t up, down;             /* chunks that the caller has taken, and workers */
    _Atomic int taken;                     /* by a caller */
    chunk_fn *chunk;
    void *args;
    fenv_t arithmetic;
#ifdef __linux__
    cpu_set_t cpus;
#endif
    _Alignas(128) _Atomic uint32_t done; /* chunks */
    _Atomic int waiting;                 /* the caller sleeps until all are done */
};

struct worker {
    pthread_t thread;
    int asleep, moved; /* moved: kept off a CPU when it was woken */
};

static struct pool {
    struct worker placed[PLACED]; /* the first workers; under the mutex */
    struct job jobs[SLOTS];
    _Alignas(128) _Atomic uint32_t used;      /* slots that have ever been taken */
    _Atomic uint32_t published;               /* jobs: changes with each */
    _Alignas(128) _Atomic uint32_t asleep;    /* workers */
    _Atomic uint32_t workers, running;        /* running: jobs that are shared */
    pthread_mutex_t mutex;
    pthread_cond_t work, end;
} pool = {.mutex = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER, .end = PTHREAD_COND_INITIALIZER};

static const int64_t *limit; /* threads that the user allows */

static void rest(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
}

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Look for jobs other than those of which there were `seen`. Whether there is one. */
static int comes(uint32_t seen) {
    int64_t begin = now(), end = begin + SPIN;
    for (int64_t time = begin; time < end; time = now()) {
        for (int i = 0; i < PAUSES; i++) {
            if (atomic_load_explicit(&pool.published, memory_order_acquire) != seen)
                return 1;
            rest();
        }
        if (atomic_load_explicit(&pool.running, memory_order_relaxed) && time < begin + PATIENCE)
            end = time + SPIN;
    }
    return 0;
}

static uint32_t number(uint64_t word) { return (uint32_t)word; }
static uint32_t generation(uint64_t word) { return (uint32_t)(word >> 32); }

/* Do chunk `index` of a job that one has a ticket for. */
static void work_on(struct job *job, uint32_t index, uint32_t count) {
    job->chunk(job->args, index);
    if (atomic_fetch_add(&job->done, 1) + 1 == count && atomic_load(&job->waiting)) {
        pthread_mutex_lock(&pool.mutex);
        pthread_cond_broadcast(&pool.end);
        pthread_mutex_unlock(&pool.mutex);
    }
}

/* Take a chunk of the job of that generation. CLOSED where there is none, or the job is over. */
static uint32_t take(struct job *job, uint32_t which, int calls, uint32_t *count) {
    uint64_t ticket = atomic_load_explicit(&job->ticket, memory_order_acquire);
    do {
        *count = atomic_load_explicit(&job->count, memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire);
        if (generation(ticket) != which || number(ticket) == CLOSED || number(ticket) >= *count)
            return CLOSED;
    } while (!atomic_compare_exchange_weak(&job->ticket, &ticket, ticket + 1));
    return calls ? atomic_fetch_add(&job->up, 1) : *count - 1 - atomic_fetch_add(&job->down, 1);
}

/* Join the team of a job. Whether there was a place. */
static int join(struct job *job, uint32_t *which) {
    uint64_t team = atomic_load_explicit(&job->team, memory_order_acquire);
    do {
        uint32_t places = atomic_load_explicit(&job->helpers, memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire);
        if (number(team) == CLOSED || number(team) >= places)
            return 0;
    } while (!atomic_compare_exchange_weak(&job->team, &team, team + 1));
    *which = generation(team);
    return 1;
}

#ifdef __linux__
static _Thread_local cpu_set_t mine; /* the CPUs that a worker may use */

/* A worker falls asleep, or wakes. */
static void place(struct worker *self, int sleeps) {
    if (!self)
        return;
    self->asleep = sleeps;
    if (self->moved)
        CPU_ZERO(&mine);
    self->moved = 0;
}

/* Keep workers that sleep off the caller's CPU. */
static void spread(const struct job *job) {
    cpu_set_t others = job->cpus;
    int here = sched_getcpu();
    uint32_t workers = atomic_load(&pool.workers);
    if (here < 0 || here >= CPU_SETSIZE)
        return;
    CPU_CLR(here, &others);
    for (uint32_t i = 0; i < workers && i < PLACED; i++)
        if (pool.placed[i].asleep && CPU_COUNT(&others))
            pool.placed[i].moved = !pthread_setaffinity_np(pool.placed[i].thread, sizeof others, &others);
}
#else
static void place(struct worker *self, int sleeps) { (void)self, (void)sleeps; }
static void spread(const struct job *job) { (void)job; }
#endif

static void adopt(const struct job *job) {
    fesetenv(&job->arithmetic);
#ifdef __linux__
    if (!CPU_EQUAL(&mine, &job->cpus) && CPU_COUNT(&job->cpus)) {
        mine = job->cpus;
        sched_setaffinity(0, sizeof mine, &mine);
    }
#endif
}

/* Help with every job there is. Whether there was one. */
static int help(void) {
    int helped = 0;
    uint32_t used = atomic_load(&pool.used), which, count, index;
    for (struct job *job = pool.jobs; job < pool.jobs + used; job++) {
        if (!join(job, &which))
            continue;
        for (int begun = 0; (index = take(job, which, 0, &count)) != CLOSED; begun = helped = 1) {
            if (!begun)
                adopt(job);
            work_on(job, index, count);
        }
    }
    return helped;
}

static void *serve(void *worker) {
    struct worker *self = worker;
    for (;;) {
        uint32_t seen = atomic_load(&pool.published);
        if (help() || comes(seen))
            continue;
        pthread_mutex_lock(&pool.mutex);
        atomic_fetch_add(&pool.asleep, 1);
        place(self, 1);
        while (atomic_load(&pool.published) == seen)
            pthread_cond_wait(&pool.work, &pool.mutex);
        place(self, 0);
        atomic_fetch_sub(&pool.asleep, 1);
        pthread_mutex_unlock(&pool.mutex);
    }
    return worker;
}

/* Start workers until there are `wanted`, or the system has no more threads. */
static void hire(uint32_t wanted) {
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK);
    sigfillset(&all);
    sigdelset(&all, SIGSEGV), sigdelset(&all, SIGBUS), sigdelset(&all, SIGFPE), sigdelset(&all, SIGILL);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_mutex_lock(&pool.mutex);
    for (uint32_t n; (n = atomic_load(&pool.workers)) < wanted; atomic_fetch_add(&pool.workers, 1)) {
        struct worker *self = n < PLACED ? &pool.placed[n] : 0;
        if (pthread_create(&thread, &attributes, serve, self))
            break;
        if (self)
            self->thread = thread;
    }
    pthread_mutex_unlock(&pool.mutex);
    pthread_sigmask(SIG_SETMASK, &before, 0);
    pthread_attr_destroy(&attributes);
}

/* Wake as many workers as may help. */
static void wake(const struct job *job, uint32_t helpers) {
    atomic_fetch_add(&pool.published, 1);
    uint32_t asleep = atomic_load(&pool.asleep);
    if (!asleep)
        return;
    pthread_mutex_lock(&pool.mutex); /* so that no worker is between its last look and its sleep */
    spread(job);
    pthread_mutex_unlock(&pool.mutex);
    for (uint32_t i = 0; i < helpers && i < asleep; i++)
        pthread_cond_signal(&pool.work);
}

/* A slot that no other caller uses. NULL where all are in use. */
static struct job *claim(void) {
    for (uint32_t i = 0; i < SLOTS; i++)
        if (!atomic_load_explicit(&pool.jobs[i].taken, memory_order_relaxed) && !atomic_exchange(&pool.jobs[i].taken, 1)) {
            uint32_t used = atomic_load(&pool.used);
            while (used <= i && !atomic_compare_exchange_weak(&pool.used, &used, i + 1))
                ;
            return &pool.jobs[i];
        }
    return 0;
}

/* Let workers see a job in a slot that this caller has. Its generation. */
static uint32_t publish(struct job *job, chunk_fn *chunk, void *args, uint32_t count, uint32_t helpers) {
    uint64_t next = (uint64_t)(generation(atomic_load(&job->ticket)) + 1) << 32;
    atomic_store(&job->ticket, next | CLOSED);
    atomic_store(&job->team, next | CLOSED);
    atomic_thread_fence(memory_order_release);
    job->chunk = chunk, job->args = args;
    fegetenv(&job->arithmetic);
    atomic_store_explicit(&job->count, count, memory_order_relaxed);
    atomic_store_explicit(&job->helpers, helpers, memory_order_relaxed);
    atomic_store(&job->done, 0);
    atomic_store(&job->up, 0);
    atomic_store(&job->down, 0);
    atomic_store(&job->waiting, 0);
    atomic_store(&job->ticket, next);
    atomic_store(&job->team, next);
    return generation(next);
}

/* Wait until all chunks are done. */
static void finish(struct job *job, uint32_t count) {
    for (int64_t end = now() + PATIENCE; now() < end;)
        for (int i = 0; i < PAUSES; i++) {
            if (atomic_load(&job->done) == count)
                return;
            rest();
        }
    pthread_mutex_lock(&pool.mutex);
    atomic_store(&job->waiting, 1);
    while (atomic_load(&job->done) != count)
        pthread_cond_wait(&pool.end, &pool.mutex);
    pthread_mutex_unlock(&pool.mutex);
}

/* Threads beside the caller that may work for it; their CPUs are noted in `job`. */
static int64_t allowed(struct job *job, int64_t threads) {
    if (limit && threads > *(const volatile int64_t *)limit)
        threads = *(const volatile int64_t *)limit;
#ifdef __linux__
    if (sched_getaffinity(0, sizeof job->cpus, &job->cpus))
        CPU_ZERO(&job->cpus); /* more CPUs than a set holds */
    else if (threads > CPU_COUNT(&job->cpus))
        threads = CPU_COUNT(&job->cpus);
#endif
    return threads - 1;
}

/* Work through a job together with up to `helpers` workers. */
static void share(struct job *job, chunk_fn *chunk, void *args, uint32_t count, uint32_t helpers) {
    if (helpers > atomic_load(&pool.workers))
        hire(helpers);
    atomic_fetch_add(&pool.running, 1);
    uint32_t which = publish(job, chunk, args, count, helpers), index, same;
    wake(job, helpers);
    while ((index = take(job, which, 1, &same)) != CLOSED)
        work_on(job, index, count);
    finish(job, count);
    atomic_fetch_sub(&pool.running, 1);
}

/* Run chunk(args, i) for all i from 0 to chunks - 1, on `threads` threads at most. */
void eqfuse_run(chunk_fn *chunk, void *args, int64_t chunks, int64_t threads) {
    struct job *job = threads > 1 && chunks > 1 && chunks <= MOST ? claim() : 0;
    int64_t helpers = job ? allowed(job, threads < chunks ? threads : chunks) : 0;
    if (helpers > 0)
        share(job, chunk, args, chunks, helpers);
    else
        for (int64_t i = 0; i < chunks; i++)
            chunk(args, i);
    if (job)
        atomic_store(&job->taken, 0);
}

/* A child has none of its parent's workers, and its calls are not its own. */
static void forked(void) {
    memset(&pool, 0, sizeof pool);
    pool.mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    pool.work = pool.end = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
}

/* Once in a process, before the first run. `allowed`: where the most threads that the user allows stand. */
void eqfuse_start(const int64_t *allowed_threads) {
    limit = allowed_threads;
    pthread_atfork(0, 0, forked);
}

int64_t eqfuse_workers(void) { return atomic_load(&pool.workers); }
