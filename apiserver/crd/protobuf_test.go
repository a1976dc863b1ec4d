package crd_test

import (
	"bytes"
	"encoding/json"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/kinds/apiextensions"
	"github.com/planekit/planekit/storage"
	"google.golang.org/protobuf/encoding/protowire"
	kuberuntime "k8s.io/apimachinery/pkg/runtime"
)

// envelope returns a message of a definition as it is on the wire.
func envelope(t *testing.T, message []byte) string {
	t.Helper()
	u := kuberuntime.Unknown{TypeMeta: kuberuntime.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"}, Raw: message}
	data, err := u.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return "k8s\x00" + string(data)
}

// within returns a message in the fields with these numbers, the last number the innermost.
func within(message []byte, numbers ...protowire.Number) []byte {
	for i := len(numbers) - 1; i >= 0; i-- {
		message = protowire.AppendBytes(protowire.AppendTag(nil, numbers[i], protowire.BytesType), message)
	}
	return message
}

// TestProtobufDefinitions: a definition is created, read and stored, and what is stored is JSON.
func TestProtobufDefinitions(t *testing.T) {
	a := start(t, nil)
	var d apiextensions.CustomResourceDefinition
	if err := json.Unmarshal([]byte(widgets(widgetSchema, "")), &d); err != nil {
		t.Fatal(err)
	}
	message, err := d.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	proto := []string{"Content-Type: application/vnd.kubernetes.protobuf", "Accept: application/vnd.kubernetes.protobuf"}
	if got := a.do("POST", definitions, envelope(t, message), proto...); got.code != 201 || !strings.HasPrefix(got.body, "k8s\x00") {
		t.Fatalf("POST = %d %q, want 201 and protobuf", got.code, got.body)
	}
	for _, path := range []string{definitions, definitions + "/widgets.example.com"} {
		if got := a.do("GET", path, "", proto...); got.code != 200 || !strings.HasPrefix(got.body, "k8s\x00") || !strings.Contains(got.body, "CustomResourceDefinition") {
			t.Errorf("GET %s = %d %q, want 200 and protobuf", path, got.code, got.body)
		}
	}
	page, err := a.store.List(t.Context(), "/registry/", storage.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stored := 0
	for _, r := range page.Records {
		if !bytes.Contains(r.Value, []byte("widgets.example.com")) {
			continue
		}
		if stored++; !bytes.HasPrefix(r.Value, []byte("{")) {
			t.Errorf("%s is stored as %q, want JSON", r.Key, r.Value)
		}
	}
	if stored != 1 {
		t.Errorf("%d definitions are stored, want 1", stored)
	}
}

// TestHostileMessages: messages that are small and would become large, deep or malformed objects are refused at a bounded cost.
func TestHostileMessages(t *testing.T) {
	a := start(t, nil)
	schema := []protowire.Number{2, 7, 4, 1} // spec, versions, schema, openAPIV3Schema
	nested := []byte{}
	for range 5000 {
		nested = within(nested, 28)
	}
	for name, message := range map[string][]byte{
		"a million empty schemas":   within(bytes.Repeat([]byte("\xca\x01\x00"), 1_000_000), schema...),
		"a million empty values":    within(bytes.Repeat([]byte("\xa2\x01\x00"), 1_000_000), schema...),
		"a million empty versions":  within(bytes.Repeat([]byte("\x3a\x00"), 1_000_000), 2),
		"a deep schema":             within(nested, schema...),
		"a value that is no JSON":   within(within([]byte(`{"a`), 8, 1), schema...),
		"a message that ends early": []byte("\x12\xff\x01a"),
		"a name as a number":        []byte("\x12\x02\x08\x01"),
	} {
		debug.FreeOSMemory()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now()
		got := a.do("POST", definitions, envelope(t, message), "Content-Type: application/vnd.kubernetes.protobuf")
		runtime.ReadMemStats(&after)
		allocated := after.TotalAlloc - before.TotalAlloc
		t.Logf("%s: %d bytes, %d in %v, %d MB allocated: %.200s", name, len(message), got.code, time.Since(began), allocated>>20, got.body)
		if got.code < 400 || got.code > 422 && got.code != 429 {
			t.Errorf("POST %s = %d %.300s, want a refusal", name, got.code, got.body)
		}
		if allocated > 256<<20 {
			t.Errorf("POST %s allocates %d MB, want at most 256", name, allocated>>20)
		}
	}
}
