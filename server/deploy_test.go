package server_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/ration-go/ration/server"
)

// There is no Docker and no Kubernetes in the tests: what is in deploy is read, and what it tells the program is asked of the
// program.

// documents reads the documents of a YAML file, strictly.
func documents(t *testing.T, path string) (docs []node) {
	t.Helper()
	d := yaml.NewDecoder(bytes.NewReader(must[[]byte](t)(os.ReadFile(path))))
	for {
		var one map[string]any
		if err := d.Decode(&one); errors.Is(err, io.EOF) {
			return docs
		} else if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		docs = append(docs, node{one})
	}
}

// node is a value in YAML.
type node struct{ v any }

// at follows keys, with points between; a number is an element of a list.
func (n node) at(path string) node {
	v := n.v
	for key := range strings.SplitSeq(path, ".") {
		switch in := v.(type) {
		case map[string]any:
			v = in[key]
		case []any:
			i := int(key[0] - '0')
			if len(key) != 1 || i >= len(in) {
				return node{}
			}
			v = in[i]
		default:
			return node{}
		}
	}
	return node{v}
}

func (n node) has(t *testing.T, path string, want any) {
	t.Helper()
	if got := n.at(path).v; sprint(got) != sprint(want) {
		t.Errorf("%s is %v, want %v", path, got, want)
	}
}

func (n node) text() string { s, _ := n.v.(string); return s }

func TestKubernetes(t *testing.T) {
	t.Parallel()
	kinds := map[string]node{}
	for _, doc := range documents(t, "../deploy/kubernetes/ration.yaml") {
		kinds[doc.at("kind").text()] = doc
		doc.has(t, "metadata.name", "ration")
	}
	d := kinds["Deployment"]
	d.has(t, "apiVersion", "apps/v1")
	d.has(t, "spec.replicas", 2)
	d.has(t, "spec.strategy.rollingUpdate.maxUnavailable", 0)
	pod := d.at("spec.template.spec")
	for path, want := range map[string]any{
		"securityContext.runAsNonRoot":        true,
		"securityContext.runAsUser":           65532,
		"securityContext.seccompProfile.type": "RuntimeDefault",
		"automountServiceAccountToken":        false,
		"serviceAccountName":                  "ration",
		// Kubernetes would set RATION_PORT, which is a variable that the program does not know.
		"enableServiceLinks": false,
	} {
		pod.has(t, path, want)
	}
	c := pod.at("containers.0")
	for path, want := range map[string]any{
		"securityContext.allowPrivilegeEscalation": false,
		"securityContext.readOnlyRootFilesystem":   true,
		"securityContext.capabilities.drop":        []any{"ALL"},
		"startupProbe.httpGet.path":                "/healthz",
		"startupProbe.httpGet.port":                "http",
		"readinessProbe.tcpSocket.port":            "http",
		"livenessProbe.tcpSocket.port":             "http",
		"ports.0.name":                             "http",
		"resources.limits.memory":                  "256Mi",
	} {
		c.has(t, path, want)
	}
	if c.at("resources.requests.cpu").v == nil || c.at("resources.requests.memory").v == nil || c.at("resources.limits.cpu").v != nil {
		t.Error("resources: requests, and a limit of memory only")
	}
	labels := d.at("spec.template.metadata.labels")
	for _, selector := range []node{d.at("spec.selector.matchLabels"), kinds["Service"].at("spec.selector"), kinds["PodDisruptionBudget"].at("spec.selector.matchLabels")} {
		if selector.v == nil || sprint(selector.v) != sprint(labels.v) {
			t.Errorf("a selector is %v, the pods have %v", selector.v, labels.v)
		}
	}
	kinds["PodDisruptionBudget"].has(t, "spec.minAvailable", 1)
	kinds["PodDisruptionBudget"].has(t, "apiVersion", "policy/v1")
	kinds["Service"].has(t, "spec.ports.0.targetPort", "http")
	if grace, drain := pod.at("terminationGracePeriodSeconds").v.(int), c.at("lifecycle.preStop.sleep.seconds").v.(int); time.Duration(grace-drain)*time.Second <= server.Defaults().ShutdownTimeout {
		t.Errorf("%d s are too short for a stop", grace)
	}

	// The program takes the configuration and the environment as they are.
	dir := t.TempDir()
	config := kinds["ConfigMap"].at("data").v.(map[string]any)["ration.yaml"].(string)
	secret := kinds["Secret"].at("stringData")
	tokens := write(t, filepath.Join(dir, "tokens"), secret.at("tokens").text())
	if !strings.Contains(config, "/etc/ration/secret/tokens") {
		t.Error("the tokens are elsewhere")
	}
	config = strings.Replace(config, "/etc/ration/secret/tokens", tokens, 1)
	env := []string{"RATION_STORE=" + secret.at("store").text(), "RATION_ENV=production"}
	cfg := must[*server.Config](t)(server.Load(write(t, filepath.Join(dir, "ration.yaml"), config), env))
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
	c.has(t, "ports.0.containerPort", 7531)
	if cfg.Listen != ":7531" || len(cfg.Limits) != 1 {
		t.Errorf("%+v", cfg)
	}
}

