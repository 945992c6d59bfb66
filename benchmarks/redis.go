//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-redis/redis_rate/v10"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/throttled/throttled/v2"
	throttledredis "github.com/throttled/throttled/v2/store/goredisstore.v9"
	ulule "github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/internal/engines"
	"github.com/ration-go/ration/redisstore"
)

// redisGroups compare decisions over one Redis, by the whole way from the call to its answer, of a limit that never refuses.
// redis_rate is a bucket (GCRA), so ration's bucket is what compares with it; rows of other kinds stand beside it.
func redisGroups() []group {
	many := make([]string, 100_000)
	for i := range many {
		many[i] = "user:" + strconv.Itoa(i)
	}
	var all []group
	add := func(keys []string, callers int, what string, candidates func(r *redisRun) []candidate) {
		name := "one hot key"
		if len(keys) > 1 {
			name = "100 k keys"
		}
		r := &redisRun{keys: keys, callers: callers}
		all = append(all, group{name: fmt.Sprintf("redis, %s, %s%s", name, callersText(callers), what), workers: callers, timed: true,
			chart: callers == 256, candidates: candidates(r)})
	}
	for _, keys := range [][]string{many[:1], many} {
		hot := len(keys) == 1
		add(keys, 1, "", func(r *redisRun) []candidate {
			latency := goal{slower: 1.05}
			return []candidate{
				{name: "ulule/limiter", open: r.ulule},
				{name: "throttled", open: r.throttled},
				{name: "redis_rate v10", goal: latency, open: r.redisRate},
				{name: "rueidis EVALSHA, INCRBY and PEXPIRE", open: r.evalshaCount()},
				{name: "rueidis EVALSHA, a bucket", open: r.evalshaBucket()},
				{name: "ration redisstore, bucket", role: ours, open: r.ration(nil, redisBucket)},
			}
		})
		for _, callers := range []int{16, 64, 256} {
			rate, evalsha := redisGoals(hot, callers)
			add(keys, callers, "", func(r *redisRun) []candidate {
				list := []candidate{
					{name: "redis_rate v10", goal: rate, open: r.redisRate},
					{name: "rueidis EVALSHA, a bucket", goal: evalsha, open: r.evalshaBucket()},
					{name: "ration redisstore, bucket", role: ours, open: r.ration(nil, redisBucket)},
				}
				if callers == 256 {
					list = append([]candidate{
						{name: "rueidis INCRBY, which limits nothing", role: bound, open: r.incr},
						{name: "rueidis EVALSHA, INCRBY and PEXPIRE", open: r.evalshaCount()},
						{name: "ulule/limiter", open: r.ulule},
					}, list...)
				}
				return list
			})
		}
	}
	add(many[:1], 64, ", leases of 100", func(r *redisRun) []candidate {
		return []candidate{
			{name: "redis_rate v10", goal: goal{least: 35}, open: r.redisRate},
			{name: "ration redisstore, bucket, leases of 100", role: ours, open: r.ration(nil, ration.Rule{Limit: redisBucket, Lease: 100})},
			{name: "ration redisstore, bucket, leases of 10 000", role: variant, open: r.ration(nil, ration.Rule{Name: "more", Limit: redisBucket, Lease: 10_000})},
		}
	})
	alone := &ration.Options{NoJoin: true}
	add(many, 128, ", without joining", func(r *redisRun) []candidate {
		return []candidate{
			{name: "ulule/limiter", open: r.ulule},
			{name: "redis_rate v10", open: r.redisRate},
			{name: "ration redisstore, fixed window", role: variant, open: r.ration(alone, redisFixed)},
			{name: "ration redisstore, sliding window", role: variant, open: r.ration(alone, redisSliding)},
			{name: "ration redisstore, bucket", role: ours, open: r.ration(alone, redisBucket)},
		}
	})
	return all
}

