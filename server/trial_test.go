package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// Shadows and candidates over HTTP and from the shell: they refuse nobody, and the report says whom they would have hit.
func TestTrials(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const config = `store: "memory:"
limits:
  uploads:
    limit: fixed 2/1h
    shadow: true
  chat:
    limit: fixed 5/1h
    candidate: sliding 1/1h
check:
  uploads: header X-User
  chat: header X-User
`
	path := write(t, filepath.Join(dir, "ration.yaml"), config)
	p := serve(t, dir, "--config", path)
	for i := range 3 {
		_, answer := post(t, p.url+"/v1/take", `{"key": "k", "limit": "uploads"}`)
		if answer["allowed"] != true || (answer["shadow"] == true) != (i == 2) {
			t.Errorf("take %d of a shadow: %v", i+1, answer)
		}
		if _, answer = post(t, p.url+"/v1/take-all", `{"charges": [{"key": "k", "limit": "chat"}]}`); answer["allowed"] != true || answer["shadow"] != nil {
			t.Errorf("take %d with a candidate: %v", i+1, answer)
		}
	}
	for limit, want := range map[string]string{"uploads": "uploads", "chat": ""} {
		req := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+"/v1/check/"+limit, nil))
		req.Header.Set("X-User", "k")
		res := must[*http.Response](t)(http.DefaultClient.Do(req))
		res.Body.Close()
		if res.StatusCode != 200 || res.Header.Get("Ration-Shadow") != want || res.Header.Get("Retry-After") != "" {
			t.Errorf("the check of %s: %d %v", limit, res.StatusCode, res.Header)
		}
	}
	for _, c := range [][2]string{
		{"limits candidate uploads", "of 4 decisions since T, uploads would have refused 2\nwould be hit:  F  2\n"},
		{"limits candidate chat", "of 4 decisions since T, chat refused 0, its candidate (sliding 1/1h) would have refused 3, and both 0\nwould be hit:  F  3\n"},
		{"limits", "chat     fixed 5/1h    candidate: sliding 1/1h\nuploads  fixed 2/1h    shadow: refuses nobody\n"},
		{"take k uploads", "allowed, since uploads is a shadow: 0 of 2 left\n"},
	} {
		args, want := c[0], c[1]
		stdout, stderr, code := run(t, dir, nil, append(strings.Fields(args), "--server", p.url)...)
		fields := strings.Fields(stdout)
		for i, f := range fields {
			switch {
			case i > 1 && fields[i-2] == "since" && strings.HasSuffix(f, "Z,"):
				stdout = strings.Replace(stdout, fields[i-1]+" "+strings.TrimSuffix(f, ","), "T", 1)
			case len(f) == 32:
				stdout = strings.Replace(stdout, f, "F", 1)
			}
		}
		if code != 0 || stdout != want {
			t.Errorf("%s: %d\n%s\nnot\n%s%s", args, code, stdout, want, stderr)
		}
	}
	if status, answer := get(t, p.url+"/v1/limits/nobody/candidate"); status != 400 || answer["code"] != "unknown_limit" {
		t.Errorf("%d %v", status, answer)
	}

	// A reload makes the shadow live, with what it has counted.
	replace(t, path, strings.Replace(config, "    shadow: true\n", "", 1))
	p.wait(p.stderr, "trial of limits.uploads: removed")
	if _, answer := post(t, p.url+"/v1/take", `{"key": "k", "limit": "uploads"}`); answer["allowed"] != false || fmt.Sprint(answer["used"]) != "2" {
		t.Errorf("after the trial: %v", answer)
	}
	if status, answer := get(t, p.url+"/v1/limits/uploads/candidate"); status != 404 || answer["code"] != "no_trial" {
		t.Errorf("%d %v", status, answer)
	}
}

// get answers status and body.
func get(t testing.TB, url string) (int, map[string]any) {
	t.Helper()
	req := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))
	res := must[*http.Response](t)(http.DefaultClient.Do(req))
	defer res.Body.Close()
	var answer map[string]any
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, answer
}
