package server

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/server/doctor"
)

// configFindings is what is valid in cfg, and probably not meant.
func configFindings(cfg *Config, ask *doctor.Options) []doctor.Finding {
	l := &configLook{cfg: cfg, ask: ask}
	l.scheme, _, _ = strings.Cut(cfg.Store, ":")
	l.times()
	l.unused()
	l.secret()
	l.tokens()
	l.certificate()
	for i := range cfg.Limits {
		l.limit(&cfg.Limits[i])
	}
	l.names()
	l.parts()
	return l.found
}

type configLook struct {
	cfg    *Config
	ask    *doctor.Options
	scheme string
	found  []doctor.Finding
}

func (l *configLook) say(severity doctor.Severity, code, where, text, remedy string) {
	l.found = append(l.found, doctor.Finding{Severity: severity, Code: code, Where: where, Text: text, Remedy: remedy})
}

// mostTimeout is how long programs usually wait for an answer, at most.
const mostTimeout = 30 * time.Second

func (l *configLook) times() {
	if l.cfg.ShutdownTimeout < l.cfg.Timeout {
		l.say(doctor.Warning, "config.shutdown", "shutdown_timeout",
			fmt.Sprintf("%v is less than the timeout of a store call (%v): a stop can cut calls off", l.cfg.ShutdownTimeout, l.cfg.Timeout),
			"set it to more than timeout")
	}
	if l.cfg.Timeout > mostTimeout {
		l.say(doctor.Note, "config.timeout", "timeout", fmt.Sprintf("most callers do not wait for %v", l.cfg.Timeout), "set it to less than what callers wait")
	}
}

// belongs are the schemes of the stores for which settings of a prefix are.
var belongs = map[string][]string{
	"sqlite.":   {"sqlite"},
	"memory.":   {"memory"},
	"postgres.": {"postgres", "postgresql"},
	"redis.":    {"redis", "rediss", "redis-cluster", "rediss-cluster", "redis-sentinel", "rediss-sentinel", "upstash"},
}

func (l *configLook) unused() {
	known := slices.Concat(belongs["sqlite."], belongs["memory."], belongs["postgres."], belongs["redis."])
	if !slices.Contains(known, l.scheme) {
		return // a store of somebody else's may read any
	}
	defaults := Defaults()
	for _, s := range settings {
		group, _, _ := strings.Cut(s.name, ".")
		schemes := belongs[group+"."]
		if schemes != nil && !slices.Contains(schemes, l.scheme) && s.get(l.cfg) != s.get(defaults) {
			l.say(doctor.Note, "config.unused", s.name, "it is set, and means nothing to a store of the scheme "+l.scheme, "remove it, or correct the setting store")
		}
	}
	if l.scheme == "upstash" && l.cfg.Redis.WaitReplicas > 0 {
		l.say(doctor.Warning, "config.unused", "redis.wait_replicas", "Upstash cannot be told to wait for replicas", "remove it; what Upstash keeps is up to it")
	}
}

func (l *configLook) policy(rule *ration.Rule) ration.OnError {
	if rule.OnError == 0 {
		return l.cfg.OnError
	}
	return rule.OnError
}

const (
	// shortWindow is one in which a slow answer decides more than the limit.
	shortWindow = 50 * time.Millisecond
	// nearby is how far apart calls may be that reach a store together.
	nearby   = 10 * time.Millisecond
	longHold = time.Hour
)

