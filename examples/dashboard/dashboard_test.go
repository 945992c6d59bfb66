//go:build linux

package dashboard

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/ration-go/ration/examples/internal/chromium"
	"github.com/ration-go/ration/internal/engines"
)

const config = `
store: memory
limits:
  chat: fixed 2/1h
  exports: concurrent 2 lease 10m
  tokens: budget 100000/day
`

// serve runs a server on a free port, with further lines of configuration.
func serve(t *testing.T, more string) (url string) {
	t.Helper()
	engines.Require(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "ration.yaml")
	if err := os.WriteFile(file, []byte(config+more), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "serve", "--config", file, "--listen", "127.0.0.1:0")
	cmd.Dir = dir
	cmd.Env = []string{"HOME=" + dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out := &output{line: make(chan string, 1)}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// A stream that is open does not keep the server from stopping in good order.
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server ended with %v\n%s", err, out)
		}
	})
	select {
	case url = <-out.line:
	case <-time.After(2 * time.Minute):
		t.Fatalf("the server does not listen: %s", out)
	}
	return url
}

// output waits for the server's address.
type output struct {
	mu   sync.Mutex
	text strings.Builder
	line chan string
	said bool
}

var address = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(b)
	if url := address.FindString(o.text.String()); url != "" && !o.said {
		o.said = true
		o.line <- url
	}
	return len(b), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// program is the path of the program, built once.
var program string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	on, err := engines.Wanted()
	if err == nil && on {
		var dir string
		if dir, err = os.MkdirTemp("", "ration"); err == nil {
			defer os.RemoveAll(dir)
			program = filepath.Join(dir, "ration")
			build := exec.Command("go", "build", "-o", program, "./cmd/ration")
			build.Dir, build.Env = "../../server", append(os.Environ(), "GOWORK=off")
			build.Stdout, build.Stderr = os.Stderr, os.Stderr
			err = build.Run()
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// post answers whether it was allowed.
func post(t *testing.T, url, body string) bool {
	t.Helper()
	res, err := client.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %v %s", url, res.StatusCode, err, text)
	}
	var answer struct{ Allowed bool }
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatal(err)
	}
	return answer.Allowed
}

// browser is a page and what went wrong on it.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu    sync.Mutex
	wrong []string
}

// open opens the dashboard, and has complaints of the page collected: of the console, of scripts, and of the policy.
func open(t *testing.T, url string) *browser {
	t.Helper()
	b := &browser{t: t, ctx: chromium.Start(t)}
	err := chromedp.Listen(b.ctx, func(ev any) {
		var text string
		switch e := ev.(type) {
		case *log.EventEntryAdded:
			text = fmt.Sprintf("log: %s %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL)
		case *runtime.EventExceptionThrown:
			text = fmt.Sprintf("exception: %s %+v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception)
		case *runtime.EventConsoleAPICalled:
			text = fmt.Sprintf("console: %s", e.Type)
		default:
			return
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.wrong = append(b.wrong, text)
	})
	if err != nil {
		t.Fatal(err)
	}
	b.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, log.Enable, cdp.Empty{})
		return err
	}))
	b.do(chromedp.Navigate(url))
	return b
}

// quiet fails if the page complained of anything but what is expected.
func (b *browser) quiet(expected ...string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, text := range b.wrong {
		if !slices.ContainsFunc(expected, func(part string) bool { return strings.Contains(text, part) }) {
			b.t.Errorf("the page complains: %s", text)
		}
	}
}

func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	for _, action := range actions {
		if err := chromedp.Do(b.ctx, action); err != nil {
			b.t.Fatal(err)
		}
	}
}

// until waits until a condition of the page holds.
func (b *browser) until(condition string) {
	b.t.Helper()
	_, err := chromedp.Run(b.ctx, chromedp.Poll[bool]("!!("+condition+")", chromedp.WithPollingInterval(50*time.Millisecond), chromedp.WithPollingTimeout(time.Minute)))
	if err != nil {
		text, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string]("document.body.innerText"))
		b.t.Fatalf("%s: %v\n%s", condition, err, text)
	}
}