// redisGoals are those against redis_rate and against a script by hand.
func redisGoals(hot bool, callers int) (rate, evalsha goal) {
	switch {
	case callers == 64 && hot:
		return goal{least: 10, hoped: 20}, goal{}
	case callers == 256 && hot:
		return goal{least: 36, hoped: 50}, goal{}
	case callers == 64:
		return goal{least: 2.5, hoped: 4}, goal{least: 1.5, hoped: 2}
	case callers == 256:
		return goal{least: 4, hoped: 6}, goal{least: 1.5, hoped: 2}
	}
	return goal{}, goal{}
}

var (
	redisBucket  = ration.TokenBucket{Burst: burst, Refill: ration.PerMinute(perMinute)}
	redisFixed   = ration.FixedWindow{Limit: 1 << 40, Window: time.Hour}
	redisSliding = ration.SlidingWindow{Limit: 1 << 40, Window: time.Minute}
)

// redisRun is a server that the candidates of one group share, and what they count.
type redisRun struct {
	keys    []string
	callers int

	mu     sync.Mutex
	users  int
	server *engines.Server
}

// start starts the server for the first who asks. It ends with the last.
func (r *redisRun) start() (addr string, done func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.server == nil {
		if r.server, err = engines.StartRedis(&engines.RedisOptions{Args: []string{"--appendonly", "no"}}); err != nil {
			return "", nil, err
		}
		servers.note("Redis " + redisVersion(r.server.Addr))
	}
	r.users++
	return r.server.Addr, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.users--; r.users == 0 {
			r.server.Close()
			r.server = nil
		}
	}, nil
}

// open is what candidates have in common: call decides about a key, and closer ends what it uses.
func (r *redisRun) open(connect func(addr string) (call func(key string) error, closer func(), err error)) (func(int, uint64) error, func(), error) {
	addr, done, err := r.start()
	if err != nil {
		return nil, nil, err
	}
	call, closer, err := connect(addr)
	if err != nil {
		done()
		return nil, nil, err
	}
	end := func() { closer(); done() }
	if err := r.fill(call); err != nil {
		end()
		return nil, nil, err
	}
	return func(_ int, i uint64) error { return call(of(r.keys, i)) }, end, nil
}

// fillers fill a server, also for one caller.
const fillers = 64