func (l *configLook) limit(rule *ration.Rule) {
	at := "limits." + rule.Name
	size, window := int64(0), time.Duration(0)
	switch limit := rule.Limit.(type) {
	case ration.TokenBucket:
		size = limit.Burst
		if lost := float64(limit.Refill.N) * float64(nearby) / float64(limit.Refill.Per); size > 0 && lost > float64(size) {
			l.say(doctor.Warning, "config.burst", at,
				fmt.Sprintf("%s: it is full again after less than %v, and what would refill further is lost: calls that come together get less than the rate", limit, nearby),
				fmt.Sprintf("set the burst to what may come at once, at least %.0f", lost))
		}
	case ration.SlidingWindow:
		size, window = limit.Limit, limit.Window
	case ration.FixedWindow:
		size, window = limit.Limit, limit.Window
	case ration.Budget:
		size = limit.Limit
		if l.policy(rule) == ration.AllowOnError {
			l.say(doctor.Note, "config.allow", at, "while the store is down, this budget is not kept: on_error is allow", "set on_error to deny or local, if it is money")
		}
	case ration.Concurrency:
		size = limit.Limit
		if limit.Lease > longHold {
			l.say(doctor.Note, "config.slots", at, fmt.Sprintf("a holder that dies keeps its slot for %v", limit.Lease), "make the lease short, and have holders renew it")
		}
	}
	if size == 0 {
		l.say(doctor.Warning, "config.admits_nothing", at, rule.String()+" admits nothing", "give it a size above 0, or remove it")
		return
	}
	if window > 0 && window < shortWindow {
		l.say(doctor.Note, "config.window", at, fmt.Sprintf("a window of %v is about as long as an answer takes", window), "see whether another unit was meant: 1s, 1m")
	}
	l.local(rule, at, size)
	if rule.Lease > 0 {
		l.lease(rule, at, size)
	}
}

// local looks at what is left of a limit while the store is down.
func (l *configLook) local(rule *ration.Rule, at string, size int64) {
	if l.policy(rule) != ration.LocalOnError {
		return
	}
	if _, slots := rule.Limit.(ration.Concurrency); slots {
		l.say(doctor.Note, "config.local", at, "slots are not held locally: while the store is down, on_error local refuses them", "nothing, if that is meant")
	} else if parts := int64(l.cfg.Outage.Parts); size < parts {
		l.say(doctor.Warning, "config.local", at,
			fmt.Sprintf("1/%d of %d is nothing: while the store is down, on_error local refuses all", parts, size),
			"lower outage.parts to the number of servers, or set on_error to deny")
	}
}

func (l *configLook) lease(rule *ration.Rule, at string, size int64) {
	none := ""
	switch limit := rule.Limit.(type) {
	case ration.SlidingWindow:
		if limit.Window < 100*time.Millisecond {
			none = "the window is too short for one"
		}
	case ration.FixedWindow:
		if limit.Window < time.Second {
			none = "the window ends before it pays"
		}
	case ration.TokenBucket:
		if refilled := float64(limit.Refill.N) * float64(nearby) / float64(limit.Refill.Per); 2*refilled > float64(limit.Burst) {
			none = "the bucket refills too fast for one"
		}
	}
	if l.scheme == "memory" {
		none = "a store in memory needs none"
	}
	switch {
	case none != "":
		l.say(doctor.Note, "config.lease", at, "its lease has no effect: "+none, "remove it")
	case rule.Lease > size:
		l.say(doctor.Warning, "config.lease", at, fmt.Sprintf("a lease of %d uses is more than the limit of %d has", rule.Lease, size),
			"set it to a small part of the limit: a server has that much ahead, and refuses others meanwhile")
	case l.ask.Replicas > 1 && rule.Lease > size/int64(l.ask.Replicas):
		l.say(doctor.Warning, "config.lease", at, fmt.Sprintf("%d servers with %d uses ahead each are more than the limit of %d", l.ask.Replicas, rule.Lease, size),
			"set the lease to a small part of the limit")
	}
}

// names looks for names that people confuse.
func (l *configLook) names() {
	plain := strings.NewReplacer("-", "", "_", "", ".", "")
	seen := map[string]string{}
	for _, rule := range l.cfg.Limits {
		key := plain.Replace(rule.Name)
		if other, ok := seen[key]; ok {
			l.say(doctor.Note, "config.names", "limits."+rule.Name, "it is easily confused with limits."+other+", and counts apart from it", "remove one, if they are one limit")
			continue
		}
		seen[key] = rule.Name
	}
}

// parts: of an outage, all servers together admit replicas/parts of a limit.
func (l *configLook) parts() {
	local := l.cfg.OnError == ration.LocalOnError
	for i := range l.cfg.Limits {
		local = local || l.cfg.Limits[i].OnError == ration.LocalOnError
	}
	if parts := l.cfg.Outage.Parts; local && l.ask.Replicas > parts {
		l.say(doctor.Error, "config.parts", "outage.parts",
			fmt.Sprintf("%d servers that admit 1/%d of a limit each admit more than all of it while the store is down", l.ask.Replicas, parts),
			"set it to at least the number of servers")
	}
}
