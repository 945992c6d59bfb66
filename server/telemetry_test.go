package server_test

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	rationv1 "github.com/ration-go/ration/server/grpcapi/ration/v1"
)

// scrape is what Prometheus finds at url.
func scrape(t *testing.T, url string) map[string]*dto.MetricFamily {
	t.Helper()
	status, _, text := call(t, http.MethodGet, url, "")
	if status != http.StatusOK {
		t.Fatalf("%s answers %d: %s", url, status, text)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return must[map[string]*dto.MetricFamily](t)(parser.TextToMetricFamilies(strings.NewReader(text)))
}

// value is that of the series of f with these labels, given as name and value; −1 if there is none.
func value(f *dto.MetricFamily, labels ...string) float64 {
	for _, m := range f.GetMetric() {
		matches := 0
		for _, l := range m.GetLabel() {
			for i := 0; i < len(labels); i += 2 {
				if l.GetName() == labels[i] && l.GetValue() == labels[i+1] {
					matches++
				}
			}
		}
		if 2*matches == len(labels) {
			return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return -1
}

var metricRow = regexp.MustCompile("^\\| `(ration_[a-z_]+)` \\| (counter|gauge|histogram) \\|([^|]*)\\|")

// The table in docs/telemetry.md has every metric, with its type and its labels.
func TestDocumentedMetrics(t *testing.T) {
	t.Parallel()
	documented := map[string]string{}
	for line := range strings.Lines(string(must[[]byte](t)(os.ReadFile("../docs/telemetry.md")))) {
		if m := metricRow.FindStringSubmatch(line); m != nil {
			labels := strings.FieldsFunc(m[3], func(r rune) bool { return strings.ContainsRune("`, ", r) })
			slices.Sort(labels)
			documented[m[1]] = fmt.Sprint(m[2], " ", labels)
		}
	}
	dir := t.TempDir()
	config := write(t, filepath.Join(dir, "limits.yaml"), "limits: {chat: fixed 1/1h}\n")
	p, conn := serveGRPC(t, "--config", config, "--resp-listen", "127.0.0.1:0")
	for range 2 {
		call(t, http.MethodPost, p.url+"/v1/take", `{"key": "somebody", "limit": "chat"}`)
	}
	call(t, http.MethodPost, p.url+"/v1/take", `{"key": "somebody", "limit": "fixed 9/1h", "name": "made-up"}`)
	call(t, http.MethodGet, p.url+"/somebody", "")
	if _, err := rationv1.NewRationServiceClient(conn).Take(t.Context(), &rationv1.TakeRequest{}); err == nil {
		t.Error("an empty take passes")
	}
	address := regexp.MustCompile(`CL.THROTTLE on (\S+)`).FindStringSubmatch(p.wait(p.stdout, "CL.THROTTLE on"))[1]
	c := must[net.Conn](t)(new(net.Dialer).DialContext(t.Context(), "tcp", address))
	defer c.Close()
	must[int](t)(io.WriteString(c, "*1\r\n$4\r\nPING\r\n"))
	must[int](t)(io.ReadFull(c, make([]byte, len("+PONG\r\n"))))
	entry := &commonv3.RateLimitDescriptor_Entry{Key: "remote_address", Value: "somebody"}
	for range 3 {
		request := &rlsv3.RateLimitRequest{Domain: "edge", Descriptors: []*commonv3.RateLimitDescriptor{{Entries: []*commonv3.RateLimitDescriptor_Entry{entry}}}}
		must[*rlsv3.RateLimitResponse](t)(rlsv3.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), request))
	}

	all := scrape(t, p.url+"/metrics")
	found := map[string]string{}
	for name, f := range all {
		if !strings.HasPrefix(name, "ration_") {
			continue
		}
		labels := map[string]bool{}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = true
				if strings.Contains(l.GetValue(), "somebody") || l.GetValue() == "made-up" {
					t.Errorf("%s has what a caller made up: %v", name, l)
				}
			}
		}
		found[name] = fmt.Sprint(strings.ToLower(f.GetType().String()), " ", slices.Sorted(maps.Keys(labels)))
	}
	for name, is := range found {
		if documented[name] != is {
			t.Errorf("%s is a %s; docs/telemetry.md says %q", name, is, documented[name])
		}
	}
	for name := range documented {
		if found[name] == "" {
			t.Errorf("docs/telemetry.md has %s, which is not there", name)
		}
	}
	for _, want := range []struct {
		name   string
		value  float64
		labels []string
	}{
		{"ration_decisions_total", 1, []string{"limit", "chat", "outcome", "allowed"}},
		{"ration_decisions_total", 1, []string{"limit", "chat", "outcome", "refused"}},
		{"ration_decisions_total", 3, []string{"limit", "other", "outcome", "allowed"}}, // one over HTTP, two of Envoy's
		{"ration_api_requests_total", 3, []string{"protocol", "http", "route", "/v1/take", "code", "200"}},
		{"ration_api_requests_total", 1, []string{"protocol", "http", "route", "unknown", "code", "404"}},
		{"ration_api_requests_total", 1, []string{"protocol", "grpc", "route", "/ration.v1.RationService/Take", "code", "InvalidArgument"}},
		{"ration_api_connections", 1, []string{"protocol", "grpc"}},
		{"ration_api_connections", 1, []string{"protocol", "resp"}},
		{"ration_envoy_over_limit_total", 1, []string{"rule", "edge.remote_address"}},
		{"ration_envoy_within_limit_total", 2, []string{"rule", "edge.remote_address"}},
		{"ration_store_up", 1, nil},
		{"ration_store_info", 1, []string{"kind", "memory"}},
	} {
		if got := value(all[want.name], want.labels...); got != want.value {
			t.Errorf("%s%q is %v, not %v", want.name, want.labels, got, want.value)
		}
	}
	if all["go_goroutines"] == nil || all["process_cpu_seconds_total"] == nil {
		t.Error("the metrics of the process are not there")
	}
}

