package envoyrls_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/memstore"
	"github.com/ration-go/ration/server/envoyrls"
	"github.com/ration-go/ration/server/internal/rpctest"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// TestMain fails if goroutines outlive the tests.
func TestMain(m *testing.M) { rpctest.Main(m) }

// clock is what decides in these tests.
type clock struct{ now atomic.Int64 }

func (c *clock) time() time.Time         { return time.UnixMicro(c.now.Load()) }
func (c *clock) set(t time.Time)         { c.now.Store(t.UnixMicro()) }
func (c *clock) advance(d time.Duration) { c.now.Add(d.Microseconds()) }

// store is a store in memory that can fail, and be one where keys of one decision need a group.
type store struct {
	driver.Store
	fail     atomic.Pointer[error]
	oneGroup bool
	remote   bool
	calls    atomic.Int64
}

func (s *store) Apply(ctx context.Context, batch []*driver.Txn) error {
	s.calls.Add(1)
	if err := s.fail.Load(); err != nil {
		return *err
	}
	return s.Store.Apply(ctx, batch)
}

func (s *store) Info() driver.Info {
	info := s.Store.Info()
	info.OneGroup = s.oneGroup
	if s.remote {
		info.Instant, info.MaxBatch, info.InFlight = false, 128, 1
	}
	return info
}

// env is the service, called by Envoy's generated client.
type env struct {
	t       testing.TB
	clock   *clock
	store   *store
	limiter *ration.Limiter
	service *envoyrls.Service
	rlsv3.RateLimitServiceClient
}

func parse(t testing.TB, yaml ...string) *envoyrls.Config {
	t.Helper()
	var files []envoyrls.File
	for i, text := range yaml {
		files = append(files, envoyrls.File{Name: fmt.Sprintf("%d.yaml", i), Data: []byte(text)})
	}
	cfg, err := envoyrls.Parse(files, false)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func newEnv(t testing.TB, yaml string, opts *envoyrls.Options, change ...func(*store)) *env {
	t.Helper()
	if opts == nil {
		opts = new(envoyrls.Options)
	}
	opts.Logger = slog.New(slog.DiscardHandler)
	e := &env{t: t, clock: new(clock), store: &store{Store: memstore.New(nil)}}
	for _, c := range change {
		c(e.store)
	}
	e.clock.set(time.Date(2026, 6, 15, 12, 30, 15, 0, time.UTC))
	e.limiter = ration.New(e.store, &ration.Options{Clock: e.clock.time, OneGroup: e.store.oneGroup})
	var err error
	if e.service, err = envoyrls.New(e.limiter, e.store, parse(t, yaml), opts); err != nil {
		t.Fatal(err)
	}
	conn := rpctest.Serve(t, func(server *grpc.Server) { rlsv3.RegisterRateLimitServiceServer(server, e.service) }, e.limiter.Close)
	e.RateLimitServiceClient = rlsv3.NewRateLimitServiceClient(conn)
	return e
}

// descriptor is one of "key=value key=value".
func descriptor(text string) *commonv3.RateLimitDescriptor {
	d := new(commonv3.RateLimitDescriptor)
	for _, pair := range strings.Fields(text) {
		key, value, _ := strings.Cut(pair, "=")
		d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{Key: key, Value: value})
	}
	return d
}

func request(domain string, descriptors ...string) *rlsv3.RateLimitRequest {
	r := &rlsv3.RateLimitRequest{Domain: domain}
	for _, text := range descriptors {
		r.Descriptors = append(r.Descriptors, descriptor(text))
	}
	return r
}

// ask is the answer to a request.
func (e *env) ask(r *rlsv3.RateLimitRequest) *rlsv3.RateLimitResponse {
	e.t.Helper()
	a, err := e.ShouldRateLimit(e.t.Context(), r)
	if err != nil {
		e.t.Fatal(err)
	}
	if len(a.Statuses) != len(r.Descriptors) {
		e.t.Fatalf("%d statuses for %d descriptors", len(a.Statuses), len(r.Descriptors))
	}
	return a
}

// short is an answer in a line: the overall code, and of each descriptor code, limit, what is left and when to come back.
func short(a *rlsv3.RateLimitResponse) string {
	text := a.OverallCode.String()
	for _, st := range a.Statuses {
		text += " |"
		if st.Code != rlsv3.RateLimitResponse_OK {
			text += " " + st.Code.String()
		}
		if c := st.CurrentLimit; c != nil {
			text += fmt.Sprintf(" %d/", c.RequestsPerUnit)
			if c.UnitMultiplier != nil {
				text += fmt.Sprint(c.UnitMultiplier.Value)
			}
			text += c.Unit.String()
			if c.Name != "" {
				text += " " + c.Name
			}
			text += fmt.Sprintf(" left %d reset %v", st.LimitRemaining, st.DurationUntilReset.AsDuration())
		} else if st.LimitRemaining > 0 {
			text += fmt.Sprintf(" left %d", st.LimitRemaining)
		}
	}
	return text
}

// want asks, and compares.
func (e *env) want(r *rlsv3.RateLimitRequest, want string) {
	e.t.Helper()
	if got := short(e.ask(r)); got != want {
		e.t.Errorf("%v\n got %s\nwant %s", r, got, want)
	}
}

// passes is how many of n requests pass.
func (e *env) passes(n int, r *rlsv3.RateLimitRequest) (passed int) {
	e.t.Helper()
	for range n {
		if e.ask(r).OverallCode == rlsv3.RateLimitResponse_OK {
			passed++
		}
	}
	return passed
}
