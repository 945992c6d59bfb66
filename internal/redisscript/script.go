package redisscript

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"strings"

	"github.com/ration-go/ration/driver"
)

//go:embed lua
var files embed.FS

// script is a Lua script and the SHA-1 by which Redis knows it.
type script struct{ text, sha string }

// The scripts are made of the same parts, and each only of what it needs: Redis runs all of a script's definitions at each
// call.
var (
	oneScripts = [...]script{
		driver.Bucket:  newScript("onebucket"),
		driver.Window:  newScript("onewindow", "head", "window", "change", "one"),
		driver.Counter: newScript("onecount"),
		driver.Budget:  newScript("onecount"),
	}
	manyScript  = newScript("many")
	plainScript = newScript("head", "bucket", "count", "window", "slots", "change", "more", "main")
	dueScript   = newScript("due")
	holdScript  = newScript("head", "bucket", "count", "window", "slots", "change", "more", "hold", "main")
)

// newScript nests parts, without comments and indentation: the text is sent whenever a server has forgotten it. A line
// --@name stands for a fragment, which works on the variables around it.
//
// Each part is a function within the one before. A function that Lua makes looks up each variable of the function around it
// in a list, which is long if all are in one; those from further out cost nothing.
func newScript(parts ...string) script {
	var b strings.Builder
	for i, part := range parts {
		if i > 0 {
			b.WriteString("return (function()\n")
		}
		addPart(&b, "lua/"+part+".lua")
	}
	b.WriteString(strings.Repeat("end)()\n", len(parts)-1))
	text := b.String()
	sum := sha1.Sum([]byte(text))
	return script{text, hex.EncodeToString(sum[:])}
}

func addPart(b *strings.Builder, name string) {
	text, err := files.ReadFile(name)
	if err != nil {
		panic(err) // it is compiled in
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if fragment, ok := strings.CutPrefix(line, "--@"); ok {
			addPart(b, "lua/frag/"+fragment+".lua")
		} else if line != "" && !strings.HasPrefix(line, "--") {
			b.WriteString(line + "\n")
		}
	}
}