// A limit that a reload brings has a label from then on, and a reload that fails is counted.
func TestMetricsFollowReloads(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := write(t, filepath.Join(dir, "ration.yaml"), "limits: {chat: fixed 9/1h}\n")
	p := serve(t, dir, "--store", "memory:", "--config", config, "--watch=false")
	reload := func(text string, want int) {
		t.Helper()
		write(t, config, text)
		if status, _, body := call(t, http.MethodPost, p.url+"/v1/admin/reload", "{}"); status != want {
			t.Errorf("the reload answered %d: %s", status, body)
		}
	}
	reload("limits: {chat: fixed 9/1h, pages: fixed 9/1h}\n", http.StatusOK)
	call(t, http.MethodPost, p.url+"/v1/take", `{"key": "a", "limit": "pages"}`)
	reload("limits: {chat: wrong}\n", http.StatusConflict)
	all := scrape(t, p.url+"/metrics")
	for _, want := range []struct {
		name, label, is string
		value           float64
	}{
		{"ration_config_reloads_total", "outcome", "ok", 1},
		{"ration_config_reloads_total", "outcome", "error", 1},
	} {
		if got := value(all[want.name], want.label, want.is); got != want.value {
			t.Errorf("%s of %s is %v", want.name, want.is, got)
		}
	}
	if value(all["ration_decisions_total"], "limit", "pages", "outcome", "allowed") != 1 || value(all["ration_config_last_reload_timestamp_seconds"]) < 1e9 {
		t.Error("the reload is not in the metrics")
	}
}

// What other processes have decided here by way of package client are calls to the store too.
func TestCallsOfClientsAreCounted(t *testing.T) {
	t.Parallel()
	const batch = `{"txns":[{"verb":"take","ops":[{"space":"|c||","id":"eA==","kind":"counter","size":1,"span_us":1000000,"cost":1}]}]}`
	p := serve(t, t.TempDir())
	before := value(scrape(t, p.url+"/metrics")["ration_store_operations_total"])
	for range 3 {
		if status, _, body := call(t, http.MethodPost, p.url+"/v1/apply", batch); status != http.StatusOK {
			t.Fatal(status, body)
		}
	}
	if after := value(scrape(t, p.url+"/metrics")["ration_store_operations_total"]); after < before+3 {
		t.Errorf("operations went from %v to %v", before, after)
	}
}