func value[T any](b *browser, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// press sends keys to whatever has the focus.
func (b *browser) press(keys string) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(keys))
}

// tabTo presses Tab until an element has the focus.
func (b *browser) tabTo(selector string) {
	b.t.Helper()
	for range 80 {
		if value[bool](b, fmt.Sprintf("document.activeElement.matches(%q)", selector)) {
			return
		}
		b.press(kb.Tab)
	}
	b.t.Fatalf("Tab does not lead to %s", selector)
}

const row = `document.querySelector('#key-limits tr[data-key=chat]')`

// A refusal arrives while the page is open; its key is opened and reset with the keyboard alone, and the next take passes.
func TestRefusalThenReset(t *testing.T) {
	t.Parallel()
	url := serve(t, "")
	b := open(t, url)
	b.until(`document.getElementById('link').dataset.state === 'live'`)
	if got := value[string](b, "document.getElementById('link').textContent"); got != "live" {
		t.Errorf("the page is %q: not by events", got)
	}
	take := `{"key": "needle", "limit": "chat"}`
	if !post(t, url+"/v1/take", take) || !post(t, url+"/v1/take", take) || post(t, url+"/v1/take", take) {
		t.Fatal("the third take should be the first that is refused")
	}
	post(t, url+"/v1/reserve", `{"charges": [{"key": "needle", "limit": "tokens", "cost": 900}], "id": "answer-7"}`)
	b.until(`document.querySelector('#recent .outcome[data-how=refused]')`)
	b.until(`document.querySelector('#most-refused .who')`)
	if strings.Contains(value[string](b, "document.body.innerText"), "needle") {
		t.Error("the page shows a key that it was not told to show")
	}

	b.do(chromedp.Evaluate[chromedp.Void](`document.activeElement.blur()`))
	b.tabTo("#key")
	b.press("needle" + kb.Enter)
	b.until(row + `?.textContent.includes('2 of 2')`)
	if got := value[string](b, "document.activeElement.id"); got != "key-name" {
		t.Errorf("the focus is on %q, not on what was opened", got)
	}
	shown := value[string](b, "document.querySelector('#key-name .tag').textContent")
	if refused := value[string](b, "document.querySelector('#most-refused .who').textContent"); shown != refused {
		t.Errorf("the key is called %q, and %q in the list", shown, refused)
	}
	shots(t, b)
	b.tabTo("#key-limits tr[data-key=chat] button")
	b.press(kb.Enter)
	b.until(`document.getElementById('confirm').open`)
	b.tabTo("#confirm-yes")
	b.press(kb.Enter)
	b.until(row + `.textContent.includes('0 of 2')`)
	if !post(t, url+"/v1/take", take) {
		t.Error("the take after the reset is refused")
	}
	b.until(`document.querySelector('#held').textContent.includes('answer-7')`)

	// The same by a fingerprint of the list.
	post(t, url+"/v1/take", take)
	if post(t, url+"/v1/take", take) {
		t.Fatal("the limit should be used up")
	}
	b.do(chromedp.Click(chromedp.CSS("#most-refused .who")))
	b.until(row + `.textContent.includes('2 of 2') && !document.querySelector('#key-limits').textContent.includes('Override')`)
	b.do(chromedp.Click(chromedp.CSS("#key-limits tr[data-key=chat] button")))
	b.until(`document.getElementById('confirm').open`)
	b.do(chromedp.Click(chromedp.CSS("#confirm-yes")))
	b.until(row + `.textContent.includes('0 of 2')`)
	if !post(t, url+"/v1/take", take) {
		t.Error("the take after the second reset is refused")
	}
	b.quiet()
}

