package server

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/ration-go/ration/server/dashboard"
)

// DashboardConfig is the dashboard at "/", and what it and "ration top" show. See docs/dashboard.md.
type DashboardConfig struct {
	// Serve is "on", "off", or "auto", the default: on if Listen is on loopback. Where it is off, nothing is recorded.
	Serve string
	// ClearKeys shows keys themselves beside their fingerprints, to whoever can see the dashboard.
	ClearKeys bool
}

const dashboardAuto = "auto"

// dashboardServed reports whether c has a dashboard.
func (c *Config) dashboardServed() bool {
	if c.Dashboard.Serve != dashboardAuto {
		return c.Dashboard.Serve == "on"
	}
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && addr.IsLoopback()
}

// ofActivity begins the paths of what the dashboard shows.
const ofActivity = "/v1/activity"

// addDashboard adds the dashboard's files, and answers their paths. Everybody may have them: they tell nothing.
func (p *pages) addDashboard() (paths []string) {
	page := dashboard.Handler()
	for _, path := range dashboard.Paths() {
		p.at[path] = page
	}
	return dashboard.Paths()
}

// withoutDashboard hides it where a server on loopback was asked to listen elsewhere too.
func withoutDashboard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path := r.URL.Path; dashboard.Has(path) || path == ofActivity || strings.HasPrefix(path, ofActivity+"/") {
			forbid(w, "no_dashboard", "the dashboard is shown on loopback only, unless the setting dashboard.serve is on")
			return
		}
		next.ServeHTTP(w, r)
	})
}
