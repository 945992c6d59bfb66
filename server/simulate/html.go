package simulate

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// WriteHTML writes the report as one page that needs nothing else: no scripts, no fonts, no other files.
func (r *Report) WriteHTML(w io.Writer) error {
	p := page{
		Title: fmt.Sprintf("Simulated limits: %s", plural(r.Requests, "request")),
		Span:  r.span(), Notes: r.notes(), Bad: r.BadLines, Inputs: r.Inputs,
	}
	for i := range r.Limits {
		p.Limits = append(p.Limits, r.Limits[i].page(i))
	}
	return pageTemplate.Execute(w, p)
}

//go:embed report.html
var pageText string

var pageTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"moment": moment, "span": span, "percent": percent,
}).Parse(pageText))

type page struct {
	Title, Span string
	Notes       []string
	Bad         []BadLine
	Inputs      []InputReport
	Limits      []limitPage
}

type limitPage struct {
	LimitReport
	Title, Share string
	ID           int
	Notes        []string
	Time         timeChart
	Need         needChart
	Suggested    [][2]string
}

func (l *LimitReport) page(id int) limitPage {
	p := limitPage{LimitReport: *l, Title: l.title(), ID: id, Notes: l.notes(), Time: newTimeChart(&l.Timeline), Need: newNeedChart(l)}
	p.Share = fmt.Sprintf("none of %s, of %s", plural(l.Requests, "request"), plural(l.Keys, "key"))
	if l.Refused > 0 {
		p.Share = l.refusedShare()
	}
	for i := range l.Suggestions {
		s := &l.Suggestions[i]
		p.Suggested = append(p.Suggested, [2]string{s.share(), s.text()})
	}
	return p
}

// Charts are this large, in units of their own: a page scales them.
const (
	chartWidth  = 720.0
	chartHeight = 200.0
	chartLeft   = 56.0
	chartBottom = 24.0
	chartTop    = 10.0
)

type (
	bar  struct{ X, Width, Y, Height, RefusedY, RefusedHeight, Title string }
	tick struct{ X, Y, Text, Anchor string }
	mark struct{ X, Text, Anchor string }
)

type timeChart struct {
	Bars   []bar
	XTicks []tick
	YTicks []tick
	Text   string // for who does not see it
}

func newTimeChart(t *Timeline) (c timeChart) {
	n := len(t.Allowed)
	if n == 0 {
		return c
	}
	most := int64(1)
	refused, worst := int64(0), 0
	for i := range n {
		most = max(most, t.Allowed[i]+t.Refused[i])
		refused += t.Refused[i]
		if t.Refused[i] > t.Refused[worst] {
			worst = i
		}
	}
	top := niceAbove(float64(most))
	width := (chartWidth - chartLeft) / float64(n)
	y := func(v float64) float64 { return chartTop + (chartHeight-chartTop-chartBottom)*(1-v/top) }
	for i := range n {
		allowed, refused := float64(t.Allowed[i]), float64(t.Refused[i])
		if allowed+refused == 0 {
			continue
		}
		c.Bars = append(c.Bars, bar{
			X: coord(chartLeft + float64(i)*width), Width: coord(math.Max(width-math.Min(1, width/4), 0.5)),
			Y: coord(y(allowed)), Height: coord(y(0) - y(allowed)),
			RefusedY: coord(y(allowed + refused)), RefusedHeight: coord(y(allowed) - y(allowed+refused)),
			Title: fmt.Sprintf("%s: %d allowed, %d refused", moment(t.StartUS+int64(i)*t.WidthUS), t.Allowed[i], t.Refused[i]),
		})
	}
	for i := range 3 {
		v := top * float64(i) / 2
		c.YTicks = append(c.YTicks, tick{Y: coord(y(v)), Text: short(v)})
	}
	for i := range 5 {
		at := i * (n - 1) / 4
		if i > 0 && at == (i-1)*(n-1)/4 {
			continue
		}
		c.XTicks = append(c.XTicks, tick{X: coord(chartLeft + (float64(at)+0.5)*width), Text: t.label(at)})
	}
	c.Text = fmt.Sprintf("Decisions over time, each bar %s: %d refused in all, most of them, %d, in the bar of %s", span(t.WidthUS), refused, t.Refused[worst],
		moment(t.StartUS+int64(worst)*t.WidthUS))
	if refused == 0 {
		c.Text = fmt.Sprintf("Decisions over time, each bar %s: none refused", span(t.WidthUS))
	}
	return c
}