// Other numbers for one key are set and removed.
func TestOverride(t *testing.T) {
	t.Parallel()
	url := serve(t, "")
	b := open(t, url)
	b.until(`!document.getElementById('main').hidden`)
	b.do(chromedp.SendKeys(chromedp.CSS("#key"), `["acme", "bob"]`+kb.Enter))
	b.until(row)
	edit := "#key-limits tr[data-key=chat] button:last-child"
	b.do(chromedp.Click(chromedp.CSS(edit)))
	b.until(`document.getElementById('override').open`)
	b.do(chromedp.Evaluate[chromedp.Void](`document.getElementById('override-limit').select()`))
	b.press("sliding 9/1h" + kb.Enter)
	b.until(`document.getElementById('override-error').textContent !== ''`) // of another kind
	b.do(chromedp.Evaluate[chromedp.Void](`document.getElementById('override-limit').select()`))
	b.press("fixed 7/1h" + kb.Enter)
	b.until(row + `.textContent.includes('0 of 7')`)
	if got := value[string](b, row+".textContent"); !strings.Contains(got, "fixed 7/1h instead of fixed 2/1h") {
		t.Errorf("%q", got)
	}
	b.do(chromedp.Click(chromedp.CSS(edit)))
	b.until(`document.getElementById('override').open`)
	b.do(chromedp.Click(chromedp.CSS("#override-remove")))
	b.until(row + `.textContent.includes('0 of 2')`)
	b.quiet("400") // the browser notes the answer to numbers of another kind
}

// A server that asks who is calling shows a form to log in, and nothing before.
func TestLogin(t *testing.T) {
	t.Parallel()
	token := "ration_" + strings.Repeat("0123456789", 4)
	url := serve(t, fmt.Sprintf("access:\n  tokens:\n    - web sha256:%x read\n", sha256.Sum256([]byte(token))))
	b := open(t, url)
	b.until(`!document.getElementById('login').hidden && document.activeElement.id === 'token'`)
	if !value[bool](b, `document.getElementById('main').hidden`) {
		t.Error("the page shows something to nobody")
	}
	accessible(t, b)
	b.press("ration_wrong" + kb.Enter)
	b.until(`document.getElementById('login-error').textContent !== ''`)
	b.do(chromedp.Evaluate[chromedp.Void](`document.getElementById('token').select()`))
	b.press(token + kb.Enter)
	b.until(`document.getElementById('link').dataset.state === 'live' && document.getElementById('login').hidden`)
	b.do(chromedp.SendKeys(chromedp.CSS("#key"), "eve"+kb.Enter))
	b.until(row)
	if value[bool](b, `document.querySelector('#key-limits button') !== null`) {
		t.Error("a token that may only read is offered a button")
	}
	b.do(chromedp.Click(chromedp.CSS("#logout")))
	b.until(`!document.getElementById('login').hidden && document.getElementById('main').hidden`)
	b.quiet("401")
}

// Where no events come, the page asks.
func TestPolling(t *testing.T) {
	t.Parallel()
	url := serve(t, "")
	for range 32 { // as many streams as there may be
		res, err := client.Get(url + "/v1/activity/stream")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { res.Body.Close() })
	}
	b := open(t, url)
	b.until(`document.getElementById('link').textContent === 'every 2 s'`)
	post(t, url+"/v1/take", `{"key": "eve", "limit": "chat"}`)
	b.until(`document.querySelector('#recent .outcome')`)
	b.quiet("503")
}

// TestForEverybody: labels, names, headings, landmarks, focus, contrast and width, in light and dark.
func TestForEverybody(t *testing.T) {
	t.Parallel()
	url := serve(t, "")
	for i := range 30 {
		post(t, url+"/v1/take", fmt.Sprintf(`{"key": "user:%d", "limit": "chat", "cost": %d}`, i%3, 1+i%2))
	}
	post(t, url+"/v1/reserve", `{"charges": [{"key": "eve", "limit": "tokens", "cost": 900}], "id": "a-rather-long-id-of-a-reservation-that-does-not-break"}`)
	b := open(t, url)
	b.until(`document.querySelector('#recent .outcome[data-how=refused]') && document.querySelector('#held tbody tr')`)
	b.do(chromedp.SendKeys(chromedp.CSS("#key"), "user:1"+kb.Enter))
	b.until(row)
	for _, scheme := range []string{"light", "dark"} {
		b.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
			_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
			})
			return err
		}))
		for _, width := range []int64{1280, 360} {
			b.do(chromedp.EmulateViewport(width, 800))
			b.until(fmt.Sprintf("innerWidth === %d", width))
			accessible(t, b)
			if over := value[[]string](b, tooWide); len(over) > 0 {
				t.Errorf("at %d pixels: %q are wider than the page", width, over)
			}
			if low := value[[]string](b, contrast); len(low) > 0 {
				t.Errorf("%s: contrast is too low: %q", scheme, low)
			}
		}
	}
	b.quiet()
}

