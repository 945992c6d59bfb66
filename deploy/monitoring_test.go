package deploy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// metric is a row of the table in docs/telemetry.md, which a test of the server holds to what the server has.
type metric struct {
	kind   string
	labels []string
}

var rowForm = regexp.MustCompile("^\\| `(ration_[a-z_]+)` \\| (counter|gauge|histogram) \\|([^|]*)\\|")

func metrics(t *testing.T) map[string]metric {
	text, err := os.ReadFile("../docs/telemetry.md")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]metric{}
	for line := range strings.Lines(string(text)) {
		if m := rowForm.FindStringSubmatch(line); m != nil {
			var names []string
			for name := range strings.SplitSeq(m[3], ",") {
				if name = strings.Trim(name, " `"); name != "" {
					names = append(names, name)
				}
			}
			all[m[1]] = metric{m[2], names}
		}
	}
	if len(all) < 20 {
		t.Fatalf("docs/telemetry.md has %d metrics", len(all))
	}
	// Prometheus' Go client has these.
	all["process_resident_memory_bytes"] = metric{kind: "gauge"}
	all["process_cpu_seconds_total"] = metric{kind: "counter"}
	return all
}

// reporter is a testing.T, as far as a checker uses it.
type reporter interface {
	Helper()
	Errorf(format string, args ...any)
}

// checker holds expressions to the metrics that there are.
type checker struct {
	t       reporter
	metrics map[string]metric
	records map[string][]string // labels of recording rules
	used    map[string]bool
}

func newChecker(t *testing.T) *checker {
	return &checker{t: t, metrics: metrics(t), records: map[string][]string{}, used: map[string]bool{}}
}

// grafana are the variables of Grafana that stand for durations.
var grafana = strings.NewReplacer("$__rate_interval", "5m", "$__range", "3h")

// expr checks one expression of PromQL.
func (c *checker) expr(where, text string) {
	c.t.Helper()
	e, err := parser.NewParser(parser.Options{}).ParseExpr(grafana.Replace(text))
	if err != nil {
		c.t.Errorf("%s: %q: %v", where, text, err)
		return
	}
	parser.Inspect(e, func(node parser.Node, path []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			c.selector(where, n, path)
		case *parser.AggregateExpr:
			c.grouping(where, n)
		}
		return nil
	})
}

// named is the metric of a selector, and which part of a histogram it is.
func (c *checker) named(name string) (m metric, part string, ok bool) {
	if names, is := c.records[name]; is {
		return metric{"gauge", names}, "", true
	}
	if m, ok = c.metrics[name]; ok {
		c.used[name] = true
		return m, "", m.kind != "histogram"
	}
	for _, part := range []string{"_bucket", "_sum", "_count"} {
		if base, is := strings.CutSuffix(name, part); is && c.metrics[base].kind == "histogram" {
			c.used[base] = true
			return c.metrics[base], part, true
		}
	}
	return m, "", false
}

func (c *checker) selector(where string, v *parser.VectorSelector, path []parser.Node) {
	c.t.Helper()
	m, part, ok := c.named(v.Name)
	if !ok {
		c.t.Errorf("%s: there is no metric %q", where, v.Name)
		return
	}
	for _, matcher := range v.LabelMatchers {
		if name := matcher.Name; name != labels.MetricName && name != "instance" && !slices.Contains(m.labels, name) && (name != "le" || part != "_bucket") {
			c.t.Errorf("%s: %s has no label %q", where, v.Name, name)
		}
	}
	// A counter says something by how fast it grows.
	grows := false
	for _, n := range path {
		if call, is := n.(*parser.Call); is {
			grows = grows || slices.Contains([]string{"rate", "increase", "irate", "resets"}, call.Func.Name)
		}
	}
	if counts := m.kind == "counter" || part != ""; counts != grows {
		if call := outermost(path); call != "absent" && call != "changes" {
			c.t.Errorf("%s: %s is a %s, and rate or increase is of it: %v", where, v.Name, m.kind, grows)
		}
	}
}

func outermost(path []parser.Node) string {
	for _, n := range path {
		if call, is := n.(*parser.Call); is {
			return call.Func.Name
		}
	}
	return ""
}

// grouping checks that what is grouped by exists in what is grouped.
func (c *checker) grouping(where string, a *parser.AggregateExpr) {
	c.t.Helper()
	known := []string{"instance", "le"}
	parser.Inspect(a.Expr, func(node parser.Node, _ []parser.Node) error {
		if v, is := node.(*parser.VectorSelector); is {
			if m, _, ok := c.named(v.Name); ok {
				known = append(known, m.labels...)
			}
		}
		return nil
	})
	for _, name := range a.Grouping {
		if !slices.Contains(known, name) {
			c.t.Errorf("%s: there is no label %q to group by in %s", where, name, a)
		}
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	const file = "prometheus/rules.yaml"
	groups, errs := rulefmt.ParseFile(file, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.NewTextHandler(t.Output(), nil)))
	for _, err := range errs {
		t.Error(err)
	}
	if groups == nil {
		t.FailNow()
	}
	c := newChecker(t)
	doc, err := os.ReadFile("../docs/telemetry.md")
	if err != nil {
		t.Fatal(err)
	}
	alerts := 0
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			if r.Record != "" {
				c.expr(r.Record, r.Expr)
				e, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
				if err != nil {
					continue // was said
				}
				parser.Inspect(e, func(node parser.Node, _ []parser.Node) error {
					if a, is := node.(*parser.AggregateExpr); is {
						c.records[r.Record] = a.Grouping
					}
					return nil
				})
				continue
			}
			alerts++
			c.expr(r.Alert, r.Expr)
			if r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("%s has no severity, summary or description", r.Alert)
			}
			if !bytes.Contains(doc, []byte("`"+r.Alert+"`")) {
				t.Errorf("docs/telemetry.md does not mention %s", r.Alert)
			}
		}
	}
	if alerts < 8 {
		t.Errorf("%d alerts", alerts)
	}
}

