package server

import "testing"

func TestRedacted(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"memory:":                     "memory:",
		"sqlite:a@b.db":               "sqlite:a@b.db",
		"sqlite:///var/x.db":          "sqlite:///var/x.db",
		"postgres://u:p@h:1/d":        "postgres://u:xxxxx@h:1/d",
		"postgres://u@h/d":            "postgres://u:xxxxx@h/d",
		"redis://:p/w@h/1":            "redis://:xxxxx@h/1",
		"redis://:p@w@h/1":            "redis://:xxxxx@h/1",
		"postgres://h/d?password=p":   "postgres://h/d",
		"postgres://u:p@h/d?sslkey=k": "postgres://u:xxxxx@h/d",
	} {
		if got := redacted(url); got != want {
			t.Errorf("%s is shown as %s", url, got)
		}
	}
}
