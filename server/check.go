package server

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/httplimit"
	"github.com/ration-go/ration/server/httpapi"
	"github.com/ration-go/ration/server/internal/yamlnode"
)

// defaultCheckKey is whose requests are, unless a check says otherwise.
const defaultCheckKey = "header X-Ration-Key"

// CheckConfig has a limit answer proxies at GET /v1/check/{limit}, and says how their requests are read.
type CheckConfig struct {
	// Limit is the name of one of Config.Limits, of any kind but concurrent.
	Limit string
	// Key says whose a request is: "header NAME", "cookie NAME", or "ip"; "" is "header X-Ration-Key". Headers of the client come
	// through a proxy as well: name one that the proxy sets, or that the client cannot choose to its advantage.
	Key string
	// TrustedProxies are those whose word about the address of their client is taken, for the key "ip", which needs them: the
	// proxy that asks, and those in front of it.
	TrustedProxies []netip.Prefix
	// IPHeader is where they say it, for the key "ip"; "" is X-Forwarded-For. "Forwarded" is read as RFC 7239 has it.
	IPHeader string
	// NoKey is what happens to a request without key; by default it is refused, with status 403.
	NoKey httplimit.NoKey
	// CostHeader names a header with the cost, which the proxy must set; "": each costs 1.
	CostHeader string
	// Refused is the status of a refusal: 429, for which 0 stands, or 403.
	Refused int
}

var fieldForm = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// checked is c as package httpapi wants it.
func (c *CheckConfig) checked() (httpapi.Check, error) {
	check := httpapi.Check{Limit: c.Limit, NoKey: c.NoKey, CostHeader: c.CostHeader, Refused: c.Refused}
	kind, name, _ := strings.Cut(cmp.Or(c.Key, defaultCheckKey), " ")
	name = strings.TrimSpace(name)
	switch {
	case kind == "ip" && name == "":
		if len(c.TrustedProxies) == 0 {
			return check, errors.New("the key ip needs trusted_proxies, such as 127.0.0.1: this server hears of clients only from proxies")
		}
		for _, proxy := range c.TrustedProxies {
			if !proxy.IsValid() || proxy.Bits() == 0 {
				return check, fmt.Errorf("trusted_proxies: %s would be everybody, who may then claim any address", proxy)
			}
		}
		check.Key = httplimit.ByIP(&httplimit.IPOptions{Trusted: c.TrustedProxies, Header: c.IPHeader})
	case len(c.TrustedProxies) > 0 || c.IPHeader != "":
		return check, errors.New("trusted_proxies and ip_header are for the key ip")
	case kind == "header" && fieldForm.MatchString(name) && !strings.EqualFold(name, "Host"):
		check.Key = c.single(func(r *http.Request) []string { return r.Header.Values(name) })
	case kind == "cookie" && fieldForm.MatchString(name):
		check.Key = c.single(func(r *http.Request) (values []string) {
			for _, cookie := range r.CookiesNamed(name) {
				values = append(values, cookie.Value)
			}
			return values
		})
	default:
		return check, fmt.Errorf("the key %q is not ip, nor header or cookie with a name, such as %s", c.Key, defaultCheckKey)
	}
	return check, errors.Join(checkField("ip_header", c.IPHeader), checkField("cost_header", c.CostHeader))
}

func checkField(setting, name string) error {
	if name != "" && !fieldForm.MatchString(name) {
		return fmt.Errorf("%s: %q is not the name of a header", setting, name)
	}
	return nil
}

// validateChecks says what is wrong with the checks.
func (c *Config) validateChecks() (faults []error) {
	seen := map[string]bool{}
	for _, check := range c.Checks {
		at := "check." + check.Limit
		if seen[check.Limit] {
			faults = append(faults, fault{name: at, err: errors.New("there are two of them")})
		}
		seen[check.Limit] = true
		_, err := check.checked()
		if err == nil {
			err = check.applies(c.Limits)
		}
		if err != nil {
			faults = append(faults, fault{name: at, err: err})
		}
	}
	return faults
}

// applies fails if none of limits can answer c.
func (c *CheckConfig) applies(limits []ration.Rule) error {
	var names []string
	for _, rule := range limits {
		if rule.Name != c.Limit {
			names = append(names, rule.Name)
			continue
		}
		if _, slots := rule.Limit.(ration.Concurrency); slots {
			return errors.New("a limit of the kind concurrent is for reservations: nobody would let go of a slot")
		}
		return nil
	}
	if len(names) == 0 {
		return errors.New("there is no limit of this name")
	}
	return fmt.Errorf("there is no limit of this name; %w", nearest(c.Limit, names))
}