// label is the time of a bin, as exact as its width needs.
func (t *Timeline) label(bin int) string {
	at := time.UnixMicro(t.StartUS + int64(bin)*t.WidthUS).UTC()
	all := int64(len(t.Allowed)) * t.WidthUS
	switch day := int64(86400) * second; {
	case t.WidthUS >= day || all > 8*day:
		return at.Format("2 Jan")
	case all > day:
		return at.Format("2 Jan 15:04")
	case t.WidthUS < 60*second:
		return at.Format("15:04:05")
	}
	return at.Format("15:04")
}

// needChart shows which share of the keys a size never refuses.
type needChart struct {
	Line   string // points of a polyline
	XTicks []tick
	YTicks []tick
	Now    mark // the size of the limit
	Text   string
}

func newNeedChart(l *LimitReport) (c needChart) {
	if len(l.Needs) == 0 || l.Keys == 0 {
		return c
	}
	size := l.Size
	low := math.Log10(float64(max(l.Needs[0].Size, 1)))
	high := math.Log10(float64(max(l.Needs[len(l.Needs)-1].Size, size, 1)))
	low, high = math.Floor(low), math.Max(math.Ceil(high), math.Floor(low)+1)
	x := func(n int64) float64 {
		share := (math.Log10(float64(max(n, 1))) - low) / (high - low)
		return chartLeft + (chartWidth-chartLeft-8)*math.Min(math.Max(share, 0), 1)
	}
	y := func(keys int64) float64 {
		return chartTop + (chartHeight-chartTop-chartBottom)*(1-float64(keys)/float64(l.Keys))
	}
	var points []string
	before := int64(0)
	for _, need := range l.Needs {
		points = append(points, coord(x(need.Size))+","+coord(y(before)), coord(x(need.Size))+","+coord(y(need.Keys)))
		before = need.Keys
	}
	points = append(points, coord(chartWidth-8)+","+coord(y(before)))
	c.Line = strings.Join(points, " ")
	for e := low; e <= high; e++ {
		v := math.Pow(10, e)
		anchor := "middle"
		if e == high {
			anchor = "end" // or it would be cut off
		}
		c.XTicks = append(c.XTicks, tick{X: coord(x(int64(v))), Text: short(v), Anchor: anchor})
	}
	for _, share := range []int64{0, 50, 100} {
		c.YTicks = append(c.YTicks, tick{Y: coord(chartTop + (chartHeight-chartTop-chartBottom)*(1-float64(share)/100)), Text: strconv.FormatInt(share, 10) + "%"})
	}
	c.Now = mark{X: coord(x(size)), Text: "now " + strconv.FormatInt(size, 10), Anchor: "start"}
	if x(size) > chartWidth*0.8 {
		c.Now.Anchor = "end"
	}
	c.Text = fmt.Sprintf("Share of the keys that a size never refuses. A size of %d refuses %s of them", size, percent(l.RefusedKeys, l.Keys))
	return c
}

// niceAbove is the least of 1, 2, 4, 10, 20, … that is not below v.
func niceAbove(v float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, f := range []float64{1, 2, 4, 10} {
		if f*unit >= v {
			return f * unit
		}
	}
	return 10 * unit
}

// short is 1500 as 1.5k.
func short(v float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if v >= unit.size {
			return strconv.FormatFloat(v/unit.size, 'f', -1, 64) + unit.name
		}
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

func coord(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }
