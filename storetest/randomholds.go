package storetest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ration-go/ration/driver"
)

// once adds a command about an id.
func (g *generator) once() {
	n := g.rng.IntN(100)
	switch {
	case len(g.ids) == 0 || n < 30:
		g.reserve()
	case n < 45:
		// The same again, if its limits have not become others.
		if g.try(g.asked[g.id()]) != nil {
			g.reserve()
		}
	case !g.caps.Has(driver.CapHolds):
		g.reserve()
	case n < 65:
		id := g.id()
		g.add("settle %s%s%s", id, g.used(id), g.byID())
	case n < 75:
		g.add("cancel %s%s", g.id(), g.byID())
	case n < 87:
		id := g.id()
		g.add("progress %s%s%s", id, g.used(id), g.byID())
	case n < 95:
		ttl := ""
		if g.rng.IntN(2) == 0 {
			ttl = " " + g.ttl()
		}
		g.add("renew %s%s%s", g.id(), ttl, g.byID())
	case g.script.inBatch:
		g.reserve()
	default:
		g.add("holds")
	}
}

// id is one of the last that were used.
func (g *generator) id() string { return g.ids[len(g.ids)-1-g.rng.IntN(min(4, len(g.ids)))] }

func (g *generator) ttl() string {
	if g.long {
		return pick(g.rng, "1m", "1h", "1d", "7d", "31d")
	}
	return pick(g.rng, "1s", "2s", "5s", "10s", "1m", "1h")
}

func (g *generator) byID() string {
	if !g.script.inBatch && g.rng.IntN(3) == 0 {
		return " by-id"
	}
	return ""
}

// reserve asks for one or several limits under a new id, or now and then under one that was used.
func (g *generator) reserve() {
	id := fmt.Sprintf("r%d", len(g.ids)+1)
	if len(g.ids) > 0 && g.rng.IntN(10) == 0 {
		id = g.id()
	}
	verb, end := "once", ""
	if g.caps.Has(driver.CapHolds) && g.rng.IntN(6) > 0 {
		verb = "reserve"
	}
	if g.rng.IntN(4) > 0 {
		end = " ttl " + g.ttl()
	}
	if verb == "reserve" && g.rng.IntN(2) == 0 {
		end += " return"
	}
	items := g.items(1, verb == "reserve")
	if g.caps.Has(driver.CapList) && g.rng.IntN(3) == 0 {
		items = g.items(2+g.rng.IntN(2), verb == "reserve")
	}
	if len(items) == 0 {
		return
	}
	line := fmt.Sprintf("%s-all %s %s%s", verb, id, strings.Join(items, " "), end)
	g.add("%s", line)
	if _, known := g.asked[id]; !known {
		g.ids = append(g.ids, id)
		g.asked[id], g.amounts[id] = line, len(items)
	}
}

// used is what was used of the limits of an id: as many numbers as there are, none, or now and then too few.
func (g *generator) used(id string) string {
	n := g.amounts[id]
	switch g.rng.IntN(10) {
	case 0, 1:
		n = 0
	case 2:
		n = 1
	case 3:
		n++
	}
	text := ""
	for range n {
		text += " " + strconv.FormatInt(pick[int64](g.rng, 0, 0, 1, 1, 2, 3, 5, 10, 40, driver.MaxNumber), 10)
	}
	return text
}
