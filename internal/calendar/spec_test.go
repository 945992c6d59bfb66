package calendar

import (
	"math/rand/v2"
	"strings"
	"testing"
)

func TestText(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		spec Spec
		text string
	}{
		{Spec{Period: Hour}, "/hour"},
		{Spec{Period: Day}, "/day"},
		{Spec{Period: Day, Zone: "UTC"}, "/day"},
		{Spec{Period: Day, Zone: "Etc/UTC"}, "/day Etc/UTC"},
		{Spec{Period: Day, Hour: 6}, "/day from 06:00"},
		{Spec{Period: Week}, "/week"},
		{Spec{Period: Week, Day: 1}, "/week"},
		{Spec{Period: Week, Day: 7, Hour: 23}, "/week from Sunday 23:00"},
		{Spec{Period: Month, Zone: "Europe/Berlin", Day: 15, Hour: 6}, "/month Europe/Berlin from day 15 06:00"},
		{Spec{Period: Month, Day: 1}, "/month"},
		{Spec{Period: Year}, "/year"},
		{Spec{Period: Year, Month: 1, Day: 1}, "/year"},
		{Spec{Period: Year, Month: 4}, "/year from April"},
		{Spec{Period: Year, Month: 1, Day: 2}, "/year from January day 2"},
		{Spec{Period: Year, Zone: "America/Argentina/Buenos_Aires", Month: 2, Day: 31, Hour: 1}, "/year America/Argentina/Buenos_Aires from February day 31 01:00"},
	} {
		if got := tc.spec.String(); got != tc.text {
			t.Errorf("%+v: %q, want %q", tc.spec, got, tc.text)
		}
		if got, err := Parse(tc.text); err != nil || got != tc.spec.Normal() {
			t.Errorf("%q: %+v, %v; want %+v", tc.text, got, err, tc.spec.Normal())
		}
	}
	for text, want := range map[string]string{
		"/year from day 2":        "/year from January day 2",
		"/year UTC from january":  "/year",
		"/week from monday 00:00": "/week",
		"/week UTC from SUNDAY":   "/week from Sunday",
	} {
		if got, err := Parse(text); err != nil || got.String() != want {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestTextRandom(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for range 5000 {
		s := randomSpec(r)
		if got, err := Parse(s.String()); err != nil || got != s.Normal() {
			t.Fatalf("%+v: %q: %+v, %v", s, s, got, err)
		}
	}
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                "use /hour",
		"/":                               "use /hour",
		"day":                             "use /hour",
		"/Day":                            "use /hour",
		"/decade":                         "use /hour",
		"/day ":                           "one space",
		"/day  UTC":                       "one space",
		"/day\tUTC":                       "use /hour",
		"/day UTC ":                       "one space",
		"/day UTC 06:00":                  "use from",
		"/day from":                       "nothing after from",
		"/day UTC from":                   "nothing after from",
		"/day from from":                  "after from",
		"/day from 06:30":                 "whole hour",
		"/day from 6:00":                  "whole hour",
		"/day from 24:00":                 "00:00 to 23:00",
		"/day from -1:00":                 "00:00 to 23:00",
		"/day from 06:00 07:00":           "after the hour",
		"/day from day 2":                 "leave it out",
		"/day from Monday":                "use day N",
		"/week from day 2":                "use a weekday",
		"/week from January":              "leave it out",
		"/week from ſunday":               "after from",
		"/month from January":             "leave it out",
		"/month from day":                 "no number",
		"/month from day 0":               "1 to 31",
		"/month from day 01":              "1 to 31",
		"/month from day +1":              "1 to 31",
		"/month from day 32":              "1 to 31",
		"/month from day 1 January":       "after from",
		"/year from day 1 January":        "after from",
		"/year from January February":     "after from",
		"/hour UTC":                       "leave zone",
		"/hour from 06:00":                "leave zone",
		"/day Mars/Olympus":               "not known",
		"/day +09:00":                     "not known",
		"/day UTC+9":                      "not known",
		"/day Local":                      "on each machine",
		"/day " + strings.Repeat("A", 99): "not known",
	} {
		if got, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v; want …%s…", text, got, err, want)
		}
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		spec Spec
		want string // part of the error; "" if valid
	}{
		{Spec{}, "no period"},
		{Spec{Period: 6}, "no period"},
		{Spec{Period: Hour}, ""},
		{Spec{Period: Hour, Zone: "UTC"}, "leave zone"},
		{Spec{Period: Hour, Month: 1}, "leave zone"},
		{Spec{Period: Hour, Day: 1}, "leave zone"},
		{Spec{Period: Hour, Hour: 1}, "leave zone"},
		{Spec{Period: Day, Hour: 23}, ""},
		{Spec{Period: Day, Hour: 24}, "0 to 23"},
		{Spec{Period: Day, Hour: -1}, "0 to 23"},
		{Spec{Period: Day, Day: 1}, "leave it out"},
		{Spec{Period: Day, Month: 1}, "leave it out"},
		{Spec{Period: Week, Day: 7}, ""},
		{Spec{Period: Week, Day: 8}, "1 to 7"},
		{Spec{Period: Week, Day: -1}, "1 to 7"},
		{Spec{Period: Week, Month: 1}, "leave it out"},
		{Spec{Period: Month, Day: 31}, ""},
		{Spec{Period: Month, Day: 32}, "1 to 31"},
		{Spec{Period: Month, Day: -1}, "1 to 31"},
		{Spec{Period: Month, Month: 1}, "leave it out"},
		{Spec{Period: Year, Month: 2, Day: 30}, ""},
		{Spec{Period: Year, Month: 13}, "1 to 12"},
		{Spec{Period: Year, Month: -1}, "1 to 12"},
		{Spec{Period: Day, Zone: "Europe/Berlin"}, ""},
		{Spec{Period: Day, Zone: "Etc/GMT+9"}, ""},
		{Spec{Period: Day, Zone: "US/Pacific"}, ""},
		{Spec{Period: Day, Zone: "Local"}, "on each machine"},
		{Spec{Period: Day, Zone: "localtime"}, "on each machine"},
		{Spec{Period: Day, Zone: "posixrules"}, "on each machine"},
		{Spec{Period: Day, Zone: "Factory"}, "on each machine"},
		{Spec{Period: Day, Zone: "posix/Europe/Berlin"}, "leave out posix/"},
		{Spec{Period: Day, Zone: "right/Europe/Berlin"}, "leave out right/"},
		{Spec{Period: Day, Zone: "Europe//Berlin"}, "not known"},
		{Spec{Period: Day, Zone: "Europe/Berlin/"}, "not known"},
		{Spec{Period: Day, Zone: "Europe/./Berlin"}, "not known"},
		{Spec{Period: Day, Zone: "../zoneinfo/Europe/Berlin"}, "not known"},
		{Spec{Period: Day, Zone: "/usr/share/zoneinfo/Europe/Berlin"}, "not known"},
		{Spec{Period: Day, Zone: "Europe"}, "not known"},
		{Spec{Period: Day, Zone: "zone.tab"}, "not known"},
		{Spec{Period: Day, Zone: "leapseconds"}, "not known"},
		{Spec{Period: Day, Zone: "Europe/Berlin\x00"}, "not known"},
		{Spec{Period: Day, Zone: "UTC+2"}, "not known"},
		{Spec{Period: Day, Zone: "+02:00"}, "not known"},
		{Spec{Period: Day, Zone: " "}, "not known"},
	} {
		err := tc.spec.Validate()
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%+v: %v; want …%s…", tc.spec, err, tc.want)
		}
		if c, newErr := New(tc.spec); (newErr == nil) != (err == nil) || (c == nil) != (err != nil) {
			t.Errorf("%+v: New answers %v, %v", tc.spec, c, newErr)
		}
		_ = tc.spec.String()
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"/hour", "/day Europe/Berlin", "/week from Sunday 06:00", "/month UTC from day 31 23:00", "/year Asia/Tokyo from April day 1", "/day from", "/month from day 0"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			if s != (Spec{}) {
				t.Fatalf("%q: %+v beside %v", text, s, err)
			}
			return
		}
		if s != s.Normal() || s.Validate() != nil {
			t.Fatalf("%q: %+v is not valid and normal: %v", text, s, s.Validate())
		}
		if again, err := Parse(s.String()); err != nil || again != s {
			t.Fatalf("%q: %+v, but %q is %+v, %v", text, s, s, again, err)
		}
	})
}
