package access_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/server/access"
)

// clock is a time that tests move.
type clock struct{ at atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.at.Store(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC).UnixNano())
	return c
}

func (c *clock) now() time.Time       { return time.Unix(0, c.at.Load()).UTC() }
func (c *clock) pass(d time.Duration) { c.at.Add(int64(d)) }

func newGuard(t testing.TB, opts *access.Options) *access.Guard {
	t.Helper()
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	g, err := access.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range 2 {
			if err := g.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return g
}

// made is a token, and what a server knows of it.
func made(t testing.TB, name, scopes, expires string) (string, access.Token) {
	t.Helper()
	secret := access.NewToken()
	h, err := access.HashOf(secret)
	if err != nil {
		t.Fatal(err)
	}
	token, err := access.ParseToken(fmt.Sprintf("%s %s %s %s", name, h, scopes, expires))
	if err != nil {
		t.Fatal(err)
	}
	return secret, token
}

func code(err error) string {
	if r, ok := errors.AsType[*access.Refusal](err); ok {
		return r.Code
	}
	return fmt.Sprint(err)
}

// TestScopesOfCallers: what each scope lets be done, to which limits, where.
func TestScopesOfCallers(t *testing.T) {
	t.Parallel()
	type try struct {
		verb             access.Verb
		namespace, limit string
	}
	var all []try
	for _, verb := range []access.Verb{access.Read, access.Take, access.Reset, access.Admin} {
		for _, namespace := range []string{"own", "shop", ""} {
			for _, limit := range []string{"", "chat", "chats", "team-a.x"} {
				all = append(all, try{verb, namespace, limit})
			}
		}
	}
	for scopes, may := range map[string]func(try) bool{
		"read":       func(r try) bool { return r.verb == access.Read && r.namespace == "own" },
		"take,reset": func(r try) bool { return (r.verb == access.Take || r.verb == access.Reset) && r.namespace == "own" },
		"take:chat":  func(r try) bool { return r.verb == access.Take && r.namespace == "own" && r.limit == "chat" },
		"take:chat*": func(r try) bool {
			return r.verb == access.Take && r.namespace == "own" && strings.HasPrefix(r.limit, "chat")
		},
		"take:team-a.*@*": func(r try) bool { return r.verb == access.Take && r.limit == "team-a.x" },
		"take@shop":       func(r try) bool { return r.verb == access.Take && r.namespace == "shop" },
		"take:chat@shop":  func(r try) bool { return r.verb == access.Take && r.namespace == "shop" && r.limit == "chat" },
		"take,take@shop":  func(r try) bool { return r.verb == access.Take && r.namespace != "" },
		"admin":           func(r try) bool { return r.namespace == "own" },
		"admin@*":         func(try) bool { return true },
		"read@*,reset:chat": func(r try) bool {
			return r.verb == access.Read || r.verb == access.Reset && r.namespace == "own" && r.limit == "chat"
		},
	} {
		secret, token := made(t, "web", scopes, "")
		g := newGuard(t, &access.Options{Namespace: "own", Tokens: []access.Token{token}})
		caller, err := g.Identify(secret, "192.0.2.1")
		if err != nil {
			t.Fatal(err)
		}
		ctx := access.With(t.Context(), caller)
		for _, r := range all {
			err := access.AllowIn(ctx, r.verb, r.namespace, r.limit)
			if (err == nil) != may(r) || err != nil && code(err) != access.CodeForbidden {
				t.Errorf("%s: %v %q %q: %v", scopes, r.verb, r.namespace, r.limit, err)
			}
			if own := access.Allow(ctx, r.verb, r.limit); (own == nil) != may(try{r.verb, "own", r.limit}) {
				t.Errorf("%s: %v %q: %v", scopes, r.verb, r.limit, own)
			}
		}
		if err := access.AllowAnywhere(ctx, access.Take); (err == nil) != (scopes == "admin@*") {
			t.Errorf("%s: anywhere: %v", scopes, err)
		}
	}
}

func TestNoCallerIsTheProgramItself(t *testing.T) {
	t.Parallel()
	if err := errors.Join(access.Allow(t.Context(), access.Admin, ""), access.AllowIn(t.Context(), access.Take, "x", ""), access.AllowAnywhere(t.Context(), access.Reset)); err != nil {
		t.Error(err)
	}
	access.Record(t.Context(), access.Action{What: "reset"})
	off := newGuard(t, &access.Options{})
	ctx := access.With(t.Context(), off.Nobody("192.0.2.1"))
	if err := errors.Join(access.Allow(ctx, access.Admin, ""), access.AllowAnywhere(ctx, access.Reset)); err != nil || off.On() {
		t.Error(err)
	}
	secret, token := made(t, "web", "take", "")
	on := newGuard(t, &access.Options{Tokens: []access.Token{token}})
	ctx = access.With(t.Context(), on.Nobody("192.0.2.1"))
	if err := access.Allow(ctx, access.Take, "chat"); code(err) != access.CodeUnauthorized {
		t.Error(err)
	}
	if c, err := off.Identify(secret, ""); err != nil || c.Unknown() {
		t.Error(err)
	}
}

func TestIdentify(t *testing.T) {
	t.Parallel()
	now := newClock()
	web, webToken := made(t, "web", "take", "2026-12-02")
	ops, opsToken := made(t, "ops", "admin", "")
	g := newGuard(t, &access.Options{Tokens: []access.Token{webToken, opsToken}, Clock: now.now})
	for secret, want := range map[string]string{web: "web", ops: "ops"} {
		if c, err := g.Identify(secret, "a"); err != nil || c.Name != want || c.From != "a" {
			t.Errorf("%v, %v", c, err)
		}
	}
	for _, secret := range []string{
		"", " ", access.NewToken(), web[:len(web)-1], web + "A", web[1:], strings.ToLower(web), web + "\n", " " + web, "Bearer " + web,
		webToken.Hash.String(), strings.Repeat("\x00", 50), strings.Repeat("A", 1<<20), web + ops, strings.Repeat(web, 10),
	} {
		if c, err := g.Identify(secret, "a"); code(err) != access.CodeUnauthorized || c != nil {
			t.Errorf("%.60q: %v, %v", secret, c, err)
		}
	}
	held, err := g.Identify(web, "a")
	if err != nil {
		t.Fatal(err)
	}
	now.pass(24*time.Hour - time.Nanosecond)
	if _, err := g.Still(held); err != nil {
		t.Error(err)
	}
	now.pass(time.Nanosecond)
	if _, err := g.Identify(web, "a"); code(err) != access.CodeExpired {
		t.Error(err)
	}
	if _, err := g.Still(held); code(err) != access.CodeExpired {
		t.Error(err)
	}
	if _, err := g.Identify(ops, "a"); err != nil {
		t.Error(err)
	}
}

// TestComparisonsAreConstantTime is about how the code is made, as a measurement would be of the machine: what a caller presents is
// hashed, all tokens are gone through, and nothing but subtle compares.
func TestComparisonsAreConstantTime(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("guard.go")
	if err != nil {
		t.Fatal(err)
	}
	find := regexp.MustCompile(`(?s)func \(t \*table\) find\(h \*Hash\) \*Token \{\n(.*?)\n\}`).FindSubmatch(source)
	if find == nil {
		t.Fatal("the comparison is not where this test looks for it")
	}
	loop := regexp.MustCompile(`(?s)for i := range t\.tokens \{\n(.*?)\n\t\}`).FindSubmatch(find[1])
	want := "\t\tat = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(h[:], t.tokens[i].Hash[:]), i, at)"
	if loop == nil || string(loop[1]) != want {
		t.Errorf("the loop over the tokens is %s", loop)
	}
}

func TestTokensFile(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	now := newClock()
	path := filepath.Join(t.TempDir(), "tokens")
	web, webToken := made(t, "web", "take", "")
	ops, opsToken := made(t, "ops", "admin", "")
	cfg, cfgToken := made(t, "cfg", "read", "")
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := access.New(&access.Options{TokensFile: path}); err == nil || !strings.Contains(err.Error(), "access.tokens_file") {
		t.Errorf("a file that is not there: %v", err)
	}
	put("bad\n")
	if _, err := access.New(&access.Options{TokensFile: path}); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("a file that is wrong: %v", err)
	}
	put(webToken.String() + "\n")
	g := newGuard(t, &access.Options{
		TokensFile: path, Tokens: []access.Token{cfgToken}, Clock: now.now, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	who := func(secret string) string {
		c, err := g.Identify(secret, "a")
		if err != nil {
			return code(err)
		}
		return c.Name
	}
	expect := func(want ...string) {
		t.Helper()
		if got := []string{who(web), who(ops), who(cfg)}; strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%v, want %v", got, want)
		}
	}
	expect("web", "unauthorized", "cfg")
	held, _ := g.Identify(web, "a")

	put(opsToken.String() + "\n")
	expect("web", "unauthorized", "cfg") // it is looked at once a second at most
	now.pass(time.Second)
	expect("unauthorized", "ops", "cfg")
	if _, err := g.Still(held); code(err) != access.CodeUnauthorized {
		t.Errorf("a caller whose token was removed: %v", err)
	}

	put(webToken.String() + "\nwrong\n")
	now.pass(time.Second)
	expect("unauthorized", "ops", "cfg")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	now.pass(time.Second)
	expect("unauthorized", "ops", "cfg")
	put(strings.Replace(opsToken.String(), "admin", "take", 1) + "\n")
	now.pass(time.Second)
	if c, err := g.Identify(ops, "a"); err != nil || c.May(access.Reset) {
		t.Errorf("%v, %v", c, err)
	}
	put(webToken.String() + "\n" + opsToken.String() + "\n")
	if err := g.Reload(); err != nil {
		t.Error(err)
	}
	expect("web", "ops", "cfg")
	if err := g.Set(nil, nil); err != nil {
		t.Error(err)
	}
	expect("web", "ops", "unauthorized")

	text := log.String()
	for _, want := range []string{"the tokens of before stay", "line 2", "action=tokens outcome=done who=server before=2 now=2 audit=true", "outcome=failed"} {
		if !strings.Contains(text, want) {
			t.Errorf("the log lacks %q:\n%s", want, text)
		}
	}
	for _, secret := range []string{web, ops, cfg} {
		if strings.Contains(text, secret) {
			t.Error("a token is in the log")
		}
	}
}

func TestCallsAreLimited(t *testing.T) {
	t.Parallel()
	web, webToken := made(t, "web", "take", "")
	ops, opsToken := made(t, "ops", "take", "")
	limit := ration.FixedWindow{Limit: 3, Window: time.Hour}
	g := newGuard(t, &access.Options{Tokens: []access.Token{webToken, opsToken}, Limit: limit})
	count := func(g *access.Guard, c *access.Caller, n int) string {
		err := g.Count(c, n)
		if r, ok := errors.AsType[*access.Refusal](err); ok && (r.Status != 429 || r.RetryAfter < time.Second || r.RetryAfter > time.Hour) {
			t.Errorf("%+v", r)
		}
		return code(err)
	}
	a, _ := g.Identify(web, "192.0.2.1")
	b, _ := g.Identify(web, "192.0.2.2") // another address, the same token
	c, _ := g.Identify(ops, "192.0.2.1")
	if got := []string{count(g, a, 2), count(g, b, 1), count(g, a, 1), count(g, b, 1), count(g, c, 3), count(g, c, 1)}; fmt.Sprint(got) !=
		fmt.Sprint([]string{"<nil>", "<nil>", "too_many_requests", "too_many_requests", "<nil>", "too_many_requests"}) {
		t.Error(got)
	}
	off := newGuard(t, &access.Options{Limit: limit, FreeOnLoopback: true})
	for range 10 {
		for _, here := range []string{"127.0.0.1", "::1", "unix", "127.9.9.9", "::ffff:127.0.0.1"} {
			if got := count(off, off.Nobody(here), 1); got != "<nil>" {
				t.Errorf("%s: %s", here, got)
			}
		}
	}
	// A /64 is one caller.
	if got := []string{count(off, off.Nobody("2001:db8::1"), 3), count(off, off.Nobody("2001:db8::ffff:1"), 1), count(off, off.Nobody("2001:db8:0:1::1"), 1)}; fmt.Sprint(got) !=
		fmt.Sprint([]string{"<nil>", "too_many_requests", "<nil>"}) {
		t.Error(got)
	}
	if err := g.Count(nil, 1); err != nil {
		t.Error(err)
	}
}

// TestFailuresAreLimited: who guesses is told to wait, and keeps nobody out who knows.
func TestFailuresAreLimited(t *testing.T) {
	t.Parallel()
	web, webToken := made(t, "web", "take", "")
	g := newGuard(t, &access.Options{Tokens: []access.Token{webToken}, FailedLimit: ration.FixedWindow{Limit: 3, Window: time.Hour}})
	for i := range 6 {
		want := access.CodeUnauthorized
		if i >= 3 {
			want = access.CodeTooMany
		}
		if _, err := g.Identify(access.NewToken(), "192.0.2.1"); code(err) != want {
			t.Errorf("%d: %v", i, err)
		}
		if _, err := g.Identify(web, "192.0.2.1"); err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	if _, err := g.Identify(access.NewToken(), "192.0.2.2"); code(err) != access.CodeUnauthorized {
		t.Error(err)
	}
}

func TestAudit(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	ops, opsToken := made(t, "ops", "admin", "")
	web, webToken := made(t, "web", "take", "")
	opts := &access.Options{Tokens: []access.Token{opsToken, webToken}, KeySecret: []byte("0123456789abcdef"), Audit: slog.New(slog.NewJSONHandler(&log, nil))}
	g := newGuard(t, opts)
	as := func(secret string) context.Context {
		c, err := g.Identify(secret, "192.0.2.1")
		if err != nil {
			t.Fatal(err)
		}
		return access.With(t.Context(), c)
	}
	key := ration.KeyOf("alice@example.com")
	line := func(do func()) string {
		log.Reset()
		do()
		return strings.TrimSpace(log.String())
	}
	got := line(func() {
		access.Record(as(ops), access.Action{What: "reset", Limit: "chat", Key: &key, Outcome: "done"})
	})
	for _, want := range []string{`"action":"reset"`, `"who":"ops"`, `"from":"192.0.2.1"`, `"limit":"chat"`, `"outcome":"done"`, `"key":"` + g.Fingerprint(key) + `"`} {
		if !strings.Contains(got, want) {
			t.Errorf("%s lacks %s", got, want)
		}
	}
	if strings.Contains(got, "alice") {
		t.Errorf("the key is in %s", got)
	}
	other := newGuard(t, &access.Options{KeySecret: []byte("0123456789abcdef")})
	mine := newGuard(t, &access.Options{})
	if a, b := g.Fingerprint(key), other.Fingerprint(key); a != b || a == g.Fingerprint(key.In("x")) || a == mine.Fingerprint(key) {
		t.Errorf("%s %s %s", a, b, mine.Fingerprint(key))
	}
	if a, b := mine.Fingerprint(key), mine.Fingerprint(key); a != b || a == newGuard(t, &access.Options{}).Fingerprint(key) {
		t.Error("without a secret a fingerprint is of one process")
	}

	// A cancel of one's own is no admin action.
	access.Reserved(as(web), "r1")
	if got := line(func() { access.RecordCancel(as(web), "r1", "done") }); got != "" {
		t.Error(got)
	}
	got = line(func() { access.RecordCancel(as(ops), "r1", "done") })
	if !strings.Contains(got, `"action":"cancel"`) || !strings.Contains(got, `"owner":"web"`) || strings.Contains(got, `"r1"`) {
		t.Error(got)
	}
	if got := line(func() { access.RecordCancel(as(ops), "r2", "done") }); !strings.Contains(got, `"who":"ops"`) {
		t.Error(got)
	}
	if got := line(func() { access.RecordCancel(as(web), "r2", "done") }); got != "" {
		t.Error(got)
	}
	if got := line(func() { g.Record(access.Action{What: "reload", Outcome: "failed"}) }); !strings.Contains(got, `"who":"server"`) {
		t.Error(got)
	}
}
