// The scheduler of CUDA's threads on a CPU. Compiled once, after `cudasim.hpp`, and linked to every kernel. Next stop:
// cudasim.py.
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <cmath>
#include <vector>
#ifndef __x86_64__
#include <ucontext.h>
#endif

namespace eqf {
Fibre fibres[MAX_THREADS], *current;
dim3 grid_dim, block_dim;
uint3 block_idx;
static unsigned n_threads;
static int votes;
unsigned long long snap[MAX_THREADS];
static unsigned long long slot[MAX_THREADS];  // two: a released lane may already be at its next shuffle
__align__(16) unsigned char dyn_shared[227 * 1024];
static char* stacks;
static char* message;
static size_t message_size;
static void (*body)(void*);
static void* body_arguments;
static std::vector<size_t> chosen;  // the blocks to run, if not all

static void begin_products(size_t dynamic_bytes);  // by wgmma
static void end_products();
#ifdef EQF_COUNTED
static void crosses();
static void starts();
static void waits(bool after);  // at a barrier
static void copies_from(const void* address);
#else
static void crosses() {}
static void starts() {}
static void waits(bool) {}
static void copies_from(const void*) {}
void fences() {}
void meets_blocks(bool) {}
#endif

#ifdef __x86_64__
extern "C" __attribute__((visibility("hidden"))) void eqf_switch(void** save, void* to);
asm(".text\n.hidden eqf_switch\n.globl eqf_switch\neqf_switch:\n"
    "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
    "mov %rsp,(%rdi)\nmov %rsi,%rsp\n"
    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n");
static void *scheduler_sp, *fibre_sp[MAX_THREADS];
static void enter(unsigned t) { eqf_switch(&scheduler_sp, fibre_sp[t]); }
static void leave() { crosses(); eqf_switch(&fibre_sp[here()], scheduler_sp); }
static void prepare(unsigned t, void (*entry)()) {
    void** top = (void**)(stacks + size_t(t + 1) * STACK);  // below it: a zero return address, the entry, six registers
    memset(top - 8, 0, 8 * sizeof(void*));
    top[-2] = (void*)entry;
    fibre_sp[t] = top - 8;
}
#else
static ucontext_t scheduler_context, fibre_context[MAX_THREADS];
static void enter(unsigned t) { swapcontext(&scheduler_context, &fibre_context[t]); }
static void leave() { crosses(); swapcontext(&fibre_context[here()], &scheduler_context); }
static void prepare(unsigned t, void (*entry)()) {
    getcontext(&fibre_context[t]);
    fibre_context[t].uc_stack.ss_sp = stacks + size_t(t) * STACK;
    fibre_context[t].uc_stack.ss_size = STACK;
    makecontext(&fibre_context[t], entry, 0);
}
#endif

static void fibre_main() {
    body(body_arguments);
    current->state = DONE;
    for (;;) leave();
}

// Ends the launch with a message: the scheduler returns as soon as it sees one.
void fail(const char* format, ...) {
    int n = 0;
    if (current)
        n = snprintf(message, message_size, "block (%u,%u,%u) thread (%u,%u,%u): ", block_idx.x, block_idx.y, block_idx.z,
                     current->idx.x, current->idx.y, current->idx.z);
    va_list values;
    va_start(values, format);
    vsnprintf(message + n, message_size - n, format, values);
    va_end(values);
    if (current) leave();
}

int barrier(int predicate, int line) {
    current->state = BLOCK;
    current->line = line;
    current->vote = predicate != 0;
    waits(false);
    leave();
    waits(true);
    return votes;
}

unsigned meet(unsigned mask, unsigned long long value, int line) {
    unsigned t = here(), lane = t % 32;
    if (!(mask >> lane & 1)) fail("warp operation on line %d: mask 0x%08x leaves out its caller, lane %u", line, mask, lane);
    slot[t] = value;
    current->state = WARP;
    current->mask = mask;
    current->line = line;
    leave();
    return t - lane;
}

unsigned ballot(unsigned mask, int predicate, int line) {
    unsigned bits = 0;
    over_lanes(mask, predicate != 0, line, [&](unsigned lane, unsigned long long v) { bits |= unsigned(v) << lane; });
    return bits;
}

// ---- the scheduler: a warp runs as far as it can before the next starts, which is what shows a missing barrier ------
extern "C" __attribute__((weak, visibility("hidden"))) char __start_eqfshared[], __stop_eqfshared[];

static void poison(size_t dynamic_bytes) {  // 0xFF is NaN in every float type and -1 in every int
    if (__start_eqfshared) memset(__start_eqfshared, 0xFF, __stop_eqfshared - __start_eqfshared);
    memset(dyn_shared, 0xFF, dynamic_bytes);
}

static std::vector<size_t> permutation(size_t n, unsigned seed, unsigned salt) {
    std::vector<size_t> order(n);
    for (size_t i = 0; i < n; i++) order[i] = seed == 1 ? n - 1 - i : i;
    unsigned long long state = seed * 0x9E3779B97F4A7C15ull + salt;
    for (size_t i = n; seed > 1 && i > 1; i--) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        std::swap(order[i - 1], order[(state >> 33) % i]);
    }
    return order;
}

static int waiting_text(char* out, size_t size) {
    int n = 0;
    bool told[MAX_THREADS] = {};
    for (unsigned t = 0; t < n_threads; t++) {
        if (told[t]) continue;
        unsigned count = 0;
        for (unsigned u = t; u < n_threads; u++) {
            bool same = fibres[u].state == fibres[t].state && (fibres[t].state == DONE || fibres[u].line == fibres[t].line) &&
                        (fibres[t].state != WARP || fibres[u].mask == fibres[t].mask);
            if (same) told[u] = true, count++;
        }
        if (n >= int(size)) return n;
        const Fibre& f = fibres[t];
        n += snprintf(out + n, size - n, "%s%u thread(s) ", n ? ", " : "", count);
        if (n >= int(size)) return n;
        n += f.state == DONE    ? snprintf(out + n, size - n, "exited (first: %u)", t)
             : f.state == BLOCK ? snprintf(out + n, size - n, "at __syncthreads on line %d (first: %u)", f.line, t)
                                : snprintf(out + n, size - n, "at a warp operation on line %d with mask 0x%08x (first: %u)",
                                           f.line, f.mask, t);
    }
    return n;
}

static void stuck(const char* what) {
    char text[700];
    waiting_text(text, sizeof text);
    fail("block (%u,%u,%u) %s: %s", block_idx.x, block_idx.y, block_idx.z, what, text);
}

static void release_met_lanes(unsigned first, unsigned lanes) {
    for (unsigned lane = 0; lane < lanes; lane++) {
        if (fibres[first + lane].state != WARP) continue;
        unsigned mask = fibres[first + lane].mask, came = 0;
        for (unsigned u = 0; u < lanes; u++)
            if (fibres[first + u].state == WARP && fibres[first + u].mask == mask) came |= 1u << u;
        if ((came & mask) != mask) continue;
        for (unsigned u = 0; u < lanes; u++)
            if (mask >> u & 1) snap[first + u] = slot[first + u], fibres[first + u].state = RUN;
    }
}

// Asynchronous copies of 16 bytes: they land when their thread waits for their group. Until then the place holds NaN, so
// whoever reads too early, or still reads what lay there before, shows.
struct Copy {
    unsigned char* to;
    const unsigned char* from;  // none: zeros
};
static std::vector<std::vector<Copy>> copies[MAX_THREADS];  // by group; the last one is not yet committed

void copy_async(void* to, const void* from, bool some, int line) {
    if ((size_t)to % 16 || (size_t)from % 16) fail("asynchronous copy on line %d: not a multiple of 16 bytes", line);
    memset(to, 0xFF, 16);
    if (some) copies_from(from);
    copies[here()].back().push_back({(unsigned char*)to, some ? (const unsigned char*)from : nullptr});
}
void commit() { copies[here()].emplace_back(); }
void wait(size_t later) {
    auto& groups = copies[here()];
    while (groups.size() > later + 1) {  // the last one is not committed
        for (const Copy& copy : groups.front())
            for (int i = 0; i < 16; i++) copy.to[i] = copy.from ? copy.from[i] : 0;
        groups.erase(groups.begin());
    }
}

static bool run_block(unsigned seed, size_t dynamic_bytes) {
    auto warps = permutation((n_threads + 31) / 32, seed, 1);
    auto lanes = permutation(32, seed, 2);
    poison(dynamic_bytes);
    starts();
    begin_products(dynamic_bytes);
    for (unsigned t = 0; t < n_threads; t++) {
        fibres[t] = {};
        fibres[t].idx = {t % block_dim.x, t / block_dim.x % block_dim.y, t / block_dim.x / block_dim.y};
        copies[t].assign(1, {});
        prepare(t, fibre_main);
    }
    for (;;) {
        for (size_t warp : warps) {
            unsigned first = unsigned(warp) * 32, size = n_threads - first < 32 ? n_threads - first : 32;
            for (bool ran = true; ran;) {
                ran = false;
                for (size_t lane : lanes) {
                    if (lane >= size || fibres[first + lane].state != RUN) continue;
                    ran = true;
                    current = &fibres[first + lane];
                    enter(first + unsigned(lane));
                    current = nullptr;
                    if (message[0]) return false;
                }
                release_met_lanes(first, size);
            }
        }
        unsigned done = 0, at_barrier = 0, other_line = 0;
        votes = 0;
        for (unsigned t = 0; t < n_threads; t++) {
            done += fibres[t].state == DONE;
            at_barrier += fibres[t].state == BLOCK;
            other_line += fibres[t].line != fibres[0].line;
            votes += fibres[t].vote;
        }
        if (done == n_threads) return end_products(), !message[0];
        if (at_barrier != n_threads) return stuck("is stuck"), false;
        if (other_line) return stuck("waits at different barriers"), false;
        for (unsigned t = 0; t < n_threads; t++) fibres[t].state = RUN, fibres[t].vote = 0;
    }
}

// ---- faults: a bad address or a trap of -fsanitize becomes a returned error ----------------------------------------
static const int traps[TRAPS] = {SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE};
static sigjmp_buf on_fault;
static pthread_t owner;

static void handle_fault(int signal_number) {
    if (!current || !pthread_equal(owner, pthread_self())) {  // not ours: let it happen again with the default action
        signal(signal_number, SIG_DFL);
        return;
    }
    siglongjmp(on_fault, signal_number);
}

static void run_grid(unsigned seed, size_t dynamic_bytes) {
    size_t blocks = size_t(grid_dim.x) * grid_dim.y * grid_dim.z;
    for (size_t b : chosen.empty() ? permutation(blocks, seed, 3) : chosen) {
        block_idx = {unsigned(b % grid_dim.x), unsigned(b / grid_dim.x % grid_dim.y),
                     unsigned(b / grid_dim.x / grid_dim.y)};
        if (!run_block(seed, dynamic_bytes)) return;
    }
}

static void run_guarded(unsigned seed, size_t dynamic_bytes) {
    static char alternate[65536];
    stack_t alternate_stack = {}, old_stack;
    alternate_stack.ss_sp = alternate;
    alternate_stack.ss_size = sizeof alternate;
    sigaltstack(&alternate_stack, &old_stack);
    struct sigaction action = {}, old_actions[TRAPS];
    action.sa_handler = handle_fault;
    action.sa_flags = SA_ONSTACK;
    for (int i = 0; i < TRAPS; i++) sigaction(traps[i], &action, &old_actions[i]);
    owner = pthread_self();
    int fault = sigsetjmp(on_fault, 1);
    if (!fault) {
        run_grid(seed, dynamic_bytes);
    } else {
        Fibre* at = current;
        current = nullptr;
        fail("block (%u,%u,%u) thread (%u,%u,%u): %s", block_idx.x, block_idx.y, block_idx.z, at->idx.x, at->idx.y, at->idx.z,
             fault == SIGILL || fault == SIGTRAP
                 ? "misaligned access, an index outside a local or shared array, or an integer that overflows"
             : fault == SIGFPE                   ? "integer division by zero"
                                                 : "illegal memory address, or more than 60 KB of local variables");
    }
    for (int i = 0; i < TRAPS; i++) sigaction(traps[i], &old_actions[i], nullptr);
    sigaltstack(&old_stack, nullptr);
}

// The lowest page of each stack is a guard. All libraries of a process share one region: it takes 2048 of the 65530
// mappings that Linux allows.
static void* reserve_stacks() {
    void* memory = mmap(nullptr, size_t(MAX_THREADS) * STACK, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    for (unsigned t = 0; t < MAX_THREADS; t++) mprotect((char*)memory + size_t(t) * STACK, PAGE, PROT_NONE);
    return memory;
}

void run(void (*it)(void*), void* arguments, const Launch& how) {
    body = it;
    body_arguments = arguments;
    grid_dim = dim3(how.gb[0], how.gb[1], how.gb[2]);
    block_dim = dim3(how.gb[3], how.gb[4], how.gb[5]);
    n_threads = how.gb[3] * how.gb[4] * how.gb[5];
    chosen.assign(how.blocks, how.blocks + how.n_blocks);
    message = how.text;
    message_size = how.text_size;
    message[0] = 0;
    current = nullptr;
    stacks = (char*)how.stacks;
    if (!stacks) return fail("no memory for thread stacks");
    run_guarded(how.seed, how.dynamic_bytes);
}

// What glibc does not have. erfc falls from 2 to 0, so its inverse is found by halving.
double inverse_of_erfc(long double y) {
    if (fabsl(1 - y) < 1e-4L) return inverse_of_erf(1 - y);
    if (!(y > 0 && y < 2)) return y == 0 ? HUGE_VAL : y == 2 ? -HUGE_VAL : __builtin_nan("");
    long double low = -7, high = 28;
    for (int i = 0; i < 100; i++) (erfcl((low + high) / 2) > y ? low : high) = (low + high) / 2;
    return low;
}
double inverse_of_erf(long double y) {
    if (!(fabsl(y) <= 1)) return __builtin_nan("");
    return fabsl(y) < 1e-4L ? y * (1 + y * y * 0.26179938779914943654L) * 0.88622692545275801365L
         : y > 0            ? inverse_of_erfc(1 - y)
                            : -inverse_of_erfc(1 + y);
}
double scaled_erfc(long double x) {
    if (x < 100) return expl(x * x) * erfcl(x);
    return 0.56418958354775628695L / x * (1 - 0.5L / (x * x));
}
double bessel_i(int order, double x) {
    if (x != x) return x;
    long double size = fabsl(x), found = 1, term = 1;
    if (size < 500) found = std::cyl_bessel_i((long double)order, size);
    else {  // the asymptotic series
        for (int k = 1; k < 8; k++) found += term *= ((2 * k - 1) * (2 * k - 1) - 4 * order) / (8 * k * size);
        found = size < 1000 ? found * expl(size) / sqrtl(6.28318530717958647693L * size) : HUGE_VALL;
    }
    return order && x < 0 ? -found : found;
}
}  // namespace eqf

EQF_VISIBLE void* eqf_reserve_stacks() { return eqf::reserve_stacks(); }
