package redisstore

import (
	"strings"
	"testing"
)

func TestParseURL(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"redis://localhost":                           "localhost:6379",
		"redis://localhost:1/":                        "localhost:1",
		"redis://u:p%40ss@h:1/3":                      "h:1 u p@ss db3",
		"redis://:p@h":                                "h:6379  p",
		"rediss://h":                                  "h:6379 tls",
		"redis://[::1]:7":                             "[::1]:7",
		"redis://[::1]":                               "[::1]:6379",
		"redis-cluster://a:1,b:2":                     "a:1,b:2",
		"rediss-cluster://a,b":                        "a:6379,b:6379 tls",
		"redis-sentinel://u:p@a,b:2/main/1":           "a:26379,b:2 u p db1 main",
		"redis-sentinel://a/main?sentinel_password=x": "a:26379 main",
		"http://h":                                    "",
		"redis:h":                                     "",
		"redis://":                                    "",
		"redis://h:0":                                 "",
		"redis://h:99999":                             "",
		"redis://a,b":                                 "",
		"redis://h/x":                                 "",
		"redis://h?x=secret":                          "",
		"redis-cluster://h/1":                         "",
		"redis-sentinel://h":                          "",
		"redis-other://h":                             "",
		"redis://u:secret%zz@h":                       "",
		"redis-sentinel://u:secret@h/main?sentinel_password=%zzz": "",
	} {
		o, err := parseURL(raw)
		if err != nil {
			if want != "" || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: %v", raw, err)
			}
			continue
		}
		got := strings.Join(o.InitAddress, ",")
		if o.Username+o.Password != "" {
			got += " " + o.Username + " " + o.Password
		}
		if o.SelectDB > 0 {
			got += " db" + string(rune('0'+o.SelectDB))
		}
		if o.TLSConfig != nil {
			got += " tls"
		}
		if o.Sentinel.MasterSet != "" {
			got += " " + o.Sentinel.MasterSet
		}
		if got != want {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	}
}
