package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/internal/wire"
	"github.com/ration-go/ration/memstore"
	"github.com/ration-go/ration/server/internal/activity"
	"github.com/ration-go/ration/server/internal/verbs"
)

type object = map[string]any

// document is openapi.json with its references.
type document struct {
	t    *testing.T
	root object
}

func newDocument(t *testing.T) document {
	t.Helper()
	d := document{t: t}
	if err := json.Unmarshal(openAPIDocument, &d.root); err != nil {
		t.Fatal(err)
	}
	return d
}

// at is the object at keys below o, with references followed.
func (d document) at(o object, keys ...string) object {
	d.t.Helper()
	o = d.follow(o)
	for _, key := range keys {
		next, ok := o[key].(object)
		if !ok {
			d.t.Fatalf("openapi.json has no %q where it is expected (%s)", key, strings.Join(keys, " "))
		}
		o = d.follow(next)
	}
	return o
}

func (d document) follow(o object) object {
	d.t.Helper()
	ref, ok := o["$ref"].(string)
	if !ok {
		return o
	}
	return d.at(d.root, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
}

func newTestHandler(t *testing.T) *handler {
	t.Helper()
	store := memstore.New(nil)
	l := ration.New(store, nil)
	t.Cleanup(func() { l.Close() })
	decide, err := verbs.New(l, store, []ration.Rule{{Name: "chat", Limit: ration.TokenBucket{Burst: 20, Refill: ration.PerMinute(10)}}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	decide.Activity = activity.New([]string{"chat"}, nil)
	h, err := New(l, store, &Options{
		Decide: decide,
		Logger: slog.New(slog.DiscardHandler),
		Reload: func(context.Context) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	h.h.OpenOverrides(t.Context(), "", time.Second, slog.New(slog.DiscardHandler))
	if _, err := h.h.SetOverride(t.Context(), ration.KeyOf("overridden"), verbs.Override{Limit: "chat", Set: verbs.Blocked}, 0); err != nil {
		t.Fatal(err)
	}
	return h.h
}

// TestDocumentAndHandlersAgree compares every path, field, type and code of openapi.json with what the handlers have.
func TestDocumentAndHandlersAgree(t *testing.T) {
	t.Parallel()
	d, h := newDocument(t), newTestHandler(t)
	paths := d.at(d.root, "paths")
	for path := range paths {
		if _, ok := h.routes[path]; !ok {
			t.Errorf("%s is in the document, but there is nothing", path)
		}
	}
	for path, rt := range h.routes {
		item, ok := paths[path].(object)
		if !ok {
			t.Errorf("%s is not in the document", path)
			continue
		}
		method := strings.ToLower(rt.method)
		if len(item) != 1 || item[method] == nil {
			t.Errorf("%s: the document should have %s and nothing else", path, method)
			continue
		}
		op := d.at(item, method)
		if rt.request == nil {
			if op["requestBody"] != nil {
				t.Errorf("%s: the document has a body", path)
			}
		} else {
			d.compare(path+" body", rt.request, d.at(op, "requestBody", "content", "application/json", "schema"), true)
		}
		if rt.answer != nil {
			d.compare(path+" answer", rt.answer, d.at(op, "responses", "200", "content", "application/json", "schema"), false)
		}
	}
	d.compare("problem", reflect.TypeFor[wire.Problem](), d.at(d.root, "components", "schemas", "Problem"), false)
	d.compare("problem of a check", reflect.TypeFor[checkProblem](), d.at(d.root, "components", "schemas", "CheckProblem"), false)
}

// compare holds schema to what type is read or written as.
func (d document) compare(place string, typ reflect.Type, schema object, request bool) {
	d.t.Helper()
	schema = d.follow(schema)
	want := ""
	switch {
	case typ == reflect.TypeFor[textKey]() || typ == reflect.TypeFor[base64Key]():
		if _, ok := schema["oneOf"]; !ok {
			d.t.Errorf("%s: a key has several forms", place)
		}
		return
	case typ.Kind() == reflect.Pointer:
		d.compare(place, typ.Elem(), schema, request)
		return
	case typ.Kind() == reflect.Slice || typ.Kind() == reflect.Array:
		want = "array"
		d.compare(place+"[]", typ.Elem(), d.at(schema, "items"), request)
		if n := arrayLen(typ); n > 0 && (schema["minItems"] != n || schema["maxItems"] != n) {
			d.t.Errorf("%s: the document does not say that there are %v elements", place, n)
		}
	case typ.Kind() == reflect.Struct:
		want = "object"
		d.compareFields(place, typ, schema, request)
	case typ.Kind() == reflect.String || typ.Kind() == reflect.Uint8: // verbs and kinds have names
		want = "string"
	case typ.Kind() == reflect.Bool:
		want = "boolean"
	case typ.Kind() == reflect.Int64 || typ.Kind() == reflect.Int:
		want = "integer"
	}
	if got := schema["type"]; got != want {
		d.t.Errorf("%s: the document has type %v, the handler %s", place, got, want)
	}
}

func (d document) compareFields(place string, typ reflect.Type, schema object, request bool) {
	d.t.Helper()
	properties := d.at(schema, "properties")
	var names, required []string
	for _, f := range reflect.VisibleFields(typ) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			continue
		}
		names = append(names, name)
		// An answer has all fields that are not left out when empty.
		if f.Tag.Get("strict") == "required" || !request && options == "" {
			required = append(required, name)
		}
		property, ok := properties[name].(object)
		if !ok {
			d.t.Errorf("%s: the document has no field %s", place, name)
			continue
		}
		d.compare(place+" "+name, f.Type, property, request)
	}
	for name := range properties {
		if !slices.Contains(names, name) {
			d.t.Errorf("%s: the document has a field %s, the handler not", place, name)
		}
	}
	var documented []string
	list, _ := schema["required"].([]any)
	for _, name := range list {
		documented = append(documented, name.(string))
	}
	slices.Sort(required)
	slices.Sort(documented)
	if !slices.Equal(required, documented) {
		d.t.Errorf("%s: the document requires %v, the handler %v", place, documented, required)
	}
	if request && schema["additionalProperties"] != false {
		d.t.Errorf("%s: the document does not say that other fields are refused", place)
	}
}

// TestDocumentedExamplesWork sends every example of the document, and looks for every documented field in the answers.
func TestDocumentedExamplesWork(t *testing.T) {
	t.Parallel()
	d, h := newDocument(t), newTestHandler(t)
	for path, rt := range h.routes {
		if rt.request == nil {
			continue
		}
		op := d.at(d.root, "paths", path, "post")
		for name, example := range d.at(op, "requestBody", "content", "application/json", "examples") {
			body, err := json.Marshal(example.(object)["value"])
			if err != nil {
				t.Fatal(err)
			}
			r := httptest.NewRequest(http.MethodPost, strings.Replace(path, "{id}", reserved(t, h), 1), bytes.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			var answer object
			if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusOK {
				t.Errorf("%s, example %s: %d %s", path, name, w.Code, w.Body)
				continue
			}
			schema := d.at(op, "responses", "200", "content", "application/json", "schema")
			for field := range answer {
				if d.at(schema, "properties")[field] == nil {
					t.Errorf("%s answers %s, which is not documented", path, field)
				}
			}
			required, _ := schema["required"].([]any)
			for _, field := range required {
				if _, ok := answer[field.(string)]; !ok {
					t.Errorf("%s does not answer %s", path, field)
				}
			}
		}
	}
}

// reserved is the id of a new reservation of two equal charges.
func reserved(t *testing.T, h *handler) string {
	t.Helper()
	const body = `{"charges":[{"key":"a","limit":"fixed 1000000/1h","cost":1000},{"key":"b","limit":"fixed 1000000/1h","cost":1000}]}`
	r := httptest.NewRequest(http.MethodPost, "/v1/reserve", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var answer reserveAnswer
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || answer.ID == "" {
		t.Fatalf("%v: %s", err, w.Body)
	}
	return answer.ID
}

// TestCodesAreDocumented finds the codes in the sources, and looks for them in openapi.json and the package comment.
func TestCodesAreDocumented(t *testing.T) {
	t.Parallel()
	codes := codesInSource(t, "problem.go", "../internal/verbs/problem.go", "../../internal/wire/problem.go", "../../internal/strictjson/error.go")
	d := newDocument(t)
	var documented []string
	for _, code := range d.at(d.root, "components", "schemas", "Code")["enum"].([]any) {
		documented = append(documented, code.(string))
	}
	slices.Sort(documented)
	if !slices.Equal(codes, documented) {
		t.Errorf("the sources have the codes\n%v\nopenapi.json\n%v", codes, documented)
	}
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	table := string(doc[bytes.Index(doc, []byte("# Status and errors")):])
	for _, code := range codes {
		if !regexp.MustCompile(`\b` + code + `\b`).MatchString(table) {
			t.Errorf("the package comment does not name %s", code)
		}
	}
}

// codesInSource are the values of the constants of type Code in files.
func codesInSource(t *testing.T, files ...string) (codes []string) {
	t.Helper()
	isCode := regexp.MustCompile(`^"[a-z]+(_[a-z]+)*"$`)
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.FromSlash(file), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range parsed.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok || gen.Tok != token.CONST {
				continue
			}
			for _, spec := range gen.Specs {
				if !strings.Contains(strings.ToLower(spec.(*ast.ValueSpec).Names[0].Name), "code") && !strings.Contains(file, "strictjson") {
					continue
				}
				ast.Inspect(spec, func(n ast.Node) bool {
					if lit, ok := n.(*ast.BasicLit); ok && isCode.MatchString(lit.Value) {
						codes = append(codes, strings.Trim(lit.Value, `"`))
					}
					return true
				})
			}
		}
	}
	slices.Sort(codes)
	return codes
}

func arrayLen(typ reflect.Type) float64 {
	if typ.Kind() != reflect.Array {
		return 0
	}
	return float64(typ.Len())
}
