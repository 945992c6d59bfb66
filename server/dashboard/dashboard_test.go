package dashboard

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

func get(method, path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, r)
	return w
}

func TestFilesAreServedUnderTheirPolicy(t *testing.T) {
	t.Parallel()
	for path, kind := range map[string]string{
		"/": "text/html", "/dashboard/app.js": "text/javascript", "/dashboard/style.css": "text/css", "/dashboard/icon.svg": "image/svg+xml",
	} {
		w := get(http.MethodGet, path)
		if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), kind) || w.Body.Len() < 100 {
			t.Errorf("%s: %d %v", path, w.Code, w.Header())
		}
		if csp := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") ||
			!strings.Contains(csp, "frame-ancestors 'none'") || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", path, w.Header())
		}
		if again := get(http.MethodGet, path, "If-None-Match", w.Header().Get("ETag")); again.Code != http.StatusNotModified || again.Body.Len() > 0 {
			t.Errorf("%s again: %d", path, again.Code)
		}
		if head := get(http.MethodHead, path); head.Code != http.StatusOK || head.Body.Len() > 0 {
			t.Errorf("HEAD %s: %d", path, head.Code)
		}
		if post := get(http.MethodPost, path); post.Code != http.StatusMethodNotAllowed || post.Header().Get("Allow") == "" {
			t.Errorf("POST %s: %d", path, post.Code)
		}
	}
	for _, path := range []string{"/dashboard/", "/dashboard/none.js", "/dashboard/../app.js"} {
		if w := get(http.MethodGet, path); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	if !Has("/") || !Has("/dashboard/app.js") || Has("/v1/take") || Has("/dashboards") {
		t.Error("Has")
	}
}

// TestNothingIsInlineOrElsewhere: the policy would stop it in a browser; here it is seen before.
func TestNothingIsInlineOrElsewhere(t *testing.T) {
	t.Parallel()
	for path, forbidden := range map[string]string{
		"/":                    `style=|\son[a-z]+=|<style|<script>|https?:`,
		"/dashboard/app.js":    `innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function|https?://[^w]|localStorage|document\.cookie`,
		"/dashboard/style.css": `@import|url\(|https?:`,
	} {
		if found := regexp.MustCompile(forbidden).FindString(get(http.MethodGet, path).Body.String()); found != "" {
			t.Errorf("%s has %q", path, found)
		}
	}
}
