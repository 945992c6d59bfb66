package simulate

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// The page is well formed, needs nothing from elsewhere, runs nothing, and shows keys as text only.
func TestPage(t *testing.T) {
	t.Parallel()
	const evil = `<script>alert("x")</script>`
	log := joined(generated(12, 3_000), (*logged).combined) + strings.Repeat(`10.0.0.1 - `+evil+` [30/Mar/2026:10:00:00 +0000] "GET /api/ HTTP/1.1" 200 1`+"\n", 50) + evil
	opts := &Options{Limits: limits(t, "bucket 10/1m burst 20", "sliding 0/1h", "budget 1000000/day"), Suggest: []float64{50, 99}}
	opts.Limits[0].Key = []string{"user"}
	report := must[*Report](t)(Run(t.Context(), []Input{text(evil, log)}, opts))
	var b strings.Builder
	if err := report.WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	if strings.Contains(page, "ZgotmplZ") || strings.Contains(page, evil) {
		t.Error("something was not escaped, or not shown")
	}
	if !strings.Contains(page, "&lt;script&gt;") {
		t.Error("the key is not shown")
	}
	open := map[string]int{}
	z := html.NewTokenizer(strings.NewReader(page))
	for {
		kind := z.Next()
		if kind == html.ErrorToken {
			break
		}
		tok := z.Token()
		switch kind {
		case html.StartTagToken:
			open[tok.Data]++
			switch tok.Data {
			case "script", "link", "img", "iframe", "a", "base", "object":
				t.Errorf("%v", tok)
			}
			for _, a := range tok.Attr {
				if strings.HasPrefix(a.Key, "on") || a.Key == "src" || a.Key == "href" || strings.Contains(a.Val, "NaN") || strings.Contains(a.Val, "Inf") {
					t.Errorf("%v", tok)
				}
			}
		case html.EndTagToken:
			open[tok.Data]--
		case html.SelfClosingTagToken:
			for _, a := range tok.Attr {
				if strings.Contains(a.Val, "NaN") || strings.HasPrefix(a.Val, "-") && a.Key != "dx" {
					t.Errorf("%v", tok)
				}
			}
		}
	}
	for tag, n := range open {
		if n != 0 && tag != "meta" {
			t.Errorf("%d of <%s> are not closed", n, tag)
		}
	}
	if n := len(regexp.MustCompile(`<svg `).FindAllString(page, -1)); n != 6 {
		t.Errorf("%d charts", n)
	}
	if !strings.Contains(page, "prefers-color-scheme: dark") || !strings.Contains(page, "default-src 'none'") {
		t.Error("no dark mode, or no policy")
	}
}

// A report can be passed on without telling who it is about.
func TestHiddenKeys(t *testing.T) {
	t.Parallel()
	log := joined(generated(13, 3_000), (*logged).combined) + "10.1.2.3 is malformed\n"
	report := must[*Report](t)(Run(t.Context(), []Input{text("log", log)}, &Options{Limits: limits(t, "fixed 1/1h"), HideKeys: true, Top: 100}))
	var b strings.Builder
	if err := report.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	if err := report.WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	b.Write(must[[]byte](t)(json.Marshal(report)))
	if address := regexp.MustCompile(`10\.\d+\.\d+\.\d+|2001:`).FindString(b.String()); address != "" {
		t.Errorf("%s is shown", address)
	}
	if !strings.Contains(b.String(), "key 100") {
		t.Error("there are no names in the place of keys")
	}
}