// fill makes a state for every key.
func (r *redisRun) fill(call func(key string) error) error {
	var wg sync.WaitGroup
	errs := make([]error, max(r.callers, fillers))
	for w := range errs {
		wg.Go(func() {
			for i := w; i < len(r.keys) && errs[w] == nil; i += len(errs) {
				errs[w] = call(r.keys[i])
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func redisVersion(addr string) string {
	c := goredis.NewClient(&goredis.Options{Addr: addr})
	defer c.Close()
	info, err := c.Info(context.Background(), "server").Result()
	_, after, ok := strings.Cut(info, "redis_version:")
	if err != nil || !ok {
		return "of unknown version"
	}
	version, _, _ := strings.Cut(after, "\r\n")
	return version
}

func (r *redisRun) goredis(addr string) *goredis.Client {
	return goredis.NewClient(&goredis.Options{Addr: addr, PoolSize: max(r.callers, fillers)})
}

func newRueidis(addr string) (rueidis.Client, error) {
	return rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
}

func (r *redisRun) redisRate() (func(int, uint64) error, func(), error) {
	return r.open(func(addr string) (func(string) error, func(), error) {
		c := r.goredis(addr)
		l := redis_rate.NewLimiter(c)
		limit := redis_rate.Limit{Rate: perMinute, Burst: burst, Period: time.Minute}
		ctx := context.Background()
		return func(key string) error {
			_, err := l.Allow(ctx, key, limit)
			return err
		}, func() { c.Close() }, nil
	})
}

func (r *redisRun) ulule() (func(int, uint64) error, func(), error) {
	return r.open(func(addr string) (func(string) error, func(), error) {
		c := r.goredis(addr)
		s, err := ululeredis.NewStore(c)
		if err != nil {
			return nil, nil, errors.Join(err, c.Close())
		}
		l := ulule.New(s, ulule.Rate{Period: time.Hour, Limit: 1 << 40})
		ctx := context.Background()
		return func(key string) error {
			_, err := l.Get(ctx, key)
			return err
		}, func() { c.Close() }, nil
	})
}

// throttled is for few callers: on a key that many want it gives up.
func (r *redisRun) throttled() (func(int, uint64) error, func(), error) {
	return r.open(func(addr string) (func(string) error, func(), error) {
		c := r.goredis(addr)
		s, err := throttledredis.NewCtx(c, "throttled:")
		if err != nil {
			return nil, nil, errors.Join(err, c.Close())
		}
		l, err := throttled.NewGCRARateLimiterCtx(s, throttled.RateQuota{MaxRate: throttled.PerMin(perMinute), MaxBurst: burst})
		if err != nil {
			return nil, nil, errors.Join(err, c.Close())
		}
		ctx := context.Background()
		return func(key string) error {
			_, _, err := l.RateLimitCtx(ctx, key, 1)
			return err
		}, func() { c.Close() }, nil
	})
}

// evalsha makes one call of a script a decision through rueidis: what a careful user would write by hand.
func (r *redisRun) evalsha(prefix, lua string, args ...string) opener {
	return func() (func(int, uint64) error, func(), error) {
		return r.open(func(addr string) (func(string) error, func(), error) {
			c, err := newRueidis(addr)
			if err != nil {
				return nil, nil, err
			}
			script := rueidis.NewLuaScript(lua)
			ctx := context.Background()
			return func(key string) error {
				return script.Exec(ctx, c, []string{prefix + key}, args).Error()
			}, c.Close, nil
		})
	}
}

// luaBucket is a bucket as one time, that at which it will be full, in milliseconds of the server's clock.
const luaBucket = `
local clock = redis.call('TIME')
local now, burst, each, cost = clock[1] * 1000 + math.floor(clock[2] / 1000), ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0
local full = tonumber(redis.call('GET', KEYS[1]) or now)
if full < now then full = now end
local left = math.floor((burst * each - (full - now)) / each)
if left < cost then return {0, left, cost * each - (burst * each - (full - now)), full - now} end
full = full + cost * each
redis.call('SET', KEYS[1], string.format('%.0f', full), 'PX', string.format('%.0f', full - now))
return {1, left - cost, 0, full - now}
`

// luaCount is the shortest script that counts in windows: it refuses nothing, and says not when the window ends.
const luaCount = `
local n = redis.call('INCRBY', KEYS[1], ARGV[1])
if n == ARGV[1] + 0 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return n
`

// incr is the most that Redis does with one command a call.
func (r *redisRun) incr() (func(int, uint64) error, func(), error) {
	return r.open(func(addr string) (func(string) error, func(), error) {
		c, err := newRueidis(addr)
		if err != nil {
			return nil, nil, err
		}
		ctx := context.Background()
		return func(key string) error {
			return c.Do(ctx, c.B().Incrby().Key("incr:"+key).Increment(1).Build()).Error()
		}, c.Close, nil
	})
}

func (r *redisRun) evalshaBucket() opener {
	return r.evalsha("lua:", luaBucket, strconv.Itoa(burst), strconv.Itoa(60_000/perMinute), "1")
}

func (r *redisRun) evalshaCount() opener { return r.evalsha("count:", luaCount, "1", "3600000") }

func (r *redisRun) ration(opts *ration.Options, limit ration.Limit) opener {
	return func() (func(int, uint64) error, func(), error) {
		return r.open(func(addr string) (func(string) error, func(), error) {
			c, err := newRueidis(addr)
			if err != nil {
				return nil, nil, err
			}
			s, err := redisstore.New(c, nil)
			if err != nil {
				c.Close()
				return nil, nil, err
			}
			l := ration.New(s, opts)
			ctx := context.Background()
			return func(key string) error {
				d, err := l.Take(ctx, ration.KeyOf(key), limit, 1)
				if err == nil && !d.Allowed {
					err = errors.New("a take was refused")
				}
				return err
			}, func() { l.Close(); c.Close() }, nil
		})
	}
}
