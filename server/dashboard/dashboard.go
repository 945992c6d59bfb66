// Package dashboard is the page at "/" of a ration server, for people who look at it. It is three embedded files without a
// build step: the script asks the API of the same server, and nothing else. It decides nothing and holds no secret.
package dashboard

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"io/fs"
	"maps"
	"net/http"
	"slices"
	"strings"
)

//go:embed assets
var assets embed.FS

// policy lets the page run its own script and talk to its own server: no other origin, no inline code, no frames.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// file is one asset.
type file struct {
	kind string
	body []byte
	etag string
}

const (
	page     = "/"
	ofAssets = "/dashboard/"
)

var kinds = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

// Has reports whether path is the dashboard's.
func Has(path string) bool { return path == page || strings.HasPrefix(path, ofAssets) }

// Paths are those of the page and its files.
func Paths() []string { return slices.Sorted(maps.Keys(files())) }

// Handler serves the page and its files. It is safe for concurrent use, and asks nobody who calls: the files tell nothing. What
// they show comes from the API, which may ask.
func Handler() http.Handler {
	all := files()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(w, r, all) })
}

// files are those that are embedded, by their paths.
func files() map[string]*file {
	files := map[string]*file{}
	entries, err := fs.ReadDir(assets, "assets")
	if err != nil {
		panic(err) // they are embedded
	}
	for _, entry := range entries {
		name := entry.Name()
		body, err := assets.ReadFile("assets/" + name)
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(body)
		one := &file{kinds[name[strings.LastIndexByte(name, '.'):]], body, `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`}
		files[ofAssets+name] = one
		if name == "index.html" {
			files[page] = one
		}
	}
	return files
}

func serve(w http.ResponseWriter, r *http.Request, files map[string]*file) {
	header := w.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Content-Security-Policy", policy)
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	one := files[r.URL.Path]
	switch {
	case one == nil:
		http.Error(w, "there is nothing at this path", http.StatusNotFound)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "this path is for GET", http.StatusMethodNotAllowed)
	default:
		r.Pattern = r.URL.Path
		header.Set("Content-Type", one.kind)
		header.Set("Cache-Control", "no-cache") // asks whether it is still the same
		header.Set("ETag", one.etag)
		if r.Header.Get("If-None-Match") == one.etag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.WriteHeader(http.StatusOK)
		if r.Method == http.MethodGet {
			_, _ = w.Write(one.body) // the client may be gone
		}
	}
}
