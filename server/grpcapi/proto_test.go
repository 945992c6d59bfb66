package grpcapi_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	rationv1 "github.com/ration-go/ration/server/grpcapi/ration/v1"
)

// TestGeneratedCodeIsOfTheProto compares names, types and numbers of the proto's text with those that the generated code
// has.
func TestGeneratedCodeIsOfTheProto(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("ration/v1/ration.proto")
	if err != nil {
		t.Fatal(err)
	}
	inText, inCode := linesOfText(string(text)), linesOfCode(rationv1.File_ration_v1_ration_proto)
	for _, line := range inText {
		if !slices.Contains(inCode, line) {
			t.Errorf("only the text has %s", line)
		}
	}
	for _, line := range inCode {
		if !slices.Contains(inText, line) {
			t.Errorf("only the code has %s", line)
		}
	}
	if len(inText) < 100 {
		t.Errorf("only %d lines were found", len(inText))
	}
}

var (
	messageForm = regexp.MustCompile(`^message (\w+) \{`)
	fieldForm   = regexp.MustCompile(`^\s+((?:optional |repeated )?\w+) (\w+) = (\d+);`)
	rpcForm     = regexp.MustCompile(`^\s+rpc (\w+)\((\w+)\) returns \((\w+)\)`)
)

func linesOfText(text string) (lines []string) {
	message := ""
	for line := range strings.Lines(text) {
		if m := messageForm.FindStringSubmatch(line); m != nil {
			message = m[1]
		} else if m := fieldForm.FindStringSubmatch(line); m != nil {
			lines = append(lines, fmt.Sprintf("%s: %s %s = %s", message, m[1], m[2], m[3]))
		} else if m := rpcForm.FindStringSubmatch(line); m != nil {
			lines = append(lines, fmt.Sprintf("%s(%s) %s", m[1], m[2], m[3]))
		}
	}
	return lines
}

func linesOfCode(file protoreflect.FileDescriptor) (lines []string) {
	for i := range file.Messages().Len() {
		message := file.Messages().Get(i)
		for j := range message.Fields().Len() {
			field := message.Fields().Get(j)
			kind := field.Kind().String()
			if field.Kind() == protoreflect.MessageKind {
				kind = string(field.Message().Name())
			}
			switch {
			case field.IsList():
				kind = "repeated " + kind
			case field.HasOptionalKeyword():
				kind = "optional " + kind
			}
			lines = append(lines, fmt.Sprintf("%s: %s %s = %d", message.Name(), kind, field.Name(), field.Number()))
		}
	}
	methods := file.Services().Get(0).Methods()
	for i := range methods.Len() {
		m := methods.Get(i)
		lines = append(lines, fmt.Sprintf("%s(%s) %s", m.Name(), m.Input().Name(), m.Output().Name()))
	}
	return lines
}
