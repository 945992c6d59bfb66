package main

import (
	"fmt"
	"html"
	"strings"
)

// bar is a candidate in the chart, by decisions a second.
type bar struct {
	name  string
	value float64
	role  role
}

const (
	chartWidth  = 860
	chartNames  = 330 // width of the names
	chartBars   = 400 // width of the longest bar
	chartLine   = 20
	chartMargin = 24
)

// chart is an SVG picture of all sections that have bars. Each has a scale of its own.
func chart(all []section) string {
	var b strings.Builder
	y := chartMargin
	for _, s := range all {
		if len(s.bars) == 0 {
			continue
		}
		most := 0.0
		for _, one := range s.bars {
			most = max(most, one.value)
		}
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" class=\"title\">%s</text>\n", chartMargin, y+12, html.EscapeString(s.title))
		y += chartLine + 4
		for _, one := range s.bars {
			class := map[role]string{rival: "rival", bound: "bound", ours: "ours", variant: "ours"}[one.role]
			wide := one.value / most * chartBars
			fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", chartMargin+chartNames, y+13, html.EscapeString(one.name))
			fmt.Fprintf(&b, "<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" class=\"%s\"/>\n", chartMargin+chartNames+8, y+2, max(wide, 1), chartLine-6, class)
			fmt.Fprintf(&b, "<text x=\"%.1f\" y=\"%d\">%s</text>\n", chartMargin+chartNames+14+wide, y+13, number(one.value))
			y += chartLine
		}
		y += chartLine
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">
<title>Decisions a second, each group on a scale of its own</title>
<style>
text { font: 12px sans-serif; fill: #1f2328 }
.title { font-weight: bold; font-size: 13px }
.rival { fill: #9aa4af } .bound { fill: #d6dbe0 } .ours { fill: #2f6feb }
</style>
<rect width="100%%" height="100%%" fill="#ffffff"/>
%s</svg>
`, chartWidth, y+chartMargin, chartWidth, y+chartMargin, b.String())
}
