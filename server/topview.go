package server

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// topActivity is the part of GET /v1/activity that top shows.
type topActivity struct {
	AtUS    int64      `json:"at_us"`
	SinceUS int64      `json:"since_us"`
	Version string     `json:"version"`
	Totals  topCounts  `json:"totals"`
	Minute  topCounts  `json:"minute"`
	Limits  []topLimit `json:"limits"`
	LeftOut int64      `json:"limits_left_out"`
	Refused []topKey   `json:"most_refused"`
	Used    []topKey   `json:"most_used"`
	Store   struct {
		Kind    string `json:"kind"`
		Scope   string `json:"scope"`
		Durable bool   `json:"durable"`
		Up      bool   `json:"up"`
		Detail  string `json:"detail"`
		TookUS  int64  `json:"took_us"`
	} `json:"store"`
}

type topCounts struct {
	Allowed int64 `json:"allowed"`
	Refused int64 `json:"refused"`
	Errors  int64 `json:"errors"`
}

func (c *topCounts) all() int64 { return c.Allowed + c.Refused + c.Errors }

type topLimit struct {
	Name    string    `json:"name"`
	Limit   string    `json:"limit"`
	Totals  topCounts `json:"totals"`
	Minute  topCounts `json:"minute"`
	Allowed []int64   `json:"allowed"`
	Refused []int64   `json:"refused"`
	Errors  []int64   `json:"errors"`
}

type topKey struct {
	Fingerprint string   `json:"fingerprint"`
	Shared      bool     `json:"shared"`
	Key         []string `json:"key"`
	Limit       string   `json:"limit"`
	Count       int64    `json:"count"`
	Over        int64    `json:"over"`
}

// topOrder is an index of topOrders, and a flag.
type topOrder int

var topOrders = [...]string{"refused", "rate", "total", "name"}

const topByRefused topOrder = 0

func (o *topOrder) String() string { return topOrders[*o] }
func (o *topOrder) Type() string   { return strings.Join(topOrders[:], "|") }
func (o *topOrder) Set(text string) error {
	word, err := oneOf(text, topOrders[:]...)
	if err != nil {
		return err
	}
	*o = topOrder(slices.Index(topOrders[:], word))
	return nil
}

// topView is what is shown. It does not know a terminal.
type topView struct {
	by     topOrder
	colour bool
	now    *topActivity // nil: nothing was heard yet
	err    error        // of the last question
	asked  time.Time
}

// due reports whether to ask again, and notes that it is done.
func (v *topView) due() bool {
	if time.Since(v.asked) < topEvery-50*time.Millisecond {
		return false
	}
	v.asked = time.Now()
	return true
}

func (v *topView) take(a topAnswer) {
	if v.err = a.err; a.err == nil {
		v.now = &a.activity
	}
}

// lines is the view in so many columns, and at most so many lines; 0: all that there are.
func (v *topView) lines(width, height int) []string {
	var lines []string
	if v.err != nil {
		lines = append(lines, v.marked(fit(printable(strings.ReplaceAll(v.err.Error(), "\n", "; ")), width)))
	}
	if v.now == nil {
		if v.err == nil {
			lines = append(lines, "asking …")
		}
		return lines
	}
	lines = append(lines, v.head(width)...)
	lines = append(lines, "")
	keys := max(len(v.now.Refused), len(v.now.Used))
	room := len(v.now.Limits)
	if height > 0 {
		keys = min(keys, max(3, height/4))
		room = max(1, height-len(lines)-keys-5)
	}
	lines = append(lines, v.limits(width, room)...)
	lines = append(lines, "")
	lines = append(lines, v.lists(width, keys)...)
	if height > 0 {
		lines = append(lines, "", v.faint(fit("q quit   s sort, now by "+v.by.String(), width)))
		lines = lines[:min(len(lines), height)]
	}
	return lines
}

// head is about the server and its store.
func (v *topView) head(width int) []string {
	a, s := v.now, &v.now.Store
	up := time.Duration(a.AtUS-a.SinceUS) * time.Microsecond
	store := "store " + s.Kind + ": up, answers in " + (time.Duration(s.TookUS) * time.Microsecond).String()
	if !s.Up {
		store = "store " + s.Kind + ": DOWN, " + s.Detail
	}
	kept := "not durable"
	if s.Durable {
		kept = "durable"
	}
	store = fit(printable(fmt.Sprintf("%s; counts of the %s, %s", store, s.Scope, kept)), width)
	if !s.Up {
		store = v.marked(store)
	}
	all := topLimit{}
	for i := range a.Limits {
		all.add(&a.Limits[i])
	}
	return []string{
		v.bold(fit(printable(fmt.Sprintf("ration %s, counting for %s", a.Version, inWords(up.Truncate(time.Second).Milliseconds()))), width)),
		store,
		fit(fmt.Sprintf("%s decisions/s, %s refused/s; last minute: %d, %s refused, %d could not be told; %d in all",
			rateText(all.rate()), rateText(lately(all.Refused)), a.Minute.all(), shareText(a.Minute.Refused, a.Minute.all()), a.Minute.Errors, a.Totals.all()), width),
	}
}

func (l *topLimit) add(o *topLimit) {
	for _, list := range []struct {
		to   *[]int64
		from []int64
	}{{&l.Allowed, o.Allowed}, {&l.Refused, o.Refused}, {&l.Errors, o.Errors}} {
		for i, n := range list.from {
			if i >= len(*list.to) {
				*list.to = append(*list.to, 0)
			}
			(*list.to)[i] += n
		}
	}
}

