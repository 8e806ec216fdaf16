// Algorithm 2 in C++, to say how far the event engine is from compiled code that does nothing else.
//
//   anchor heap|loop USERS LOSS SEED
//
// Users in clusters of 100 start within a second, fetch the noisy label of a uniform member of their cluster and submit
// it. Latencies are log-normal (median 0.05 s, sigma 0.5). A message is lost with probability LOSS. Without a reply
// after 0.5 s a user asks somebody else, after 1 s more once again, and after 2 s more she stops.
// "heap": an event at a time from a binary heap, one heap for each 65,536 users. "loop": no queue, a user at a time.
// Prints events (starts, messages delivered, requests that expired), the sum of squares of each user's events (loop),
// submissions, ones among them, and processor seconds.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <queue>
#include <vector>

constexpr uint32_t SHARD = 65536, CLUSTER = 100;
constexpr int ATTEMPTS = 3;
constexpr double WINDOW = 1.0, MEDIAN = 0.05, SIGMA = 0.5, TIMEOUT = 0.5, FLIP = 0.1;

struct Random {  // xoshiro256++ (Blackman, Vigna), normal numbers by the ziggurat (Doornik's, 128 strips)
    uint64_t s[4];
    double x[129], ratio[128];
    explicit Random(uint64_t seed) {
        for (auto& word : s) {  // splitmix64
            uint64_t z = (seed += 0x9e3779b97f4a7c15);
            z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
            z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
            word = z ^ (z >> 31);
        }
        const double right = 3.442619855899, area = 9.91256303526217e-3;
        double f = std::exp(-0.5 * right * right);
        x[0] = area / f, x[1] = right, x[128] = 0.0;
        for (int i = 2; i < 128; ++i) {
            x[i] = std::sqrt(-2.0 * std::log(area / x[i - 1] + f));
            f = std::exp(-0.5 * x[i] * x[i]);
        }
        for (int i = 0; i < 128; ++i) ratio[i] = x[i + 1] / x[i];
    }
    uint64_t bits() {
        auto turned = [](uint64_t v, int k) { return (v << k) | (v >> (64 - k)); };
        uint64_t result = turned(s[0] + s[3], 23) + s[0], t = s[1] << 17;
        s[2] ^= s[0], s[3] ^= s[1], s[1] ^= s[2], s[0] ^= s[3], s[2] ^= t, s[3] = turned(s[3], 45);
        return result;
    }
    double uniform() { return ((bits() >> 11) + 0.5) * 0x1p-53; }
    double normal() {
        for (;;) {
            uint64_t word = bits();
            int i = word & 127;
            double u = 2.0 * (((word >> 11) + 0.5) * 0x1p-53) - 1.0;
            if (std::fabs(u) < ratio[i]) return u * x[i];
            if (i == 0) {
                double a, b;
                do a = std::log(uniform()) / x[1], b = std::log(uniform());
                while (-2.0 * b < a * a);
                return u < 0 ? a - x[1] : x[1] - a;
            }
            double at = u * x[i], low = std::exp(-0.5 * (x[i] * x[i] - at * at));
            double high = std::exp(-0.5 * (x[i + 1] * x[i + 1] - at * at));
            if (high + uniform() * (low - high) < 1.0) return at;
        }
    }
    double latency() { return MEDIAN * std::exp(SIGMA * normal()); }
};

struct Counts {
    uint64_t events = 0, squares = 0, submissions = 0, ones = 0;
    void submitted(uint8_t label) { ++submissions, ones += label; }
};

struct Event {
    double time;
    uint32_t user;
    uint8_t kind, attempt;
    bool operator<(const Event& other) const { return time > other.time; }
};
enum Kind : uint8_t { START, REQUEST, REPLY, SUBMISSION, EXPIRED };
constexpr uint8_t LATE = 255;  // in place of an attempt: it has expired, or will have when the message arrives

struct Users {  // of one shard: noisy labels, those they fetched, when requests expire, when submissions arrive
    std::vector<uint8_t> label, held;
    std::vector<double> limit, arrived;
    uint32_t count;
    Users(uint32_t count, Random& random) : label(count), held(count), limit(count), arrived(count, -1), count(count) {
        for (uint32_t i = 0; i < count; ++i) label[i] = random.uniform() < FLIP;
    }
    uint8_t ask(uint32_t user, Random& random) const {
        uint32_t first = user / CLUSTER * CLUSTER, size = first + CLUSTER > count ? count - first : CLUSTER;
        return label[first + ((random.bits() >> 32) * size >> 32)];
    }
};

double wait(int attempt) { return TIMEOUT * (1 << attempt); }

void by_heap(uint32_t count, double loss, Random& random, Counts& counts) {
    Users users(count, random);
    std::vector<Event> space;
    space.reserve(2 * count);
    std::priority_queue<Event> queue({}, std::move(space));
    bool faulty = loss > 0;
    auto lost = [&] { return faulty && random.uniform() < loss; };
    for (uint32_t i = 0; i < count; ++i) queue.push({WINDOW * random.uniform(), i, START, 0});
    while (!queue.empty()) {
        Event now = queue.top();
        queue.pop();
        uint32_t user = now.user;
        uint8_t attempt = now.attempt;
        double limit = users.limit[user];
        ++counts.events;
        switch (now.kind) {
            case EXPIRED:
                if (++attempt == ATTEMPTS) break;
                [[fallthrough]];
            case START: {
                limit = now.time + wait(attempt);
                users.limit[user] = limit;
                bool gone = lost();
                double there = gone ? 0 : now.time + random.latency();
                bool late = faulty && (gone || there > limit);
                if (!gone) queue.push({there, user, REQUEST, late ? LATE : attempt});
                if (late) queue.push({limit, user, EXPIRED, attempt});
                break;
            }
            case REQUEST: {  // it is answered; the reply may get lost or come too late
                bool gone = lost();
                double back = gone ? 0 : now.time + random.latency();
                bool late = faulty && attempt != LATE && (gone || back > limit);
                if (!gone) queue.push({back, user, REPLY, late ? LATE : attempt});
                if (late) queue.push({limit, user, EXPIRED, attempt});
                break;
            }
            case REPLY:
                if (attempt == LATE) break;
                users.held[user] = users.ask(user, random);
                if (!lost()) queue.push({now.time + random.latency(), user, SUBMISSION, 0});
                break;
            case SUBMISSION:
                users.arrived[user] = now.time;
                counts.submitted(users.held[user]);
        }
    }
}

void by_loop(uint32_t count, double loss, Random& random, Counts& counts) {
    Users users(count, random);
    bool faulty = loss > 0;
    auto lost = [&] { return faulty && random.uniform() < loss; };
    for (uint32_t user = 0; user < count; ++user) {
        double time = WINDOW * random.uniform();
        uint64_t events = 1;
        for (int attempt = 0; attempt < ATTEMPTS; ++attempt) {
            double limit = time + wait(attempt), back = time;
            bool gone = lost();
            if (!gone) ++events, back += random.latency(), gone = lost();
            if (!gone) ++events, back += random.latency();
            if (gone || (faulty && back > limit)) {
                ++events, time = limit;
                continue;
            }
            uint8_t label = users.ask(user, random);
            if (!lost()) {
                ++events;
                users.arrived[user] = back + random.latency();
                counts.submitted(label);
            }
            break;
        }
        counts.events += events, counts.squares += events * events;
    }
}

int main(int argc, char** argv) {
    if (argc != 5) return std::fputs("usage: anchor heap|loop USERS LOSS SEED\n", stderr), 2;
    auto run = std::strcmp(argv[1], "heap") ? by_loop : by_heap;
    uint64_t users = std::strtoull(argv[2], nullptr, 10);
    double loss = std::atof(argv[3]);
    Random random(std::strtoull(argv[4], nullptr, 10));
    Counts counts;
    std::clock_t begin = std::clock();
    for (uint64_t done = 0; done < users; done += SHARD)
        run(uint32_t(users - done < SHARD ? users - done : SHARD), loss, random, counts);
    double spent = double(std::clock() - begin) / CLOCKS_PER_SEC;
    std::printf("%llu %llu %llu %llu %.6f\n", (unsigned long long)counts.events, (unsigned long long)counts.squares,
                (unsigned long long)counts.submissions, (unsigned long long)counts.ones, spent);
}
