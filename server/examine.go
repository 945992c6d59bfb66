package server

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/redisscript"
	"github.com/ration-go/ration/server/doctor"
	"github.com/ration-go/ration/upstashstore"
)

// ExamineFunc makes what the command doctor looks at of the store that url names: its checks, and how to open it without
// changing it. cfg is valid. It reaches nothing itself; the checks do. Fields Store and Secrets are set by the server.
type ExamineFunc func(url string, cfg *Config, opts *doctor.Options) *doctor.Subject

// Doctor examines cfg and the store that it names. It takes no longer than the checks may; see package doctor. nil opts have
// no store, nil ask is the defaults.
func Doctor(ctx context.Context, cfg *Config, opts *Options, ask *doctor.Options) *doctor.Report {
	opts = opts.resolved()
	ask = ask.WithDefaults()
	store, err := parseStoreURL(cfg.Store)
	s := &doctor.Subject{}
	if err == nil {
		s, err = opts.subject(store, cfg, ask)
	}
	s.Store, s.Secrets = redacted(cfg.Store), append(s.Secrets, secretsOf(cfg.Store)...)
	check := doctor.Check{Name: "configuration", Do: func(_ context.Context, say func(doctor.Finding)) bool {
		err := errors.Join(cfg.Validate(), err)
		if err != nil {
			for _, f := range invalid(err) {
				say(f)
			}
			return false
		}
		for _, f := range configFindings(cfg, ask) {
			say(f)
		}
		return true
	}}
	s.Checks = append([]doctor.Check{check}, s.Checks...)
	return doctor.Run(ctx, s, ask)
}

func (o *Options) subject(url string, cfg *Config, ask *doctor.Options) (*doctor.Subject, error) {
	open, err := o.opener(url)
	if err != nil {
		return &doctor.Subject{}, err
	}
	scheme, _, _ := strings.Cut(url, ":")
	if examine := o.Examinations[scheme]; examine != nil {
		return examine(url, cfg, ask), nil
	}
	return &doctor.Subject{Open: func(ctx context.Context) (driver.Store, error) { return open(ctx, url, cfg) }}, nil
}

// invalid is the faults of a configuration as findings.
func invalid(err error) (all []doctor.Finding) {
	for _, one := range faultsOf(err) {
		where := one.file
		if one.line > 0 {
			where += fmt.Sprintf(":%d", one.line)
		}
		if where != "" && one.name != "" {
			where += ": "
		}
		all = append(all, doctor.Finding{Severity: doctor.Error, Code: "config.invalid", Where: where + one.name, Text: one.message(),
			Remedy: "correct it; \"ration config check\" says the same"})
	}
	return all
}

// secretsOf are the parts of a store's URL that nobody is to see: passwords, as they stand there and decoded.
func secretsOf(store string) (secrets []string) {
	add := func(text string) {
		if plain, err := url.PathUnescape(text); err == nil && plain != text && plain != "" {
			secrets = append(secrets, plain)
		}
		if text != "" {
			secrets = append(secrets, text)
		}
	}
	_, rest, found := strings.Cut(store, "//")
	if !found {
		return nil
	}
	rest, query, _ := strings.Cut(rest, "?")
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		_, password, _ := strings.Cut(rest[:at], ":")
		add(password)
	}
	for pair := range strings.SplitSeq(query, "&") {
		if name, value, _ := strings.Cut(pair, "="); strings.Contains(name, "password") {
			add(value)
		}
	}
	return secrets
}

// ExamineUpstash is an ExamineFunc for the scheme upstash, as OpenUpstash is its OpenFunc.
func ExamineUpstash(store string, cfg *Config, ask *doctor.Options) *doctor.Subject {
	first := func(names ...string) string {
		for _, name := range names {
			if v := ask.Getenv(name); v != "" {
				return v
			}
		}
		return ""
	}
	address := first("UPSTASH_REDIS_REST_URL", "KV_REST_API_URL")
	token := first("UPSTASH_REDIS_REST_TOKEN", "KV_REST_API_TOKEN")
	return &doctor.Subject{
		Secrets: []string{token},
		Checks: []doctor.Check{{Name: "connection", Do: func(ctx context.Context, say func(doctor.Finding)) bool {
			if store != "upstash:" {
				say(doctor.Finding{Severity: doctor.Error, Code: "config.store", Where: "store", Text: errUpstash.Error(), Remedy: "correct the setting store"})
				return false
			}
			return upstashConnection(ctx, address, token, ask.Now(), say)
		}}},
		Open: func(context.Context) (driver.Store, error) {
			return upstashstore.New(&upstashstore.Options{URL: address, Token: token, Prefix: cfg.Redis.Prefix, SweepEvery: -1}), nil
		},
		Explain: func(err error) (f doctor.Finding, ok bool) {
			var refused *redisscript.ServerError
			if !errors.As(err, &refused) {
				return f, false
			}
			switch refused.Code {
			case "WRONGPASS", "NOAUTH", "Unauthorized":
				return doctor.Failure(fmt.Errorf("%w: %w", doctor.ErrAuth, err), "upstash:"), true
			case "NOPERM":
				return doctor.Finding{Severity: doctor.Error, Code: "redis.rights", Where: "upstash:", Text: refused.Text,
					Remedy: "use the token that may write, not the one that only reads"}, true
			}
			return f, false
		},
	}
}

func upstashConnection(ctx context.Context, address, token string, now time.Time, say func(doctor.Finding)) bool {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || token == "" {
		say(doctor.Finding{Severity: doctor.Error, Code: "config.store", Where: "upstash:",
			Text:   "the URL or the token of the database is not there, or no URL",
			Remedy: "set UPSTASH_REDIS_REST_URL and UPSTASH_REDIS_REST_TOKEN"})
		return false
	}
	if ends, ok := tokenEnd(token); ok {
		for _, f := range doctor.TokenFindings("UPSTASH_REDIS_REST_TOKEN", ends, now) {
			say(f)
		}
	}
	return doctor.DialURL(ctx, u, now, say)
}

// tokenEnd is the time of expiry in a JSON Web Token, if token is one and has one.
func tokenEnd(token string) (time.Time, bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}, false
	}
	body, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}, false
	}
	var claims struct {
		Exp float64 `json:"exp"`
	}
	if err := json.Unmarshal(body, &claims); err != nil || claims.Exp <= 0 || claims.Exp > 1e11 {
		return time.Time{}, false
	}
	return time.Unix(int64(claims.Exp), 0), true
}
