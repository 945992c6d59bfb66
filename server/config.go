package server

import (
	"errors"
	"log/slog"
	"time"

	"github.com/ration-go/ration"
)

// DefaultListen is where the server listens unless told otherwise: this machine only.
const DefaultListen = "127.0.0.1:7531"

// suggestedGRPC is where gRPC may be served, in examples.
const suggestedGRPC = "127.0.0.1:7532"

// DefaultStore is the store of the program ration: a file in the working folder.
const DefaultStore = "sqlite:ration.db"

// Config says what a server does. It is one struct behind the file, the environment and the flags: read it with [Load], or
// start from [Defaults], and change fields as needed. It is not changed by [New].
type Config struct {
	// Listen is host:port, or unix: and the path of a socket. Port 0 is any free port. A host beyond loopback is served only if callers are asked who they are: see
	// Access.
	Listen string
	// Hosts are names, beside localhost and addresses, under which a server on loopback may be called: those that a proxy
	// in front of it passes on. Others are refused, since a web page can make a name of its own mean this machine.
	Hosts []string
	// SocketMode is that of sockets, as "0600", the default, which is for the user alone, or "0660", which is also for the group.
	SocketMode string
	// GRPC is for programs that speak gRPC, and for Envoy.
	GRPC GRPCConfig
	// Envoy is for Envoy's rate limit service. Without configurations there is none.
	Envoy EnvoyConfig
	// RESP is for programs that send CL.THROTTLE to a Redis.
	RESP RESPConfig
	// Store is a URL; its scheme is one of Options.Stores: "memory:", "sqlite:PATH", "postgres://…", "redis://…".
	Store string
	// Namespace keeps applications on one store apart. At most 256 bytes.
	Namespace string
	// KeySecretFile, if set, names a file whose content makes the store see HMAC-SHA-256 of keys and groups. At least 16
	// bytes, without the line break at its end.
	KeySecretFile string
	// OnError is for limits that do not say: what to do when the store could not tell. Deny by default.
	OnError ration.OnError
	// Outage is for a store that is slow or dead; the zero value is the defaults of ration.Outage.
	Outage ration.Outage
	// RememberRefusals is ration.Options.RememberRefusals: at most a second; zero, the default, is not at all.
	RememberRefusals time.Duration
	// Timeout is that of each store call. 5 s by default.
	Timeout time.Duration
	// ShutdownTimeout bounds how long a stop waits for calls under way. 10 s by default.
	ShutdownTimeout time.Duration

	// Watch has the command serve read the configuration anew when one of its files changes. True by default.
	Watch bool
	// Access says who may call.
	Access AccessConfig
	// TLS is for all listeners but sockets.
	TLS TLSConfig
	// API bounds how often.
	API APIConfig
	// Metrics are for Prometheus.
	Metrics MetricsConfig
	// OTel has a collector of OpenTelemetry told of metrics and traces.
	OTel OTelConfig
	// Audit is for what is done by admins.
	Audit AuditConfig

	// Dashboard is the page for people at "/", and what it shows.
	Dashboard DashboardConfig

	Log      LogConfig
	SQLite   SQLiteConfig
	Memory   MemoryConfig
	Postgres PostgresConfig
	Redis    RedisConfig

	// Overrides are exceptions from the named limits, for single keys; they are kept in the store.
	Overrides OverridesConfig

	// Limits are the named limits, in the order of the file.
	Limits []ration.Rule
	// Checks are those of the limits that proxies can ask about their requests; by default none.
	Checks []CheckConfig
	// Trials are what is tried out about the limits; by default nothing.
	Trials []TrialConfig
}

// GRPCConfig says where gRPC is served.
type GRPCConfig struct {
	Listen string // host:port, or unix: and a path; "", the default: nowhere
}

// EnvoyConfig is for Envoy's rate limit service, which is served where gRPC is. See package envoyrls.
type EnvoyConfig struct {
	Configs         []string // files, or folders of files *.yaml; each describes a domain
	Merge           bool     // several files may describe one domain
	ResponseHeaders bool     // add RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset to responses
	DynamicMetadata bool     // tell filters behind Envoy's which descriptors there were, and which quotas were exceeded
	ShadowMode      bool     // every answer is OK
	QuotaMode       bool     // every rule is of quota_mode
}

