package simulate

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ration-go/ration"
)

// logged is a request of a generated log.
type logged struct {
	at         time.Time
	addr, user string
	method     string
	path       string
}

// generate makes requests: many addresses that come now and then, few that come all the time, some that come in bursts; now
// and then a line is late by a few seconds, as in a log that is written when requests end.
func generate(seed uint64, n int, yield func(*logged)) {
	r := rand.New(rand.NewPCG(seed, 1))
	zipf := rand.NewZipf(r, 1.2, 8, 200_000)
	at := time.Date(2026, 3, 28, 22, 0, 0, 0, time.UTC)
	burst, left := uint64(0), 0
	for range n {
		who := zipf.Uint64()
		if left > 0 {
			who, left = burst, left-1
		} else if r.IntN(500) == 0 {
			burst, left = r.Uint64N(1000), r.IntN(300)
		}
		if r.IntN(8) == 0 {
			at = at.Add(time.Duration(r.IntN(8)) * time.Second)
		}
		one := logged{at: at, addr: fmt.Sprintf("10.%d.%d.%d", who>>16, who>>8&255, who&255), user: "-", method: "GET", path: fmt.Sprintf("/api/items/%d", r.IntN(1000))}
		if who%5 == 0 {
			one.user = fmt.Sprintf("user%d", who%97)
		}
		if who%7 == 0 {
			one.addr = fmt.Sprintf("2001:db8:0:%x::%x:%x", who%50, who>>16, who&0xffff)
		}
		if r.IntN(20) == 0 {
			one.at = at.Add(-time.Duration(r.IntN(30)) * time.Second)
		}
		if r.IntN(10) == 0 {
			one.method, one.path = "POST", "/health"
		}
		yield(&one)
	}
}

func generated(seed uint64, n int) (all []logged) {
	generate(seed, n, func(one *logged) { all = append(all, *one) })
	return all
}

const commonTimeForm = "02/Jan/2006:15:04:05 -0700"

func (l *logged) combined() string {
	return fmt.Sprintf("%s - %s [%s] \"%s %s?q=1 HTTP/1.1\" 200 5316 \"https://example.com/start\" \"Mozilla/5.0 (X11; Linux x86_64) Firefox/135.0\"\n",
		l.addr, l.user, l.at.Format(commonTimeForm), l.method, l.path)
}

func (l *logged) caddy() string {
	return fmt.Sprintf("{\"level\":\"info\",\"ts\":%d.000,\"logger\":\"http.log.access\",\"request\":{\"remote_ip\":\"192.0.2.1\",\"client_ip\":%q,\"proto\":\"HTTP/2.0\","+
		"\"method\":%q,\"host\":\"example.com\",\"uri\":\"%s?q=1\",\"headers\":{\"User-Agent\":[\"curl/8.1\"],\"X-Api-Key\":[\"a\\\"\\u0062\"]}},\"user_id\":%q,\"size\":5316,\"status\":200}\n",
		l.at.Unix(), l.addr, l.method, l.path, l.user)
}

func (l *logged) csv() string {
	return fmt.Sprintf("%s,%s,\"%s\",%s,\"%s?q=\"\"1\"\"\",200\n", l.at.Format(time.RFC3339), l.addr, l.user, l.method, l.path)
}

const csvHeader = "timestamp,client_ip,user,method,uri,status\n"

func joined(all []logged, form func(*logged) string) string {
	var b bytes.Buffer
	for i := range all {
		b.WriteString(form(&all[i]))
	}
	return b.String()
}

func text(name, body string) Input {
	return Input{Name: name, Size: int64(len(body)), Again: true, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(bufio.NewReader(bytes.NewBufferString(body))), nil
	}}
}

func packed(t testing.TB, body string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, body); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func limits(t testing.TB, texts ...string) (all []Limit) {
	for _, text := range texts {
		all = append(all, Limit{Rule: ration.Rule{Limit: must[ration.Limit](t)(ration.ParseLimit(text))}})
	}
	return all
}