func TestWhereMetricsAre(t *testing.T) {
	t.Parallel()
	at := regexp.MustCompile(`metrics on (\S+)`)
	apart := serve(t, t.TempDir(), "--store", "memory:", "--metrics-listen", "127.0.0.1:0")
	url := at.FindStringSubmatch(apart.wait(apart.stdout, "metrics on"))[1]
	if len(scrape(t, url)) == 0 {
		t.Error("nothing is there")
	}
	off := serve(t, t.TempDir(), "--store", "memory:", "--metrics-enabled", "false")
	for _, c := range []struct {
		method, url string
		status      int
	}{
		{http.MethodGet, apart.url + "/metrics", http.StatusNotFound},
		{http.MethodGet, off.url + "/metrics", http.StatusNotFound},
		{http.MethodGet, strings.TrimSuffix(url, "/metrics") + "/v1/limits", http.StatusNotFound},
		{http.MethodGet, strings.TrimSuffix(url, "/metrics") + "/", http.StatusNotFound},
		{http.MethodPost, url, http.StatusMethodNotAllowed},
		{http.MethodHead, url, http.StatusOK},
	} {
		if status, _, body := call(t, c.method, c.url, ""); status != c.status {
			t.Errorf("%s %s answers %d, not %d: %s", c.method, c.url, status, c.status, body)
		}
	}
	apart.signal(os.Interrupt)
	if code, _ := apart.end(); code != 0 {
		t.Errorf("it ends with %d: %s", code, apart.stderr)
	}
	for _, args := range [][]string{
		{"--metrics-listen", "0.0.0.0:0"}, // others could reach it, and nobody is asked
		{"--metrics-listen", "x"}, {"--otel-endpoint", "127.0.0.1:4318"}, {"--otel-sample", "2"}, {"--otel-sample", "NaN"},
		{"--otel-endpoint", "http://me:secret@127.0.0.1:4318"},
	} {
		_, stderr, code := run(t, t.TempDir(), nil, append([]string{"serve", "--store", "memory:", "--listen", "127.0.0.1:0"}, args...)...)
		if code != 2 || !strings.Contains(stderr, strings.NewReplacer("--metrics-", "metrics", "--otel-", "otel").Replace(args[0])[:4]) || strings.Contains(stderr, "secret@") {
			t.Errorf("%q: exit code %d, %s", args, code, stderr)
		}
	}
}

// Where callers are asked who they are, a scrape needs a token that may read.
func TestMetricsAreForReaders(t *testing.T) {
	t.Parallel()
	reads, first := tokenLine(t, "prometheus", "read", "")
	takes, second := tokenLine(t, "web", "take:chat", "")
	url, _ := guarded(t, io.Discard, nil, first, second)
	for _, c := range []struct {
		header []string
		status int
	}{
		{nil, http.StatusUnauthorized},
		{[]string{"Authorization: Bearer " + takes}, http.StatusForbidden},
		{[]string{"Authorization: Bearer " + reads}, http.StatusOK},
	} {
		if status, _, body := call(t, http.MethodGet, url+"/metrics", "", c.header...); status != c.status {
			t.Errorf("answers %d, not %d: %.200s", status, c.status, body)
		}
	}
}

// A call is traced from its caller's header to the call to the store, and the collector gets all of it when the server ends.
func TestTracesReachTheCollector(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var spans []string
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/traces" {
			return
		}
		m := new(coltrace.ExportTraceServiceRequest)
		data, err := io.ReadAll(r.Body)
		if err == nil {
			err = proto.Unmarshal(data, m)
		}
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, rs := range m.GetResourceSpans() {
			for _, ss := range rs.GetScopeSpans() {
				for _, s := range ss.GetSpans() {
					spans = append(spans, fmt.Sprintf("%s in %x", s.GetName(), s.GetTraceId()))
					if text := s.String(); strings.Contains(text, "somebody") {
						t.Errorf("a key is in a span: %s", text)
					}
				}
			}
		}
	}))
	defer collector.Close()
	p := start(t, t.TempDir(), []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.URL}, "serve", "--listen", "127.0.0.1:0")
	url := listening.FindString(p.wait(p.stdout, "listens on"))
	call(t, http.MethodPost, url+"/v1/take", `{"key": "somebody", "limit": "fixed 9/1h"}`,
		"traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	p.signal(os.Interrupt)
	if code, _ := p.end(); code != 0 {
		t.Fatalf("it ends with %d: %s", code, p.stderr)
	}
	mu.Lock()
	defer mu.Unlock()
	slices.Sort(spans)
	want := []string{"POST /v1/take in 4bf92f3577b34da6a3ce929d0e0e4736", "ration.store in 4bf92f3577b34da6a3ce929d0e0e4736"}
	if !slices.Equal(spans, want) {
		t.Errorf("got %q, not %q; stderr: %s", spans, want, p.stderr)
	}
}