// LogConfig says what is logged, to standard error. Keys are never logged.
type LogConfig struct {
	Level  slog.Level // default info; debug logs each call
	Format string     // "text", the default, or "json"
}

// SQLiteConfig is for stores of the scheme sqlite.
type SQLiteConfig struct {
	// Synchronous is "full", the default: an answered charge outlives a crash of the machine; or "normal": it outlives a
	// crash of the process, and the last moments may be lost with the machine.
	Synchronous string
}

// MemoryConfig is for stores of the scheme memory. Zero is the default of memstore.
type MemoryConfig struct {
	MaxKeys  int   // default 1 million
	MaxBytes int64 // default 256 MiB
}

// PostgresConfig is for stores of the scheme postgres. Pool, time-outs and TLS stand in the URL.
type PostgresConfig struct {
	Schema  string // default "ration"
	Migrate string // "auto", the default: make or renew the schema at the start; or "off": "ration migrate" did it
}

// RedisConfig is for stores of Redis, Valkey and Upstash.
type RedisConfig struct {
	Prefix       string // of all keys; default "ration:"
	WaitReplicas int    // replicas that must have a charge before it is acknowledged; not for Upstash
}

// OverridesConfig says how soon a server sees what was changed by others.
type OverridesConfig struct {
	// Poll is the time between two questions to the store; every change is in force within twice that. 0, the default, is a second,
	// and 30 s for Upstash, which bills requests. Below zero there are no overrides.
	Poll time.Duration
}

// Defaults is the configuration of a server that was told nothing.
func Defaults() *Config {
	return &Config{
		Listen:          DefaultListen,
		SocketMode:      "0600",
		TLS:             TLSConfig{ClientAuth: "require"},
		Store:           DefaultStore,
		OnError:         ration.DenyOnError,
		Outage:          ration.Outage{Failures: 5, Probe: time.Second, Parts: 10, MaxKeys: 100_000},
		Timeout:         5 * time.Second,
		ShutdownTimeout: 10 * time.Second,
		Watch:           true,
		Metrics:         MetricsConfig{Enabled: true},
		OTel:            OTelConfig{Sample: 1},
		Dashboard:       DashboardConfig{Serve: dashboardAuto},
		Log:             LogConfig{Level: slog.LevelInfo, Format: "text"},
		SQLite:          SQLiteConfig{Synchronous: "full"},
		Postgres:        PostgresConfig{Schema: "ration", Migrate: "auto"},
		Redis:           RedisConfig{Prefix: "ration:"},
	}
}

// Validate says all that is wrong with c, one error for each fault. It opens nothing.
func (c *Config) Validate() error {
	var faults []error
	for _, s := range settings {
		if err := s.set(new(Config), s.get(c)); err != nil {
			faults = append(faults, fault{name: s.name, err: err})
		}
	}
	if len(c.Envoy.Configs) > 0 && c.GRPC.Listen == "" {
		faults = append(faults, fault{name: "envoy.configs", err: errors.New("Envoy asks over gRPC; set grpc.listen too, such as " + suggestedGRPC)})
	}
	faults = append(faults, c.validateAccess()...)
	seen := map[string]bool{}
	for _, rule := range c.Limits {
		at := "limits." + rule.Name
		switch {
		case rule.Name == "":
			faults = append(faults, fault{name: "limits", err: errors.New("a limit has no name; a limit of the configuration is used by its name")})
		case seen[rule.Name]:
			faults = append(faults, fault{name: at, err: errors.New("two limits have this name; names must differ")})
		default:
			if err := rule.Validate(); err != nil {
				faults = append(faults, fault{name: at, err: err})
			}
		}
		seen[rule.Name] = true
	}
	faults = append(faults, c.validateTrials()...)
	return errors.Join(append(faults, c.validateChecks()...)...)
}

// A fault is one thing that is wrong with a configuration.
type fault struct {
	file string // or RATION_…, or --flag; "": not known
	line int    // of the file; 0: none
	name string // of the setting; "": none
	err  error
}