func (l *topLimit) rate() float64 { return lately(l.Allowed) + lately(l.Refused) + lately(l.Errors) }

// lately is the mean of the last five seconds.
func lately(seconds []int64) float64 {
	const of = 5
	sum := int64(0)
	for _, n := range seconds[max(0, len(seconds)-of):] {
		sum += n
	}
	return float64(sum) / of
}

// sparkWidth is in columns, each of three seconds.
const sparkWidth = 20

func (v *topView) limits(width, room int) []string {
	list := slices.Clone(v.now.Limits)
	slices.SortStableFunc(list, func(a, b topLimit) int {
		switch topOrders[v.by] {
		case "refused":
			return cmp.Or(cmp.Compare(b.Minute.Refused, a.Minute.Refused), cmp.Compare(b.Minute.all(), a.Minute.all()), strings.Compare(a.Name, b.Name))
		case "rate":
			return cmp.Or(cmp.Compare(b.rate(), a.rate()), strings.Compare(a.Name, b.Name))
		case "total":
			return cmp.Or(cmp.Compare(b.Totals.all(), a.Totals.all()), strings.Compare(a.Name, b.Name))
		}
		return strings.Compare(a.Name, b.Name)
	})
	const numbers = " %9s %10s %8s %11s"
	spark := sparkWidth
	name := width - 42 - spark - 1
	if name < 16 {
		name, spark = width-42, 0
	}
	name = max(name, 8)
	header := pad("LIMIT", name) + fmt.Sprintf(numbers, "/s", "REFUSED/s", "REFUSED", "TOTAL")
	if spark > 0 {
		header += " LAST MINUTE"
	}
	lines := []string{v.faint(fit(header, width))}
	left := v.now.LeftOut
	if len(list) > room {
		left += int64(len(list) - room + 1)
		list = list[:max(0, room-1)]
	}
	for i := range list {
		l := &list[i]
		text := printable(l.Name)
		switch {
		case l.Name == "":
			text = "(others)"
		case len(l.Name)+len(l.Limit)+2 <= name:
			text += "  " + printable(l.Limit)
		}
		line := pad(fit(text, name), name) + fmt.Sprintf(numbers, rateText(l.rate()), rateText(lately(l.Refused)), shareText(l.Minute.Refused, l.Minute.all()), strconv.FormatInt(l.Totals.all(), 10))
		if spark > 0 {
			line += " " + sparkline(l)
		}
		line = fit(line, width)
		if lately(l.Refused) > 0 {
			line = v.marked(line)
		}
		lines = append(lines, line)
	}
	switch {
	case left > 0:
		lines = append(lines, v.faint(fit(fmt.Sprintf("and %d more", left), width)))
	case len(list) == 0:
		lines = append(lines, "no named limits, and no decisions yet")
	}
	return lines
}

var blocks = []rune(" ▁▂▃▄▅▆▇█")

// sparkline is the last minute of l, as high as its own highest.
func sparkline(l *topLimit) string {
	var sums [sparkWidth]int64
	for _, list := range [][]int64{l.Allowed, l.Refused, l.Errors} {
		for i, n := range list {
			sums[min(i*sparkWidth/max(1, len(list)), sparkWidth-1)] += n
		}
	}
	most := max(1, slices.Max(sums[:]))
	var b strings.Builder
	for _, n := range sums {
		b.WriteRune(blocks[(n*int64(len(blocks)-1)+most-1)/most])
	}
	return b.String()
}

// lists is the keys that are refused and used most, side by side.
func (v *topView) lists(width, most int) []string {
	half := (width - 2) / 2
	lines := []string{v.faint(pad("REFUSED MOST", half) + "  " + pad("USED MOST", half))}
	for i := range most {
		line := pad(keyLine(v.now.Refused, i, half), half) + "  " + keyLine(v.now.Used, i, half)
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return lines
}

func keyLine(list []topKey, i, width int) string {
	if i >= len(list) {
		return ""
	}
	k := &list[i]
	name, limit := k.Fingerprint, k.Limit
	switch {
	case len(k.Key) > 0:
		name = strings.Join(k.Key, " / ")
	case k.Shared:
		name = "(everybody)"
	}
	if limit == "" {
		limit = "(others)"
	}
	count := strconv.FormatInt(k.Count, 10)
	if k.Over > 0 {
		count = "≤ " + count
	}
	room := width - 1 - utf8.RuneCountInString(count)
	return pad(fit(printable(name+" "+limit), room), room) + " " + count
}

func rateText(n float64) string {
	if n >= 10 || n == 0 {
		return strconv.FormatFloat(n, 'f', 0, 64)
	}
	return strconv.FormatFloat(n, 'f', 1, 64)
}

func shareText(part, all int64) string {
	if all == 0 {
		return "-"
	}
	return strconv.FormatFloat(100*float64(part)/float64(all), 'f', 1, 64) + " %"
}

// printable is text without what a terminal would obey: keys and names come from others.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}

func fit(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:max(0, width-1)]) + "…"
}

func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text)))
}

func (v *topView) bold(text string) string   { return v.styled("1", text) }
func (v *topView) faint(text string) string  { return v.styled("2", text) }
func (v *topView) marked(text string) string { return v.styled("33", text) }

func (v *topView) styled(code, text string) string {
	if !v.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}
