package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ration-go/ration"
)

// A setting is one value of a Config that file, environment and flags can give, as text. All three go through set, so
// that a value means the same in each.
type setting struct {
	name  string // in the file, with dots for maps: "log.level"
	value string // what is expected, for help: "HOST:PORT"
	help  string
	set   func(c *Config, text string) error
	get   func(c *Config) string // as set reads it
	live  bool                   // a change is applied by a reload; false: it needs a restart
}

// flag is "log-level".
func (s *setting) flag() string { return strings.NewReplacer(".", "-", "_", "-").Replace(s.name) }

// env is "RATION_LOG_LEVEL".
func (s *setting) env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(s.name, ".", "_"))
}

var settings = slices.Concat(mainSettings, telemetrySettings)

var mainSettings = []*setting{
	{
		name: "listen", value: "HOST:PORT", help: "where to serve HTTP; port 0 is any free one; unix:/PATH is a socket",
		set: func(c *Config, text string) error { c.Listen = text; return checkListen(text) },
		get: func(c *Config) string { return c.Listen },
	},
	{
		name: "socket_mode", value: "0600|0660", help: "who may use sockets: the user alone, or its group too",
		set: func(c *Config, text string) (err error) { c.SocketMode, err = oneOf(text, "0600", "0660"); return err },
		get: func(c *Config) string { return c.SocketMode },
	},
	{
		name: "hosts", value: "NAME,...", help: "further names under which a server on loopback may be called",
		set: func(c *Config, text string) (err error) { c.Hosts, err = parseHosts(text); return err },
		get: func(c *Config) string { return strings.Join(c.Hosts, ",") },
	},
	{
		name: "grpc.listen", value: "HOST:PORT", help: "where to serve gRPC as well, such as " + suggestedGRPC,
		set: func(c *Config, text string) error {
			if c.GRPC.Listen = text; text == "" {
				return nil
			}
			return checkListen(text)
		},
		get: func(c *Config) string { return c.GRPC.Listen },
	},
	{
		name: "resp.listen", value: "HOST:PORT", help: "where to serve CL.THROTTLE over Redis's protocol, such as " + suggestedRESP,
		set: func(c *Config, text string) error {
			if c.RESP.Listen = text; text == "" {
				return nil
			}
			return checkListen(text)
		},
		get: func(c *Config) string { return c.RESP.Listen },
	},
	{
		name: "store", value: "URL", help: "where counts are kept: sqlite:PATH, memory:, postgres://…, redis://… or upstash:",
		set: func(c *Config, text string) (err error) { c.Store, err = parseStoreURL(text); return err },
		get: func(c *Config) string { return c.Store },
	},
	{
		name: "namespace", value: "NAME", help: "keeps applications on one store apart",
		set: func(c *Config, text string) error {
			c.Namespace = text
			if len(text) > 256 {
				return fmt.Errorf("a namespace of %d bytes is longer than 256", len(text))
			}
			return nil
		},
		get: func(c *Config) string { return c.Namespace },
	},
	{
		name: "key_secret_file", value: "FILE", help: "store keyed hashes of keys, with the secret in this file",
		set: func(c *Config, text string) error { c.KeySecretFile = text; return nil },
		get: func(c *Config) string { return c.KeySecretFile },
	},
	{
		live: true, name: "on_error", value: "deny|allow|local", help: "what a limit that does not say does when the store could not tell",
		set: func(c *Config, text string) (err error) { c.OnError, err = parseOnError(text); return err },
		get: func(c *Config) string { return c.OnError.String() },
	},
	{
		name: "outage.failures", value: "N", help: "failures in a row, after which a store is not asked until a probe finds it up",
		set: func(c *Config, text string) (err error) {
			n, err := parsePositive(text, 1_000_000)
			c.Outage.Failures = int(n)
			return err
		},
		get: func(c *Config) string { return strconv.Itoa(c.Outage.Failures) },
	},
	{
		name: "outage.probe", value: "DURATION", help: "time between two probes of a store that is down",
		set: func(c *Config, text string) (err error) {
			c.Outage.Probe, err = parseDuration(text, time.Millisecond, time.Hour)
			return err
		},
		get: func(c *Config) string { return c.Outage.Probe.String() },
	},
	{
		name: "outage.parts", value: "N", help: "on_error local admits one of so many parts of a limit; at least as many as servers",
		set: func(c *Config, text string) (err error) {
			n, err := parsePositive(text, 1_000_000)
			c.Outage.Parts = int(n)
			return err
		},
		get: func(c *Config) string { return strconv.Itoa(c.Outage.Parts) },
	},
	{
		name: "outage.max_keys", value: "N", help: "bound of the keys that on_error local counts",
		set: func(c *Config, text string) (err error) {
			n, err := parsePositive(text, 1<<31-1)
			c.Outage.MaxKeys = int(n)
			return err
		},
		get: func(c *Config) string { return strconv.Itoa(c.Outage.MaxKeys) },
	},
	{
		name: "remember_refusals", value: "DURATION", help: "repeat a refusal from memory for so long, at most 1s; 0s: never",
		set: func(c *Config, text string) (err error) {
			c.RememberRefusals, err = parseDuration(text, 0, time.Second)
			return err
		},
		get: func(c *Config) string { return c.RememberRefusals.String() },
	},
	{
		name: "timeout", value: "DURATION", help: "of each store call",
		set: func(c *Config, text string) (err error) {
			c.Timeout, err = parseDuration(text, time.Millisecond, time.Minute)
			return err
		},
		get: func(c *Config) string { return c.Timeout.String() },
	},
	{
		name: "shutdown_timeout", value: "DURATION", help: "how long a stop waits for calls under way",
		set: func(c *Config, text string) (err error) {
			c.ShutdownTimeout, err = parseDuration(text, time.Millisecond, time.Hour)
			return err
		},
		get: func(c *Config) string { return c.ShutdownTimeout.String() },
	},
	{
		name: "dashboard.serve", value: "auto|on|off", help: "whether there is a dashboard at /, and what it shows is recorded; auto: on loopback",
		set: func(c *Config, text string) (err error) {
			c.Dashboard.Serve, err = oneOf(text, dashboardAuto, "on", "off")
			return err
		},
		get: func(c *Config) string { return c.Dashboard.Serve },
	},
	boolean("dashboard.clear_keys", "whether it shows keys themselves beside their fingerprints", func(c *Config) *bool { return &c.Dashboard.ClearKeys }),
	{
		live: true, name: "log.level", value: "debug|info|warn|error", help: "what to log",
		set: func(c *Config, text string) (err error) { c.Log.Level, err = parseLevel(text); return err },
		get: func(c *Config) string { return strings.ToLower(c.Log.Level.String()) },
	},
	{
		name: "log.format", value: "text|json", help: "how to log",
		set: func(c *Config, text string) (err error) { c.Log.Format, err = oneOf(text, "text", "json"); return err },
		get: func(c *Config) string { return c.Log.Format },
	},
	{
		name: "tls.cert_file", value: "FILE", help: "the server's certificate, and those between it and the authority, in PEM; read again when changed",
		set: func(c *Config, text string) error { c.TLS.CertFile = text; return nil },
		get: func(c *Config) string { return c.TLS.CertFile },
	},
	{
		name: "tls.key_file", value: "FILE", help: "its private key, in PEM",
		set: func(c *Config, text string) error { c.TLS.KeyFile = text; return nil },
		get: func(c *Config) string { return c.TLS.KeyFile },
	},
	{
		name: "tls.client_ca_file", value: "FILE", help: "authorities of clients' certificates, in PEM; then clients are asked for one",
		set: func(c *Config, text string) error { c.TLS.ClientCAFile = text; return nil },
		get: func(c *Config) string { return c.TLS.ClientCAFile },
	},
	{
		name: "tls.client_auth", value: "require|optional", help: "whether clients without a certificate may connect, to say by a token who they are",
		set: func(c *Config, text string) (err error) {
			c.TLS.ClientAuth, err = oneOf(text, "require", "optional")
			return err
		},
		get: func(c *Config) string { return c.TLS.ClientAuth },
	},
	{
		name: "access.tokens_file", value: "FILE", help: "tokens of callers, a line each, as \"ration token new\" prints them; read again when changed",
		set: func(c *Config, text string) error { c.Access.TokensFile = text; return nil },
		get: func(c *Config) string { return c.Access.TokensFile },
	},
	boolean("access.insecure", "whether to listen beyond this machine without asking anybody who they are", func(c *Config) *bool { return &c.Access.Insecure }),
	{
		name: "api.limit", value: "LIMIT", help: "how often one caller may ask, as a limit's text, or off; by default " + DefaultAPILimit + ", but not for this machine",
		set: func(c *Config, text string) error {
			c.API.Limit = text
			_, err := limitOrOff(text, DefaultAPILimit)
			return err
		},
		get: func(c *Config) string { return c.API.Limit },
	},
	{
		name: "api.failed_limit", value: "LIMIT", help: "how often an address may fail to say who it is, or off; by default " + DefaultFailedLimit,
		set: func(c *Config, text string) error {
			c.API.FailedLimit = text
			_, err := limitOrOff(text, DefaultFailedLimit)
			return err
		},
		get: func(c *Config) string { return c.API.FailedLimit },
	},
	{
		name: "audit.file", value: "FILE", help: "where admin actions are noted, in lines of JSON; by default the log",
		set: func(c *Config, text string) error { c.Audit.File = text; return nil },
		get: func(c *Config) string { return c.Audit.File },
	},
	{
		name: "sqlite.synchronous", value: "full|normal", help: "whether a charge waits for the disk",
		set: func(c *Config, text string) (err error) {
			c.SQLite.Synchronous, err = oneOf(text, "full", "normal")
			return err
		},
		get: func(c *Config) string { return c.SQLite.Synchronous },
	},
	{
		name: "memory.max_keys", value: "N", help: "bound of keys in a memory store; 0 is its default",
		set: func(c *Config, text string) error {
			n, err := parseCount(text, 1<<31-1)
			c.Memory.MaxKeys = int(n)
			return err
		},
		get: func(c *Config) string { return strconv.Itoa(c.Memory.MaxKeys) },
	},
	{
		name: "memory.max_bytes", value: "N", help: "bound of bytes in a memory store; 0 is its default",
		set: func(c *Config, text string) (err error) { c.Memory.MaxBytes, err = parseCount(text, 1<<53); return err },
		get: func(c *Config) string { return strconv.FormatInt(c.Memory.MaxBytes, 10) },
	},
	{
		name: "postgres.schema", value: "NAME", help: "schema of the store's tables in PostgreSQL",
		set: func(c *Config, text string) error {
			if c.Postgres.Schema = text; text == "" || len(text) > 63 {
				return fmt.Errorf("%q is not the name of a schema", text)
			}
			return nil
		},
		get: func(c *Config) string { return c.Postgres.Schema },
	},
	{
		name: "postgres.migrate", value: "auto|off", help: "whether a start makes or renews that schema",
		set: func(c *Config, text string) (err error) {
			c.Postgres.Migrate, err = oneOf(text, "auto", "off")
			return err
		},
		get: func(c *Config) string { return c.Postgres.Migrate },
	},
	{
		name: "redis.prefix", value: "TEXT", help: "what all keys in Redis, Valkey or Upstash begin with",
		set: func(c *Config, text string) error {
			if c.Redis.Prefix = text; text == "" || len(text) > 64 {
				return fmt.Errorf("a prefix of %d bytes is not between 1 and 64", len(text))
			}
			return nil
		},
		get: func(c *Config) string { return c.Redis.Prefix },
	},
	{
		name: "redis.wait_replicas", value: "N", help: "replicas that must have a charge before it is acknowledged",
		set: func(c *Config, text string) error {
			n, err := parseCount(text, 16)
			c.Redis.WaitReplicas = int(n)
			return err
		},
		get: func(c *Config) string { return strconv.Itoa(c.Redis.WaitReplicas) },
	},
	{
		live: true, name: "envoy.configs", value: "PATH,...", help: "files of Envoy's rate limit service, or folders of them, to be served over gRPC",
		set: func(c *Config, text string) error { c.Envoy.Configs = parsePaths(text); return nil },
		get: func(c *Config) string { return strings.Join(c.Envoy.Configs, ",") },
	},
	atOnce(boolean("envoy.merge", "whether several of them may describe one domain", func(c *Config) *bool { return &c.Envoy.Merge })),
	boolean("envoy.response_headers", "whether Envoy adds RateLimit-… to responses", func(c *Config) *bool { return &c.Envoy.ResponseHeaders }),
	boolean("envoy.dynamic_metadata", "whether Envoy's filters are told of descriptors and quotas", func(c *Config) *bool { return &c.Envoy.DynamicMetadata }),
	boolean("envoy.shadow_mode", "whether Envoy is always told OK", func(c *Config) *bool { return &c.Envoy.ShadowMode }),
	boolean("envoy.quota_mode", "whether all of Envoy's rules are of quota_mode", func(c *Config) *bool { return &c.Envoy.QuotaMode }),
	{
		name: "overrides.poll", value: "auto|DURATION", help: "how often to ask the store for overrides; 0s: there are none",
		set: func(c *Config, text string) (err error) {
			if c.Overrides.Poll = 0; text == "auto" {
				return nil
			}
			c.Overrides.Poll, err = parseDuration(text, 0, time.Hour)
			switch {
			case err == nil && c.Overrides.Poll == 0:
				c.Overrides.Poll = -1
			case err == nil && c.Overrides.Poll < leastPoll:
				err = fmt.Errorf("%v is less than %v; 0s is for no overrides", c.Overrides.Poll, leastPoll)
			}
			return err
		},
		get: func(c *Config) string {
			switch {
			case c.Overrides.Poll == 0:
				return "auto"
			case c.Overrides.Poll < 0:
				return "0s"
			}
			return c.Overrides.Poll.String()
		},
	},
	boolean("watch", "whether a change of the configuration's files is read at once", func(c *Config) *bool { return &c.Watch }),
}

