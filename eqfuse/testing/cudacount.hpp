// Counts the bytes of arrays that a kernel touches, and looks whether blocks pass on data as CUDA wants it: written, a
// fence, an atomic operation; there one, or a volatile read, a fence, read. In: kernels compiled with -fsanitize=thread,
// which calls a hook at every read and write; the hooks are these, not the sanitizer's. Next stop: cudasim.py, which
// reads the counts.
namespace eqf {
struct Write { unsigned block, fence; };  // blocks and fences of a block count from 1; 0: none in this launch
struct Array {
    char* start;
    size_t bytes;
    std::vector<std::vector<bool>> read;  // by pass: whatever threads do between two places where all of them wait
    std::vector<bool> written;
    std::vector<Write> last;  // of each byte
};
static std::vector<Array> arrays;
static unsigned crossed[MAX_THREADS];  // how often each thread has waited for others

static unsigned block, fence;              // this block, and how many fences it has made
static std::vector<unsigned> released;     // by block: how many it had made before its last atomic operation
static bool observed[MAX_THREADS], fresh[MAX_THREADS], some_fresh;  // threads: have met other blocks; and fenced then
static bool in_atomic, counting;  // what the hook itself reads is none of the kernel's

static void crosses() { crossed[here()]++; }
static void starts() {
    memset(crossed, 0, sizeof crossed);
    memset(observed, 0, sizeof observed);
    memset(fresh, 0, sizeof fresh);
    some_fresh = false, fence = 0;
    released.resize(++block + 1);
}
void fences() {
    fence++;
    fresh[here()] |= observed[here()];
}
static void meets() { observed[here()] = true, fresh[here()] = false; }
void meets_blocks(bool now) {
    in_atomic = now;
    released[block] = fence;
    meets();
}
static void waits(bool after) {  // what one thread has seen, all see that have waited for it
    if (after) fresh[here()] |= some_fresh;
    else some_fresh |= fresh[here()];
}

static void passes_on(Array& a, size_t first, size_t size, bool writes, bool apart) {
    if (!writes && a.last.empty()) return;
    if (a.last.empty()) a.last.resize(a.bytes);
    for (size_t i = first; i < first + size && i < a.bytes; i++) {
        Write& w = a.last[i];
        if (writes) {
            w = {block, fence};
        } else if (!apart && w.block && w.block != block && (released[w.block] <= w.fence || !fresh[here()])) {
            counting = false;
            fail("reads what the block that ran as number %u has written, without a fence %s", w.block,
                 fresh[here()] ? "after it was written" : "before it is read");
        }
    }
}

static void touch(void* address, size_t size, bool writes, bool apart = false) {
    if (!current || counting) return;
    counting = true;
    for (Array& a : arrays) {
        size_t first = (char*)address - a.start;
        if (first >= a.bytes) continue;
        unsigned pass = crossed[here()];
        if (!writes && a.read.size() <= pass) a.read.resize(pass + 1);
        std::vector<bool>& seen = writes ? a.written : a.read[pass];
        if (seen.empty()) seen.resize(a.bytes);
        for (size_t i = first; i < first + size && i < a.bytes; i++) seen[i] = true;
        passes_on(a, first, size, writes, apart || in_atomic);
    }
    counting = false;
    if (apart) meets();
}
static void copies_from(const void* address) { touch((void*)address, 16, false); }
}  // namespace eqf

#define EQF_HOOK extern "C" __attribute__((visibility("hidden")))
#define EQF_TOUCHED(n)                                                                 \
    EQF_HOOK void __tsan_read##n(void* p) { eqf::touch(p, n, false); }                 \
    EQF_HOOK void __tsan_write##n(void* p) { eqf::touch(p, n, true); }                 \
    EQF_HOOK void __tsan_unaligned_read##n(void* p) { eqf::touch(p, n, false); }       \
    EQF_HOOK void __tsan_unaligned_write##n(void* p) { eqf::touch(p, n, true); }       \
    EQF_HOOK void __tsan_volatile_read##n(void* p) { eqf::touch(p, n, false, true); }  \
    EQF_HOOK void __tsan_volatile_write##n(void* p) { eqf::touch(p, n, true, true); }
EQF_TOUCHED(1) EQF_TOUCHED(2) EQF_TOUCHED(4) EQF_TOUCHED(8) EQF_TOUCHED(16)
EQF_HOOK void __tsan_read_range(void* p, size_t n) { eqf::touch(p, n, false); }
EQF_HOOK void __tsan_write_range(void* p, size_t n) { eqf::touch(p, n, true); }
EQF_HOOK void __tsan_vptr_update(void**, void*) {}
EQF_HOOK void __tsan_vptr_read(void**) {}
EQF_HOOK void __tsan_func_entry(void*) {}
EQF_HOOK void __tsan_func_exit() {}
EQF_HOOK void __tsan_init() {}

EQF_VISIBLE void eqf_count(void** starts, const size_t* bytes, size_t n) {
    eqf::arrays.clear();
    eqf::released.clear();
    eqf::block = 0;
    for (size_t i = 0; i < n; i++) eqf::arrays.push_back({(char*)starts[i], bytes[i], {}, {}, {}});
}

// Distinct bytes: read in any pass, the sum of those read in each, written.
EQF_VISIBLE void eqf_counted(size_t i, size_t* found) {
    eqf::Array& a = eqf::arrays[i];
    std::vector<bool> any(a.bytes);
    found[0] = found[1] = found[2] = 0;
    for (std::vector<bool>& pass : a.read)
        for (size_t j = 0; j < pass.size(); j++)
            if (pass[j]) found[1]++, any[j] = true;
    for (bool b : any) found[0] += b;
    for (bool b : a.written) found[2] += b;
}
