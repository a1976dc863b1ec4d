package apiserver_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
)

const (
	asCBOR   = "Accept: application/cbor"
	cborBody = "Content-Type: application/cbor"
)

func toCBOR(t *testing.T, text string) string {
	t.Helper()
	var tree any
	if err := json.Unmarshal([]byte(text), &tree); err != nil {
		t.Fatal(err)
	}
	data, err := direct.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// fromCBOR returns a document as JSON with sorted keys.
func fromCBOR(t *testing.T, data string) string {
	t.Helper()
	var tree any
	if err := direct.Unmarshal([]byte(data), &tree); err != nil {
		t.Fatalf("%v in %q", err, data)
	}
	text, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestCBOR writes an object in CBOR in every way, and reads it in every shape: it is what JSON
// shows.
func TestCBOR(t *testing.T) {
	a := start(t)
	want := func(got answer, code int, substring string) {
		t.Helper()
		if text := fromCBOR(t, got.body); got.code != code || got.header.Get("Content-Type") != "application/cbor" || !strings.Contains(text, substring) {
			t.Errorf("%d %v %s, want %d with %s", got.code, got.header, text, code, substring)
		}
	}
	cm := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"k":"v"},"binaryData":{"b":"aGk="}}`
	want(a.do("POST", configPath, toCBOR(t, cm), cborBody, asCBOR), 201, `"binaryData":{"b":"aGk="}`)
	want(a.do("PUT", configPath+"/c", toCBOR(t, strings.Replace(cm, `"v"`, `"w"`, 1)), cborBody, asCBOR), 200, `"k":"w"`)
	applied := toCBOR(t, `{"apiVersion":"v1","kind":"ConfigMap","data":{"applied":"yes"}}`)
	want(a.do("PATCH", configPath+"/c?fieldManager=m", applied, "Content-Type: application/apply-patch+cbor", asCBOR), 200, `"applied":"yes"`)
	const meta = ";v=v1;g=meta.k8s.io"
	for accept, path := range map[string]string{
		"":                                     configPath + "/c",
		";as=PartialObjectMetadata" + meta:     configPath + "/c",
		" ":                                    configPath,
		";as=PartialObjectMetadataList" + meta: configPath,
	} {
		binary := a.do("GET", path, "", "Accept: application/cbor"+accept)
		text := a.do("GET", path, "", "Accept: application/json"+accept)
		var tree any
		if err := json.Unmarshal([]byte(text.body), &tree); err != nil {
			t.Fatal(err)
		}
		sorted, err := json.Marshal(tree)
		if got := fromCBOR(t, binary.body); err != nil || got != string(sorted) {
			t.Errorf("%s with %q:\n%s\nwant\n%s", path, accept, got, sorted)
		}
	}
	want(a.do("GET", configPath+"/none", "", asCBOR), 404, `"reason":"NotFound"`)
	want(a.do("DELETE", configPath+"/c", toCBOR(t, `{"apiVersion":"v1","kind":"DeleteOptions","dryRun":["All"]}`), cborBody, asCBOR), 200, "")
	a.want(a.do("GET", configPath+"/c", ""), 200, "")
}

// TestCBORRefused sends what cannot be read, also what a few bytes make large.
func TestCBORRefused(t *testing.T) {
	a := start(t)
	for name, c := range map[string]struct{ method, path, body, media, want string }{
		"no CBOR":         {"POST", configPath, `{"kind":"ConfigMap"}`, "application/cbor", "error decoding CBOR"},
		"another kind":    {"POST", configPath, toCBOR(t, `{"apiVersion":"v1","kind":"Pod"}`), "application/cbor", "cannot be handled as a ConfigMap"},
		"an unknown name": {"POST", configPath + "?fieldValidation=Strict", toCBOR(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"other":1}`), "application/cbor", `unknown field \"other\"`},
		"a list applied":  {"PATCH", configPath + "/x?fieldManager=m", toCBOR(t, `[]`), "application/apply-patch+cbor", "must be an object"},
		"deep":            {"POST", configPath, strings.Repeat("\x81", 1<<20) + "\x00", "application/cbor", "at most 256 levels"},
		"many":            {"POST", configPath, "\x9a\x00\x20\x00\x00" + strings.Repeat("\xa0", 2<<20), "application/cbor", "data items"},
		"long when JSON":  {"POST", configPath, toCBOR(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"k":"`+strings.Repeat(`\u0001`, 1<<20)+`"}}`), "application/cbor", "limit is 3145728"},
	} {
		got := a.do(c.method, c.path, c.body, "Content-Type: "+c.media)
		code := 400
		if name == "long when JSON" {
			code = 413
		}
		if got.code != code || !strings.Contains(got.body, c.want) {
			t.Errorf("%s: %s %s = %d %.300s, want %d with %q", name, c.method, c.path, got.code, got.body, code, c.want)
		}
	}
}

func TestCBORWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a := inMemory(t)
		a.create(configPath, configMap("a", ""))
		got := a.do("GET", configPath+"?watch=true&timeoutSeconds=1", "", asCBOR)
		if media := got.header.Get("Content-Type"); media != "application/cbor-seq" {
			t.Errorf("content type %q", media)
		}
		// Anything behind the first event would be an error.
		if event := fromCBOR(t, got.body); !strings.HasPrefix(event, `{"object":{"apiVersion":"v1"`) || !strings.HasSuffix(event, `"type":"ADDED"}`) {
			t.Errorf("event %s", event)
		}
	})
}