// httpChecks is the checks as package httpapi wants them. They are valid.
func (c *Config) httpChecks() (checks []httpapi.Check, err error) {
	for _, one := range c.Checks {
		check, err := one.checked()
		if err != nil {
			return nil, err
		}
		checks = append(checks, check)
	}
	return checks, nil
}

// checks reads name: key, or name: {key: …, …}, to be tested once all limits are known.
func (f *file) checks(node *yaml.Node) {
	f.nodes.Entries(node, "check.", func(key, value *yaml.Node) {
		name := "check." + key.Value
		check := CheckConfig{Limit: key.Value}
		before := len(f.nodes.Faults)
		if value = yamlnode.Followed(value); value.Kind == yaml.MappingNode {
			f.nodes.Entries(value, name+".", func(key, value *yaml.Node) { f.checkEntry(&check, name, key, value) })
		} else if text, ok := f.nodes.Text(value, name); ok {
			check.Key = text
		}
		if len(f.nodes.Faults) > before {
			return
		}
		if _, err := check.checked(); err != nil {
			f.fault(value, name, err)
			return
		}
		f.config.Checks = append(f.config.Checks, check)
		f.later = append(f.later, func() {
			if err := check.applies(f.config.Limits); err != nil {
				f.fault(key, name, err)
			}
		})
	})
}

var checkKeys = []string{"key", "trusted_proxies", "ip_header", "no_key", "cost_header", "refused"}

func (f *file) checkEntry(check *CheckConfig, name string, key, value *yaml.Node) {
	at := name + "." + key.Value
	text, ok := f.nodes.Text(value, at)
	if !ok {
		return
	}
	var err error
	switch key.Value {
	case "key":
		check.Key = text
	case "trusted_proxies":
		check.TrustedProxies, err = parsePrefixes(text)
	case "ip_header":
		check.IPHeader = text
	case "no_key":
		check.NoKey, err = parseNoKey(text)
	case "cost_header":
		check.CostHeader = text
	case "refused":
		var word string
		word, err = oneOf(text, "429", "403")
		check.Refused, _ = strconv.Atoi(word) // 0 beside an error
	default:
		f.fault(key, at, fmt.Errorf("unknown key; %w", nearest(key.Value, checkKeys)))
	}
	if err != nil {
		f.fault(value, at, err)
	}
}

// noKeys are the spellings of httplimit.NoKey, in its order.
var noKeys = []string{"refuse", "skip", "share"}

func parseNoKey(text string) (httplimit.NoKey, error) {
	for i, word := range noKeys {
		if word == text {
			return httplimit.NoKey(i), nil
		}
	}
	return 0, fmt.Errorf("%q is not %s", text, strings.Join(noKeys, " or "))
}

// parsePrefixes reads addresses and networks, with commas between them.
func parsePrefixes(text string) (prefixes []netip.Prefix, err error) {
	for _, word := range parsePaths(text) {
		prefix, err := netip.ParsePrefix(word)
		if addr, alone := netip.ParseAddr(word); alone == nil {
			prefix, err = netip.PrefixFrom(addr.WithZone(""), addr.BitLen()), nil
		}
		if err != nil {
			return nil, fmt.Errorf("%q is neither an address nor a network, such as 127.0.0.1 or 10.0.0.0/8", word)
		}
		prefixes = append(prefixes, prefix)
	}
	return prefixes, nil
}

// String is c in one line, for people.
func (c *CheckConfig) String() string {
	text := cmp.Or(c.Key, defaultCheckKey)
	if c.NoKey != httplimit.RefuseNoKey && int(c.NoKey) < len(noKeys) {
		text += ", without one " + noKeys[c.NoKey]
	}
	if c.CostHeader != "" {
		text += ", cost in " + c.CostHeader
	}
	if c.Refused != 0 {
		text += ", refused with " + strconv.Itoa(c.Refused)
	}
	return text
}

// ambiguous is whose a request is that says so several times, each time in another way.
const ambiguous = "several identities"

// single is the identity that a request has by values. If they differ, the application may take another one than is counted
// here, and who puts a new one in front of its own each time would be somebody else each time. Such requests have no identity; where
// requests without one pass, they are counted together.
func (c *CheckConfig) single(values func(*http.Request) []string) httplimit.KeyFunc {
	return func(r *http.Request) string {
		all := values(r)
		for _, other := range all[min(1, len(all)):] {
			switch {
			case other == all[0]:
			case c.NoKey == httplimit.RefuseNoKey:
				return ""
			default:
				return ambiguous
			}
		}
		if len(all) == 0 {
			return ""
		}
		return all[0]
	}
}