// atOnce is s as one that a reload applies.
func atOnce(s *setting) *setting {
	s.live = true
	return s
}

// boolean is a setting that is true or false.
func boolean(name, help string, field func(*Config) *bool) *setting {
	return &setting{
		name: name, value: "true|false", help: help,
		set: func(c *Config, text string) error {
			word, err := oneOf(text, "true", "false")
			*field(c) = word == "true"
			return err
		},
		get: func(c *Config) string { return strconv.FormatBool(*field(c)) },
	}
}

// leastPoll is the shortest time between two questions for overrides.
const leastPoll = 100 * time.Millisecond

// parsePaths is what stands between commas.
func parsePaths(text string) (paths []string) {
	for path := range strings.SplitSeq(text, ",") {
		if path = strings.TrimSpace(path); path != "" {
			paths = append(paths, path)
		}
	}
	return paths
}

func settingNamed(name string) *setting {
	for _, s := range settings {
		if s.name == name {
			return s
		}
	}
	return nil
}

func checkListen(text string) error {
	if path, ok := strings.CutPrefix(text, socketPrefix); ok {
		return checkSocket(path)
	}
	_, port, err := net.SplitHostPort(text)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("%q is not HOST:PORT, such as %s, or :7531 for all addresses", text, DefaultListen)
	}
	return nil
}

var hostForm = regexp.MustCompile(`^[a-z0-9_-]+(\.[a-z0-9_-]+)*$`)

func parseHosts(text string) (hosts []string, err error) {
	for _, host := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }) {
		if host = strings.ToLower(host); !hostForm.MatchString(host) {
			return nil, fmt.Errorf("%q is not the name of a host, without a port, such as limits.example.com", host)
		}
		hosts = append(hosts, host)
	}
	return hosts, nil
}

var schemeForm = regexp.MustCompile(`^[a-z][a-z0-9+-]*$`)

// parseStoreURL is text as a URL. A scheme alone may go without its colon, which YAML wants quoted.
func parseStoreURL(text string) (string, error) {
	scheme, rest, _ := strings.Cut(text, ":")
	if !schemeForm.MatchString(scheme) {
		return text, fmt.Errorf("%q is not the URL of a store; it begins with a scheme and a colon, as in %s or memory:", text, DefaultStore)
	}
	return scheme + ":" + rest, nil
}

func parseOnError(text string) (ration.OnError, error) {
	for _, o := range []ration.OnError{ration.DenyOnError, ration.AllowOnError, ration.LocalOnError} {
		if o.String() == text {
			return o, nil
		}
	}
	return ration.DenyOnError, fmt.Errorf("%q is not deny, allow or local", text)
}

