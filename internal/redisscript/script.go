package redisscript

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"strings"
)

//go:embed lua/core.lua
var coreText string

//go:embed lua/hold.lua
var holdText string

//go:embed lua/main.lua
var mainText string

// script is a Lua script and the SHA-1 by which Redis knows it.
type script struct{ text, sha string }

// The two scripts: plain is without what only holds and ids need.
var (
	plainScript = newScript(coreText, mainText)
	holdScript  = newScript(coreText, holdText, mainText)
)

// newScript joins parts, without comments and indentation: the text is sent whenever a server has forgotten it.
func newScript(parts ...string) script {
	var b strings.Builder
	for _, part := range parts {
		for line := range strings.Lines(part) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "--") {
				b.WriteString(line + "\n")
			}
		}
	}
	text := b.String()
	sum := sha1.Sum([]byte(text))
	return script{text, hex.EncodeToString(sum[:])}
}
