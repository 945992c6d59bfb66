//go:build linux

package grpcapi_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/ration-go/ration/internal/engines"
	rationv1 "github.com/ration-go/ration/server/grpcapi/ration/v1"
)

// published is the interface as clients know it. What is added to the proto since does not break them; at a release it is made
// anew, by the command in the documentation of this package.
const published = "testdata/published.binpb"

// buf runs it in dir, without a network and without the cache of whoever runs this.
func buf(t *testing.T, dir string, args ...string) (out string, err error) {
	t.Helper()
	cmd := exec.Command(engines.Buf(t), args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "BUF_CACHE_DIR="+t.TempDir())
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// TestBuf has buf check the style of the proto, and that it breaks nobody who knows the published one.
func TestBuf(t *testing.T) {
	t.Parallel()
	against, err := filepath.Abs(published)
	if err != nil {
		t.Fatal(err)
	}
	lint, breaking := []string{"lint"}, []string{"breaking", "--against", against}
	for _, args := range [][]string{lint, breaking} {
		if out, err := buf(t, ".", args...); err != nil {
			t.Errorf("buf %s: %v\n%s", args[0], err, out)
		}
	}

	// It would see mistakes.
	for _, one := range []struct {
		old, new string
		args     []string
		says     string
	}{
		{"message TakeRequest {", "message TakeRequest {\n  string badName = 100;", lint, "lower_snake_case"},
		{"rpc Take(TakeRequest) returns (TakeResponse)", "rpc Take(PeekRequest) returns (TakeResponse)", lint, "TakeRequest"},
		{"rpc Take(TakeRequest) returns (TakeResponse)", "rpc Grab(TakeRequest) returns (TakeResponse)", breaking, `"Take"`},
		{"bool allowed = 1;", "int64 allowed = 1;", breaking, `"allowed"`},
	} {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(".")); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "ration/v1/ration.proto")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), one.old) {
			t.Fatalf("the proto has no %q", one.old)
		}
		if err := os.WriteFile(file, []byte(strings.Replace(string(text), one.old, one.new, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := buf(t, dir, one.args...); err == nil || !strings.Contains(out, one.says) {
			t.Errorf("%s: %v\n%s", one.new, err, out)
		}
	}
}

// TestGeneratedCodeIsCurrent compares what the proto compiles to with what the generated code has.
func TestGeneratedCodeIsCurrent(t *testing.T) {
	t.Parallel()
	image := filepath.Join(t.TempDir(), "image.binpb")
	if out, err := buf(t, ".", "build", "--exclude-source-info", "--as-file-descriptor-set", "-o", image); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	data, err := os.ReadFile(image)
	if err != nil {
		t.Fatal(err)
	}
	set := new(descriptorpb.FileDescriptorSet)
	if err := proto.Unmarshal(data, set); err != nil {
		t.Fatal(err)
	}
	compiled := protodesc.ToFileDescriptorProto(rationv1.File_ration_v1_ration_proto)
	for _, file := range set.File {
		if file.GetName() != compiled.GetName() {
			continue
		}
		if !proto.Equal(file, compiled) {
			t.Errorf("the generated code is of another proto; run: cd server && GOWORK=off go generate ./grpcapi")
		}
		return
	}
	t.Errorf("buf compiles no %s", compiled.GetName())
}
