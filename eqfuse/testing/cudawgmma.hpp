// Products by warpgroups (wgmma) on a CPU, as PTX defines them. In: descriptors of operands in dynamic shared memory, the
// sums of each thread. Out: sums, from when the thread waits for them, until when they are NaN. Compiled with
// cudasim.cpp, behind it. What is caught: operands that threads have written without a fence of proxies, or write while
// they are read; warps that do not go together; sums that no fence has handed over.
namespace eqf {
enum { WARPGROUP = 128, COLUMNS = 128, SUMS = COLUMNS / 2, ROWS = 64, TERMS = 16 };
// Where dynamic shared memory starts for a GPU, which promises no more than a multiple of 16
static const unsigned DYNAMIC_START = 1024 + 16;
static unsigned char seen[sizeof dyn_shared];  // as the asynchronous proxy sees it: as it was at the last fence
static size_t seen_bytes;

unsigned shared_address(const void* at) { return unsigned((const unsigned char*)at - dyn_shared) + DYNAMIC_START; }
void publish() { memcpy(seen, dyn_shared, seen_bytes); }

struct Operand {
    unsigned long long descriptor;
    bool turned;  // a row holds rows or columns, not terms
    size_t place(unsigned row, unsigned term) const {
        auto bytes = [this](int bit) { return size_t(descriptor >> bit & 0x3fff) * 16; };
        size_t at = bytes(0);
        at += turned ? row / 64 * bytes(16) + row % 64 * 2 + term / 8 * bytes(32) + term % 8 * 128
                     : row / 8 * bytes(32) + row % 8 * 128 + term * 2;
        return at ^ (at >> 7 & 7) << 4;
    }
};
struct WarpgroupProduct {
    Operand a, b;
    bool brain;
    int line;
    std::vector<unsigned short> read;  // of `a`, then of `b`
    float left[ROWS][TERMS], right[TERMS][COLUMNS];
};
struct Sums {  // of a thread
    float now[SUMS];
    float* at;
    std::vector<std::vector<size_t>> groups;  // numbers of products under way; the last group is not yet committed
    size_t started;
    bool handed;  // by wgmma.fence, since the thread could use them
    bool busy() const {
        for (auto& group : groups)
            if (!group.empty()) return true;
        return false;
    }
};
static std::vector<WarpgroupProduct> products[MAX_THREADS / WARPGROUP];  // in their order
static Sums sums[MAX_THREADS];

static void begin_products(size_t dynamic_bytes) {
    seen_bytes = dynamic_bytes;
    memset(seen, 0xFF, seen_bytes);
    for (auto& p : products) p.clear();
    for (Sums& s : sums) s.groups.assign(1, {}), s.started = 0, s.handed = false;
}

static std::vector<unsigned short> operands_of(const WarpgroupProduct& p, const unsigned char* memory) {
    std::vector<unsigned short> read;
    for (const Operand* o : {&p.a, &p.b})
        for (unsigned row = 0; row < (o == &p.a ? ROWS : COLUMNS); row++)
            for (unsigned term = 0; term < TERMS; term++) {
                size_t at = o->place(row, term) - DYNAMIC_START;
                if (at >= seen_bytes) fail("wgmma on line %d reads outside of dynamic shared memory", p.line);
                read.push_back(*(const unsigned short*)(memory + at));
            }
    return read;
}

static void start(WarpgroupProduct& p) {
    for (const Operand* o : {&p.a, &p.b})
        if (o->descriptor >> 62 != 1 || o->descriptor >> 49 & 7)
            fail("wgmma on line %d: the emulator knows the 128-byte swizzle alone, and no base offset", p.line);
    p.read = operands_of(p, dyn_shared);
    if (p.read != operands_of(p, seen))
        fail("wgmma on line %d reads what threads have written, without fence.proxy.async behind it", p.line);
    for (size_t i = 0; i < p.read.size(); i++) {
        float value = p.brain ? float(bits_as<__nv_bfloat16>(p.read[i])) : float(bits_as<__half>(p.read[i]));
        size_t row = i / TERMS, term = i % TERMS;
        (row < ROWS ? p.left[row][term] : p.right[term][row - ROWS]) = value;
    }
}

void wgmma_fence(int line) {
    meet(0xffffffffu, 0, line);
    sums[here()].handed = true;
}
void wgmma(float* d, unsigned long long a, unsigned long long b, bool brain, bool a_turned, bool b_turned, int line) {
    Sums& own = sums[here()];
    auto& all = products[here() / WARPGROUP];
    for (unsigned long long descriptor : {a, b})
        over_lanes(0xffffffffu, descriptor, line, [&](unsigned, unsigned long long other) {
            if (other != descriptor) fail("wgmma on line %d: lanes of a warp give different descriptors", line);
        });
    if (n_threads % WARPGROUP) fail("wgmma on line %d: %u threads are no warpgroups of 128", line, n_threads);
    if (!own.handed) fail("wgmma on line %d without wgmma.fence since the thread could use the sums", line);
    if (own.started == all.size()) {
        all.push_back({{a, a_turned}, {b, b_turned}, brain, line});
        start(all.back());
    }
    const WarpgroupProduct& p = all[own.started];
    if (p.a.descriptor != a || p.b.descriptor != b || p.line != line)
        fail("wgmma on line %d: warps of a warpgroup give different descriptors", line);
    if (own.busy() && own.at != d) fail("wgmma on line %d: the emulator knows one array of sums at a time", line);
    if (!own.busy()) memcpy(own.now, d, sizeof own.now);
    own.at = d;
    memset(d, 0xFF, sizeof own.now);
    own.groups.back().push_back(own.started++);
}
void wgmma_commit(int line) {
    meet(0xffffffffu, 0, line);
    sums[here()].groups.emplace_back();
}
void wgmma_wait(size_t later, int line) {
    Sums& own = sums[here()];
    bool was_busy = own.busy();
    unsigned row = here() % WARPGROUP / 32 * 16 + here() % 32 / 4, column = here() % 4 * 2;
    while (own.groups.size() > later + 1) {  // the last one is not committed
        for (size_t number : own.groups.front()) {
            const WarpgroupProduct& p = products[here() / WARPGROUP][number];
            if (here() % 32 == 0 && p.read != operands_of(p, dyn_shared))
                fail("shared memory is written while wgmma on line %d reads it", p.line);
            for (unsigned i = 0; i < SUMS; i++)
                for (unsigned term = 0; term < TERMS; term++)
                    own.now[i] += p.left[row + i / 2 % 2 * 8][term] * p.right[term][i / 4 * 8 + column + i % 2];
        }
        own.groups.erase(own.groups.begin());
    }
    meet(0xffffffffu, 0, line);
    if (was_busy && !own.busy()) memcpy(own.at, own.now, sizeof own.now);
    own.handed = false;
}
static void end_products() {
    for (unsigned t = 0; t < n_threads; t++)
        if (sums[t].started != products[t / WARPGROUP].size())
            fail("block (%u,%u,%u): thread %u has taken part in %zu products by wgmma, others of its warpgroup in %zu",
                 block_idx.x, block_idx.y, block_idx.z, t, sums[t].started, products[t / WARPGROUP].size());
}
}  // namespace eqf
