// Counts the bytes of arrays that a kernel touches. In: kernels compiled with -fsanitize=thread, which calls a hook at
// every read and write; the hooks are these, not the sanitizer's. Next stop: cudasim.py, which reads the counts.
namespace eqf {
struct Array {
    char* start;
    size_t bytes;
    std::vector<std::vector<bool>> read;  // by pass: whatever threads do between two places where all of them wait
    std::vector<bool> written;
};
static std::vector<Array> arrays;
static unsigned crossed[MAX_THREADS];  // how often each thread has waited for others

static void crosses() { crossed[here()]++; }
static void starts() { memset(crossed, 0, sizeof crossed); }

__attribute__((no_sanitize("thread"))) static void touch(void* address, size_t size, bool writes) {
    static bool counting;  // what the hook itself reads is none of the kernel's
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
    }
    counting = false;
}
}  // namespace eqf

#define EQF_HOOK extern "C" __attribute__((no_sanitize("thread"), visibility("hidden")))
#define EQF_TOUCHED(n)                                                                 \
    EQF_HOOK void __tsan_read##n(void* p) { eqf::touch(p, n, false); }                 \
    EQF_HOOK void __tsan_write##n(void* p) { eqf::touch(p, n, true); }                 \
    EQF_HOOK void __tsan_unaligned_read##n(void* p) { eqf::touch(p, n, false); }       \
    EQF_HOOK void __tsan_unaligned_write##n(void* p) { eqf::touch(p, n, true); }
EQF_TOUCHED(1) EQF_TOUCHED(2) EQF_TOUCHED(4) EQF_TOUCHED(8) EQF_TOUCHED(16)
EQF_HOOK void __tsan_read_range(void* p, size_t n) { eqf::touch(p, n, false); }
EQF_HOOK void __tsan_write_range(void* p, size_t n) { eqf::touch(p, n, true); }
EQF_HOOK void __tsan_vptr_update(void**, void*) {}
EQF_HOOK void __tsan_vptr_read(void**) {}
EQF_HOOK void __tsan_func_entry(void*) {}
EQF_HOOK void __tsan_func_exit() {}
EQF_HOOK void __tsan_init() {}

EQF_VISIBLE __attribute__((no_sanitize("thread"))) void eqf_count(void** starts, const size_t* bytes, size_t n) {
    eqf::arrays.clear();
    for (size_t i = 0; i < n; i++) eqf::arrays.push_back({(char*)starts[i], bytes[i], {}, {}});
}

// Distinct bytes: read in any pass, the sum of those read in each, written.
EQF_VISIBLE __attribute__((no_sanitize("thread"))) void eqf_counted(size_t i, size_t* found) {
    eqf::Array& a = eqf::arrays[i];
    std::vector<bool> any(a.bytes);
    found[0] = found[1] = found[2] = 0;
    for (std::vector<bool>& pass : a.read)
        for (size_t j = 0; j < pass.size(); j++)
            if (pass[j]) found[1]++, any[j] = true;
    for (bool b : any) found[0] += b;
    for (bool b : a.written) found[2] += b;
}
