package server_test

import (
	"net/http"
	"net/netip"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/httplimit"
	"github.com/ration-go/ration/server"
)

func TestLoadChecks(t *testing.T) {
	t.Parallel()
	file := write(t, filepath.Join(t.TempDir(), "ration.yaml"), `
check: # before the limits
  plain: {}
  key: header X-Api-Key
  edge:
    key: ip
    trusted_proxies: 127.0.0.1, ::1,10.0.0.0/8
    ip_header: Forwarded
    no_key: share
    cost_header: X-Cost
    refused: 403
  session: {key: cookie sid, no_key: skip}
limits: {plain: fixed 2/1h, key: fixed 2/1h, edge: fixed 2/1h, session: fixed 2/1h, other: fixed 2/1h}
`)
	got := must[*server.Config](t)(server.Load(file, nil))
	want := []server.CheckConfig{
		{Limit: "plain"},
		{Limit: "key", Key: "header X-Api-Key"},
		{
			Limit: "edge", Key: "ip", IPHeader: "Forwarded", NoKey: httplimit.ShareNoKey, CostHeader: "X-Cost", Refused: 403,
			TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("10.0.0.0/8")},
		},
		{Limit: "session", Key: "cookie sid", NoKey: httplimit.SkipNoKey},
	}
	if !reflect.DeepEqual(got.Checks, want) {
		t.Errorf("%+v", got.Checks)
	}
	if err := got.Validate(); err != nil {
		t.Error(err)
	}
	stdout, _, code := run(t, t.TempDir(), nil, "config", "check", file)
	if code != server.ExitOK || !strings.Contains(stdout, "check.edge") || !strings.Contains(stdout, "ip, without one share, cost in X-Cost, refused with 403") {
		t.Errorf("%d\n%s", code, stdout)
	}
	if stdout, _, _ = run(t, t.TempDir(), nil, "config", "check", "--json", file); !strings.Contains(stdout, `"plain":"header X-Ration-Key"`) {
		t.Error(stdout)
	}
}

func TestCheckFaults(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, one := range []struct{ check, want string }{
		{"chat: ip", "c.yaml:3: check.chat: the key ip needs trusted_proxies"},
		{"chat: header", `the key "header" is not ip`},
		{"chat: header X Y", `the key "header X Y" is not ip`},
		{"chat: header Host", `the key "header Host" is not ip`},
		{"chat: query key", `the key "query key" is not ip`},
		{"chat: cookie a=b", `is not ip`},
		{"chat: [ip]", "check.chat"},
		{"chat: {key: ip, trusted_proxies: nginx}", `check.chat.trusted_proxies: "nginx" is neither an address nor a network`},
		{"chat: {key: ip, trusted_proxies: 0.0.0.0/0}", "would be everybody"},
		{"chat: {key: ip, trusted_proxies: '::/0'}", "would be everybody"},
		{"chat: {trusted_proxies: 127.0.0.1}", "are for the key ip"},
		{"chat: {key: cookie sid, ip_header: X-Real-IP}", "are for the key ip"},
		{"chat: {key: ip, trusted_proxies: 127.0.0.1, ip_header: 'a b'}", `check.chat: ip_header: "a b" is not the name of a header`},
		{"chat: {cost_header: 'a b'}", `check.chat: cost_header: "a b" is not the name of a header`},
		{"chat: {no_key: allow}", `"allow" is not refuse or skip or share`},
		{"chat: {refused: 503}", `"503" is not 429 or 403`},
		{"chat: {kee: ip}", "check.chat.kee: unknown key; did you mean key?"},
		{"chats: ip", "check.chats"},
		{"chats: header X-Key", "c.yaml:3: check.chats: there is no limit of this name; did you mean chat?"},
		{"slots: header X-Key", "nobody would let go of a slot"},
	} {
		write(t, filepath.Join(dir, "c.yaml"), "limits: {chat: fixed 2/1h, slots: concurrent 2 lease 30s}\ncheck:\n  "+one.check+"\n")
		if _, err := server.Load(filepath.Join(dir, "c.yaml"), nil); err == nil || !strings.Contains(err.Error(), one.want) {
			t.Errorf("%s: %v, want %s", one.check, err, one.want)
		}
	}
	cfg := server.Defaults()
	cfg.Limits = []ration.Rule{{Name: "chat", Limit: ration.FixedWindow{Limit: 2, Window: 3600e9}}}
	cfg.Checks = []server.CheckConfig{{Limit: "chat"}, {Limit: "chat"}, {Limit: "none"}, {Limit: "chat", Key: "ip", TrustedProxies: make([]netip.Prefix, 1)}}
	err := cfg.Validate()
	for _, want := range []string{"check.chat: there are two", "check.none: there is no limit", "would be everybody"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %s", err, want)
		}
	}
}

// TestServeChecks asks as a proxy does.
func TestServeChecks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "ration.yaml"), `
limits: {edge: fixed 2/1h, session: fixed 1/1h, by-key: fixed 1/1h, open: fixed 2/1h}
check:
  edge: {key: ip, trusted_proxies: "127.0.0.1, 10.0.0.0/8"}
  session: cookie sid
  by-key: header X-Api-Key
  open: {key: header X-Api-Key, no_key: skip}
`)
	p := serve(t, dir, "--store", "memory:", "--config", "ration.yaml")
	for i, one := range []struct {
		limit, name, value string
		status             int
	}{
		{"edge", "X-Forwarded-For", "198.51.100.1, 203.0.113.7, 10.1.2.3", 200},
		{"edge", "X-Forwarded-For", "198.51.100.2, 203.0.113.7", 200},
		{"edge", "X-Forwarded-For", "198.51.100.3, 203.0.113.7", 429},
		{"edge", "X-Forwarded-For", "203.0.113.8", 200},
		{"edge", "X-Forwarded-For", "_hidden", 403},
		{"session", "Cookie", "a=b; sid=1", 200},
		{"session", "Cookie", "a=c; sid=1", 429},
		{"session", "Cookie", "sid=2", 200},
		{"session", "Cookie", "sid=", 403},
		{"session", "X-Ration-Key", "x", 403},
		{"session", "Cookie", "sid=3; sid=1", 403}, // who may take which?
		{"session", "Cookie", "sid=4; sid=4", 200},
		{"by-key", "X-Api-Key", "a|a", 200},
		{"by-key", "X-Api-Key", "a", 429},
		{"by-key", "X-Api-Key", "b|a", 403},
		{"by-key", "X-Api-Key", "|a", 403},
		{"open", "X-Api-Key", "1|a", 200},
		{"open", "X-Api-Key", "2|a", 200},
		{"open", "X-Api-Key", "3|a", 429},
		{"open", "X-Other", "", 200},
		{"chat", "X-Ration-Key", "x", 404},
	} {
		r := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+"/v1/check/"+one.limit, nil))
		r.Header[http.CanonicalHeaderKey(one.name)] = strings.Split(one.value, "|")
		a := must[*http.Response](t)(http.DefaultClient.Do(r))
		a.Body.Close()
		if a.StatusCode != one.status {
			t.Errorf("%d: %d, want %d", i, a.StatusCode, one.status)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}