// dashboard is what a test wants to know of Grafana's format.
type dashboard struct {
	UID           string  `json:"uid"`
	Title         string  `json:"title"`
	SchemaVersion int     `json:"schemaVersion"`
	Panels        []panel `json:"panels"`
	Templating    struct {
		List []struct {
			Name       string `json:"name"`
			Type       string `json:"type"`
			Definition string `json:"definition"`
		} `json:"list"`
	} `json:"templating"`
	Annotations struct {
		List []struct {
			Name string `json:"name"`
			Expr string `json:"expr"`
		} `json:"list"`
	} `json:"annotations"`
}

type panel struct {
	ID         int    `json:"id"`
	Type       string `json:"type"`
	Title      string `json:"title"`
	Datasource *struct {
		UID string `json:"uid"`
	} `json:"datasource"`
	GridPos struct{ H, W, X, Y int } `json:"gridPos"`
	Targets []struct {
		RefID        string `json:"refId"`
		Expr         string `json:"expr"`
		LegendFormat string `json:"legendFormat"`
	} `json:"targets"`
}

var (
	variableForm = regexp.MustCompile(`\$\{?([a-z_]+)`)
	legendForm   = regexp.MustCompile(`\{\{([a-z_]+)\}\}`)
)

func TestDashboard(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("grafana/ration.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	if d.UID == "" || d.Title == "" || d.SchemaVersion < 36 {
		t.Errorf("%q, %q, schema %d", d.UID, d.Title, d.SchemaVersion)
	}
	c := newChecker(t)
	variables := map[string]bool{"__rate_interval": true, "__range": true, "__all": true}
	for _, v := range d.Templating.List {
		variables[v.Name] = true
		if v.Type == "query" {
			inner, is := strings.CutPrefix(v.Definition, "label_values(")
			name, _, has := strings.Cut(inner, ",")
			if _, _, ok := c.named(name); !is || !has || !ok {
				t.Errorf("the variable %s: %s", v.Name, v.Definition)
			}
		}
	}
	for _, m := range variableForm.FindAllStringSubmatch(string(text), -1) {
		if !variables[m[1]] {
			t.Errorf("there is no variable %q", m[1])
		}
	}
	for _, a := range d.Annotations.List {
		c.expr("annotation "+a.Name, a.Expr)
	}
	ids, taken, graphs := map[int]bool{}, map[[2]int]string{}, 0
	for _, p := range d.Panels {
		if ids[p.ID] || p.Title == "" {
			t.Errorf("panel %d, %q: its id is not its own, or it has no title", p.ID, p.Title)
		}
		ids[p.ID] = true
		if g := p.GridPos; g.H < 1 || g.W < 1 || g.X < 0 || g.X+g.W > 24 {
			t.Errorf("%s is out of the grid: %+v", p.Title, g)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, is := taken[[2]int{x, y}]; is {
					t.Fatalf("%s lies on %s", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		graphs++
		if p.Datasource == nil || p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 {
			t.Errorf("%s has no data source of the dashboard's, or no query", p.Title)
		}
		for i, q := range p.Targets {
			where := fmt.Sprintf("%s, %s", p.Title, q.RefID)
			if q.RefID != string(rune('A'+i)) {
				t.Errorf("%s: the queries are not in order", where)
			}
			c.expr(where, q.Expr)
			for _, m := range legendForm.FindAllStringSubmatch(q.LegendFormat, -1) {
				if !strings.Contains(q.Expr, m[1]) {
					t.Errorf("%s: the legend has %q, which the query drops", where, m[1])
				}
			}
		}
	}
	if graphs < 15 || len(c.used) < 20 {
		t.Errorf("%d panels show %d metrics", graphs, len(c.used))
	}
}

// The checks find what is wrong.
func TestChecksCanFail(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		`sum(rate(ration_decisions_totals[5m]))`,
		`sum by (key) (rate(ration_decisions_total[5m]))`,
		`sum(rate(ration_decisions_total{key="x"}[5m]))`,
		`sum(ration_decisions_total)`,
		`rate(ration_store_up[5m])`,
		`ration_store_batch_size`,
		`sum(rate(ration_decisions_total[5m])`,
	} {
		inner := new(counting)
		c := &checker{t: inner, metrics: metrics(t), records: map[string][]string{}, used: map[string]bool{}}
		c.expr("test", bad)
		if *inner == 0 {
			t.Errorf("%s passes", bad)
		}
	}
}

// counting counts what a checker finds.
type counting int

func (c *counting) Helper()               {}
func (c *counting) Errorf(string, ...any) { *c++ }
