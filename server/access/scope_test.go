package access_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ration-go/ration/server/access"
)

func TestParseScopes(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"read", "take", "reset", "admin", "take:chat", "take:team-a.*", "take:envoy/edge", "take@shop", "admin@*", "take:chat@*",
		"take,read", "take:chat,take:uploads,reset@a%20b", "read@a%2Cb%40%25",
	} {
		scopes, err := access.ParseScopes(text)
		var back []string
		for _, s := range scopes {
			back = append(back, s.String())
		}
		if err != nil || strings.Join(back, ",") != text {
			t.Errorf("%s: %v, %v", text, back, err)
		}
	}
	for _, text := range []string{
		"", ",", "take,", "tak", "Take", "take ", "take:", "take:a b", "take:**", "take:*a", "take@", "take@%", "take@%2A", "admin:chat", "take:chat:x", "*", "all",
	} {
		if scopes, err := access.ParseScopes(text); err == nil {
			t.Errorf("%q is read as %v", text, scopes)
		}
	}
	if scopes, err := access.ParseScopes("take:*"); err != nil || scopes[0].String() != "take" {
		t.Errorf("%v, %v", scopes, err)
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 100 {
		token := access.NewToken()
		if _, err := access.HashOf(token); err != nil || seen[token] || len(token) != 50 {
			t.Fatalf("%d bytes, %v", len(token), err)
		}
		seen[token] = true
	}
	for _, bad := range []string{"", "short", strings.Repeat("x", 31), strings.Repeat("x", 513), strings.Repeat("x", 40) + "\n", strings.Repeat("x", 40) + " y", strings.Repeat("é", 40)} {
		if _, err := access.HashOf(bad); err == nil || strings.Contains(err.Error(), "xxx") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	h, err := access.HashOf(strings.Repeat("a", 32))
	if want := "sha256:3ba3f5f43b92602683c19aee62a20342b084dd5971ddd33808d81a328879a547"; err != nil || h.String() != want {
		t.Errorf("%s, %v", h, err) // printf %032d 0 | tr 0 a | sha256sum
	}
}

func TestParseToken(t *testing.T) {
	t.Parallel()
	hash := "sha256:" + strings.Repeat("ab", 32)
	for _, line := range []string{
		"web " + hash + " take", "a.b-c_9 " + hash + " take:chat,read 2027-01-01", "web " + hash + " admin@* 2027-01-01T12:00:00Z",
	} {
		token, err := access.ParseToken(line)
		if err != nil || token.String() != line {
			t.Errorf("%s: %s, %v", line, token.String(), err)
		}
	}
	if token, err := access.ParseToken("  web\t" + hash + "  take  never "); err != nil || !token.Expires.IsZero() {
		t.Errorf("%v, %v", token, err)
	}
	if token, err := access.ParseToken("web " + hash + " take 2027-01-01T01:00:00+01:00"); err != nil || !token.Expires.Equal(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("%v, %v", token, err)
	}
	secret := access.NewToken()
	for _, line := range []string{
		"", "web", "web " + hash, "web " + hash + " take never more", "9web " + hash + " take", "web sha256:ab take", "web " + strings.Repeat("ab", 32) + " take",
		"web " + hash + "ab take", "web sha256:" + strings.Repeat("zz", 32) + " take", "web " + hash + " steal", "web " + hash + " take tomorrow",
		"web " + hash + " take 0001-01-01", "web " + secret + " take", secret + " " + hash + " take extra words",
	} {
		_, err := access.ParseToken(line)
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%q: %v", line, err)
		}
	}
}

func TestParseTokens(t *testing.T) {
	t.Parallel()
	one, two := "sha256:"+strings.Repeat("ab", 32), "sha256:"+strings.Repeat("cd", 32)
	tokens, err := access.ParseTokens([]byte("# who\n\n a " + one + " take\r\nb " + two + " read\n"))
	if err != nil || len(tokens) != 2 || tokens[1].Name != "b" {
		t.Errorf("%v, %v", tokens, err)
	}
	for text, want := range map[string]string{
		"a " + one + " take\na " + two + " take\n":            "two tokens have the name a",
		"a " + one + " take\nb " + one + " take\n":            "a and b are one token",
		"a " + one + " take\n\nb\nc " + two + " steal\n":      "line 3: ",
		strings.Repeat("x", 70_000) + "\n":                    "token too long",
		"a " + one + " take\n# no\nb " + two + " take,grab\n": `line 3: b: the scope "grab"`,
	} {
		if _, err := access.ParseTokens([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v", text, err)
		}
	}
}