// tooWide finds what makes the page scroll sideways.
const tooWide = `document.documentElement.scrollWidth <= innerWidth ? [] :
	[...document.querySelectorAll('body *')].filter((e) => e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.tagName + '#' + e.id + '.' + e.className).slice(0, 5)`

// contrast finds texts whose contrast with what is behind them is less than 4.5 to 1, as AA of WCAG wants.
const contrast = `(() => {
	const light = (c) => c.map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4).reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
	const parse = (text) => text.match(/[\d.]+/g).map(Number);
	const behind = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c.slice(0, 3); } return [255, 255, 255]; };
	const low = new Set();
	for (const e of document.querySelectorAll('body *')) {
		if (!e.checkVisibility() || ![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())) continue;
		const a = light(parse(getComputedStyle(e).color).slice(0, 3)), b = light(behind(e));
		const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		if (ratio < 4.5) low.add(e.tagName + '.' + e.className + ' ' + e.textContent.slice(0, 20) + ' ' + ratio.toFixed(2));
	}
	return [...low];
})()`

// accessible checks what can be checked without eyes.
func accessible(t *testing.T, b *browser) {
	t.Helper()
	for _, wrong := range value[[]string](b, `(() => {
		const wrong = [];
		const visible = (e) => e.checkVisibility();
		const all = (selector) => [...document.querySelectorAll(selector)].filter(visible);
		const is = (ok, text) => { if (!ok) wrong.push(text); };
		is(document.documentElement.lang === 'en', 'no language');
		is(document.title, 'no title');
		is(all('h1').length === 1, 'not one h1');
		is(document.querySelectorAll('main').length === 1, 'not one main');
		is(all('header').length === 1 && all('footer').length === 1, 'no header or footer');
		let level = 1;
		for (const h of all('h1, h2, h3, h4')) { const n = Number(h.tagName[1]); is(n <= level + 1, 'a heading skips a level: ' + h.textContent); level = n; }
		for (const e of all('input, select, textarea')) is(e.labels.length && e.labels[0].textContent.trim(), 'no label: ' + e.id);
		for (const e of all('button, a')) is((e.getAttribute('aria-label') || e.textContent).trim(), 'no name: ' + e.outerHTML);
		for (const e of all('table')) is(e.querySelector('th[scope=col]'), 'no header: ' + e.id);
		for (const e of all('section')) is(document.getElementById(e.getAttribute('aria-labelledby'))?.textContent, 'a section has no name');
		for (const e of all('svg')) is(e.getAttribute('aria-hidden') === 'true' || e.getAttribute('aria-label'), 'a picture without a text');
		for (const e of document.querySelectorAll('[tabindex]')) is(Number(e.getAttribute('tabindex')) < 1, 'an order of its own: ' + e.id);
		is(document.querySelectorAll('[aria-live], [role=status]').length === 1, 'not one live region');
		is(document.getElementById('said').textContent.length < 60, 'the live region is chatty');
		const ids = [...document.querySelectorAll('[id]')].map((e) => e.id);
		is(new Set(ids).size === ids.length, 'two of one id');
		return wrong;
	})()`) {
		t.Errorf("for people who do not see the page: %s", wrong)
	}
}

// shots writes pictures of the page into the folder RATION_SCREENSHOTS, for people to look at.
func shots(t *testing.T, b *browser) {
	dir := os.Getenv("RATION_SCREENSHOTS")
	if dir == "" {
		return
	}
	for _, scheme := range []string{"light", "dark"} {
		b.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
			_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
			})
			return err
		}))
		for _, width := range []int64{1280, 390} {
			b.do(chromedp.EmulateViewport(width, 800))
			picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d.png", scheme, width)), picture, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}