func TestCompose(t *testing.T) {
	t.Parallel()
	files := must[[]string](t)(filepath.Glob("../deploy/compose/*.yaml"))
	if len(files) != 3 {
		t.Errorf("%d files", len(files))
	}
	for _, file := range files {
		doc := documents(t, file)[0]
		r := doc.at("services.ration")
		for path, want := range map[string]any{
			"read_only": true, "cap_drop": []any{"ALL"}, "security_opt": []any{"no-new-privileges:true"}, "build.dockerfile": "deploy/Dockerfile",
			"secrets": []any{"ration_tokens"},
		} {
			r.has(t, path, want)
		}
		doc.has(t, "secrets.ration_tokens.file", "./tokens")
		if ports := r.at("ports.0").text(); !strings.HasPrefix(ports, "127.0.0.1:") {
			t.Errorf("%s: published at %s", file, ports)
		}
		var env []string
		for name, value := range r.at("environment").v.(map[string]any) {
			env = append(env, name+"="+value.(string))
		}
		cfg, err := server.Load("", env)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		scheme, _, _ := strings.Cut(cfg.Store, ":")
		if cfg.Access.TokensFile == "" || scheme == "memory" {
			t.Errorf("%s: %+v", file, cfg)
		}
	}
	valkey := documents(t, "../deploy/compose/valkey.yaml")[0].at("services.valkey.command")
	for _, arg := range []string{"noeviction", "--appendonly"} {
		if !slices.Contains(valkey.v.([]any), any(arg)) {
			t.Errorf("valkey runs without %s", arg)
		}
	}
}

func TestDockerfile(t *testing.T) {
	t.Parallel()
	text := string(must[[]byte](t)(os.ReadFile("../deploy/Dockerfile")))
	_, final, _ := strings.Cut(text, "\nFROM gcr.io/distroless/")
	for _, want := range []string{"static-debian12:nonroot\n", "\nUSER 65532:65532\n", `ENTRYPOINT ["/ration"]`, `CMD ["serve"]`} {
		if !strings.Contains(final, want) {
			t.Errorf("the last stage lacks %q", want)
		}
	}
	for _, want := range []string{"CGO_ENABLED=0", "server.stamped=$VERSION", "golang:1.26"} {
		if !strings.Contains(text, want) {
			t.Errorf("the build lacks %q", want)
		}
	}
	var env []string
	for _, pair := range regexp.MustCompile(`RATION_\w+=\S+`).FindAllString(final, -1) {
		env = append(env, pair)
	}
	if cfg, err := server.Load("", env); err != nil || cfg.Listen != ":7531" || len(env) != 2 {
		t.Errorf("%v: %v", env, err)
	}
}

func TestSystemd(t *testing.T) {
	t.Parallel()
	text := string(must[[]byte](t)(os.ReadFile("../deploy/systemd/ration.service")))
	for _, want := range []string{
		"DynamicUser=yes", "ProtectSystem=strict", "NoNewPrivileges=yes", "StateDirectory=ration", "CapabilityBoundingSet=\n", "ExecReload=/bin/kill -HUP $MAINPID",
	} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("it lacks %s", want)
		}
	}
	verify, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("systemd-analyze is not here: the unit was read, and not verified")
		return
	}
	unit := write(t, filepath.Join(t.TempDir(), "ration.service"), strings.Replace(text, "ExecStart=/usr/local/bin/ration", "ExecStart="+program, 1))
	if out, err := exec.Command(verify, "verify", "--man=no", unit).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}