func parseDuration(text string, least, most time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration with a unit, such as 500ms or 5s", text)
	}
	if d < least || d > most {
		return 0, fmt.Errorf("%v is not between %v and %v", d, least, most)
	}
	return d, nil
}

func parseLevel(text string) (slog.Level, error) {
	name, err := oneOf(text, "debug", "info", "warn", "error")
	if err != nil {
		return 0, err
	}
	var level slog.Level
	return level, level.UnmarshalText([]byte(name))
}

func parsePositive(text string, most int64) (int64, error) {
	n, err := parseCount(text, most)
	if err == nil && n == 0 {
		err = errors.New("0 is too small; it is at least 1")
	}
	return n, err
}

func parseCount(text string, most int64) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > most {
		return 0, fmt.Errorf("%q is not a whole number from 0 to %d", text, most)
	}
	return n, nil
}

func oneOf(text string, words ...string) (string, error) {
	for _, w := range words {
		if w == text {
			return w, nil
		}
	}
	return "", fmt.Errorf("%q is not %s", text, strings.Join(words, " or "))
}

// nearest is ", did you mean …?" if one of words is nearly word.
func nearest(word string, words []string) error {
	best, least := "", 3
	for _, w := range words {
		if d := distance(word, w); d < least {
			best, least = w, d
		}
	}
	if best == "" {
		return errors.New("known are " + strings.Join(words, ", "))
	}
	return errors.New("did you mean " + best + "?")
}

// distance is Levenshtein's.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := before
			if a[i] != b[j] {
				change++
			}
			before = row[j+1]
			row[j+1] = min(change, before+1, row[j]+1)
		}
	}
	return row[len(b)]
}
