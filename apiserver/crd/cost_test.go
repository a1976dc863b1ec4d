package crd_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/apiserver/crd/rules"
	"github.com/planekit/planekit/internal/used"
)

// costs makes TestCosts try all requests, also with fewer and with more parts.
var costs = flag.Bool("costs", false, "try all requests in several sizes")

// fixed are the requests that are always tried.
var fixed = []string{"default", "defaults in defaults", "enum", "small enum", "pattern", "anyOf", "fewer anyOf", "wrong under a long key", "quantity"}

// A costly is a request for an object that multiplies two lists, or a list and its schema, of n parts each.
type costly struct {
	name string
	n    int
	// spec is the schema of the field spec, and value the field.
	spec, value func(n int) string
	// codes holds the expected status codes.
	codes []int
}

func text(s string) func(int) string { return func(int) string { return s } }

// list returns n parts with commas between them, in which %d is their number.
func list(n int, part string) string {
	var out strings.Builder
	for i := range n {
		if i > 0 {
			out.WriteByte(',')
		}
		if strings.Contains(part, "%d") {
			fmt.Fprintf(&out, part, i)
		} else {
			out.WriteString(part)
		}
	}
	return out.String()
}

// listOf returns a function for a list of n parts.
func listOf(part string) func(int) string {
	return func(n int) string { return "[" + list(n, part) + "]" }
}

// items returns a function for the schema of a list whose items have one.
func items(schema func(n int) string) func(int) string {
	return func(n int) string { return `{"type":"array","items":` + schema(n) + `}` }
}

const (
	objectJSON = "application/json"
	mergePatch = "application/merge-patch+json"
	jsonPatch  = "application/json-patch+json"
	applyPatch = "application/apply-patch+yaml"
)

const (
	created  = 201
	tooLarge = 413
	invalid  = 422
)

func costlies() []costly {
	enum := func(part string) func(int) string {
		return func(n int) string { return `{"type":"string","enum":[` + list(n, part) + `]}` }
	}
	fields := func(part string) func(int) string {
		return func(n int) string { return `{"type":"object","properties":{` + list(n, part) + `}}` }
	}
	return []costly{
		{name: "default", n: 19_000, spec: items(text(`{"type":"object","properties":{"a":{"type":"string","default":"` + strings.Repeat("x", 50_000) + `"}}}`)), value: listOf("{}"), codes: []int{tooLarge}},
		{name: "default list", n: 3000, spec: items(func(n int) string {
			return `{"type":"object","properties":{"a":{"type":"array","items":{"type":"string"},"default":[` + list(n, `"x"`) + `]}}}`
		}), value: listOf("{}"), codes: []int{tooLarge}},
		{name: "defaults of fields", n: 3000, spec: items(fields(`"f%d":{"type":"string","default":"x"}`)), value: listOf("{}"), codes: []int{tooLarge}},
		{name: "defaults in defaults", n: 1000, spec: func(n int) string {
			return `{"type":"array","items":{"type":"object","properties":{"a":{"type":"array","default":[` + list(n, "{}") + `],"items":{"type":"object","properties":{"b":{"type":"array","default":[` + list(n, "{}") +
				`],"items":{"type":"object","properties":{"c":{"type":"string","default":"x"}}}}}}}}}}`
		}, value: listOf("{}"), codes: []int{tooLarge}},
		{name: "null", n: 19_000, spec: items(text(`{"type":"string","default":"` + strings.Repeat("x", 50_000) + `"}`)), value: listOf("null"), codes: []int{tooLarge}},
		{name: "enum", n: 30_000, spec: items(enum(`"value-%d"`)), value: listOf(`"wrong"`), codes: []int{invalid}},
		{name: "small enum", n: 3000, spec: items(enum(`"value-%d"`)), value: listOf(`"x"`), codes: []int{invalid}},
		{name: "enum of numbers", n: 20_000, spec: items(func(n int) string { return `{"type":"integer","enum":[` + list(n, "1%d") + `]}` }), value: listOf(`7`), codes: []int{invalid}},
		{name: "enum of objects", n: 10_000, spec: items(func(n int) string {
			return `{"type":"object","x-kubernetes-preserve-unknown-fields":true,"enum":[` + list(n, `{"a":%d}`) + `]}`
		}), value: listOf(`{"a":"x"}`), codes: []int{invalid}},
		{name: "pattern", n: 14_000, spec: items(text(`{"type":"string","pattern":"^(.{0,30}[ab]){30}x$"}`)), value: listOf(`"` + strings.Repeat("ab", 60) + `"`), codes: []int{tooLarge}},
		{name: "anyOf", n: 9000, spec: items(func(n int) string { return `{"type":"integer","anyOf":[` + list(n, `{"minimum":1%d000}`) + `]}` }), value: listOf("-1,-1,-1"), codes: []int{tooLarge, invalid}},
		{name: "fewer anyOf", n: 2250, spec: items(func(n int) string { return `{"type":"integer","anyOf":[` + list(n, `{"minimum":1%d000}`) + `]}` }), value: listOf("-1,-1,-1"), codes: []int{tooLarge, invalid}},
		{name: "oneOf", n: 9000, spec: items(func(n int) string { return `{"type":"integer","oneOf":[` + list(n, `{"minimum":%d}`) + `]}` }), value: listOf("9000,9001,9002"), codes: []int{tooLarge, invalid}},
		{name: "allOf", n: 9000, spec: items(func(n int) string { return `{"type":"integer","allOf":[` + list(n, `{"minimum":%d}`) + `]}` }), value: listOf("9000,9001,9002"), codes: []int{tooLarge, created}},
		{name: "wrong allOf", n: 9000, spec: items(func(n int) string { return `{"type":"integer","allOf":[` + list(n, `{"minimum":%d}`) + `]}` }), value: listOf("-1,-1,-1"), codes: []int{invalid}},
		{name: "not", n: 9000, spec: items(func(n int) string {
			return `{"type":"integer","not":{"anyOf":[` + list(n, `{"minimum":1%d000}`) + `]}}`
		}), value: listOf("-1,-1,-1"), codes: []int{tooLarge, created}},
		{name: "enum in allOf", n: 20_000, spec: func(n int) string {
			return `{"type":"array","items":{"type":"string"},"allOf":[{"items":{"enum":[` + list(n, `"value-%d"`) + `]}}]}`
		}, value: listOf(`"wrong"`), codes: []int{invalid}},
		{name: "required", n: 9000, spec: items(func(n int) string {
			return `{"type":"object","required":[` + list(n, `"f%d"`) + `]}`
		}), value: listOf(`{}`), codes: []int{invalid}},
		{name: "multipleOf", n: 40_000, spec: items(text(`{"type":"integer","multipleOf":3}`)), value: listOf(`1000000000001`), codes: []int{invalid, tooLarge}},
		{name: "formats", n: 20_000, spec: items(text(`{"type":"string","format":"uri"}`)), value: listOf(`"` + strings.Repeat("x", 100) + `"`), codes: []int{invalid, tooLarge}},
		{name: "long format", n: 1_000_000, spec: text(`{"type":"string","format":"email"}`), value: func(n int) string { return `"` + strings.Repeat("a", n) + `"` }, codes: []int{invalid, tooLarge}},
		{name: "types", n: 40_000, spec: items(text(`{"type":"integer"}`)), value: listOf(`"x"`), codes: []int{invalid}},
		{name: "unknown under a long key", n: 40_000, spec: text(`{"type":"object","additionalProperties":{"type":"object"}}`), value: func(n int) string {
			return `{"` + strings.Repeat("x", n) + `":{` + list(n, `"a%d":0`) + `}}`
		}, codes: []int{400}},
		{name: "wrong under a long key", n: 40_000, spec: text(`{"type":"object","additionalProperties":{"type":"object","additionalProperties":{"type":"string"}}}`), value: func(n int) string {
			return `{"` + strings.Repeat("x", n) + `":{` + list(n, `"a%d":0`) + `}}`
		}, codes: []int{400}},
		{name: "minProperties in minProperties", n: 30_000, spec: text(func() string {
			return strings.Repeat(`{"type":"object","minProperties":3,"additionalProperties":`, 60) + `{"type":"string"}` + strings.Repeat("}", 60)
		}()), value: func(n int) string {
			return strings.Repeat(`{"a":`, 60) + `"` + strings.Repeat("x", n) + `"` + strings.Repeat("}", 60)
		}, codes: []int{invalid}},
		{name: "set", n: 20_000, spec: text(`{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}}`), value: listOf(`"%d","%[1]d"`), codes: []int{invalid}},
		{name: "list map", n: 9000, spec: text(`{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","required":["k"],"properties":{"k":{"type":"string"}}}}`), value: listOf(`{"k":"` + strings.Repeat("x", 100) + `"}`), codes: []int{invalid}},
		{name: "embedded", n: 9000, spec: items(text(`{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}`)), value: listOf(`{"metadata":{"name":"/","labels":{"/":"/"}}}`), codes: []int{invalid}},
		{name: "quantity", n: 100, spec: text(`{"type":"array","maxItems":100,"items":{"type":"string","maxLength":100,"x-kubernetes-validations":[{"rule":"quantity(self).isGreaterThan(quantity('0'))"}]}}`), value: listOf(`"1e99999999"`), codes: []int{invalid}},
	}
}

// A way is a request that brings an object, or changes one.
type way struct {
	name, method, at, media string
	// body makes the body from an object with the field spec.
	body func(field string) string
}

// ways returns the requests for an object of a kind, or those for an object that exists, with a value for its spec.
func ways(kind string) []way {
	whole := func(name, field string) func(string) string {
		return func(value string) string {
			return fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":%q,"metadata":{"name":%q},%q:%s}`, kind, name, field, value)
		}
	}
	add := func(field string) func(string) string {
		return func(value string) string {
			return fmt.Sprintf(`[{"op":"add","path":"/%s","value":%s}]`, field, value)
		}
	}
	const manager = "&fieldManager=m&force=true"
	return []way{
		{"create", "POST", "?dryRun=All", objectJSON, whole("a", "spec")},
		{"apply a new one", "PATCH", "/a?dryRun=All" + manager, applyPatch, whole("a", "spec")},
		{"put", "PUT", "/first?dryRun=All", objectJSON, whole("first", "spec")},
		{"merge", "PATCH", "/first?dryRun=All", mergePatch, whole("first", "spec")},
		{"patch", "PATCH", "/first?dryRun=All", jsonPatch, add("spec")},
		{"apply", "PATCH", "/first?dryRun=All" + manager, applyPatch, whole("first", "spec")},
		{"put status", "PUT", "/first/status?dryRun=All", objectJSON, whole("first", "status")},
		{"merge status", "PATCH", "/first/status?dryRun=All", mergePatch, whole("first", "status")},
		{"patch status", "PATCH", "/first/status?dryRun=All", jsonPatch, add("status")},
		{"apply status", "PATCH", "/first/status?dryRun=All" + manager, applyPatch, whole("first", "status")},
	}
}

// TestCosts: no object costs more than a second of processor time, or twenty times its size in memory, whatever its
// schema is, and however it is written.
func TestCosts(t *testing.T) {
	compiler, err := rules.New()
	if err != nil {
		t.Fatal(err)
	}
	a := start(t, compiler)
	var all []costly
	for _, c := range costlies() {
		if *costs {
			for _, factor := range []int{1, 2, 4} {
				smaller := c
				smaller.n, smaller.codes = c.n*factor/4, nil
				all = append(all, smaller)
			}
		} else if slices.Contains(fixed, c.name) {
			all = append(all, c)
		}
	}
	for i, c := range all {
		t.Run(fmt.Sprintf("%s of %d", c.name, c.n), func(t *testing.T) {
			a := *a
			a.t = t
			plural, kind := fmt.Sprintf("things%d", i), fmt.Sprint("Thing", i)
			schema := c.spec(c.n)
			a.install(define(plural, kind, `{"type":"object","properties":{"spec":`+schema+`,"status":`+schema+`}}`, `,"subresources":{"status":{}}`))
			at := "/apis/example.com/v1/namespaces/default/" + plural
			if got := a.do("POST", at, strings.Replace(widget("first", "null"), "Widget", kind, 1)); got.code != created {
				t.Fatalf("the first object is answered with %d %s", got.code, got.body) // which also compiles the schema
			}
			for i, w := range ways(kind) {
				if i > 0 && slowdown > 1 {
					break // the race detector takes its time
				}
				a.affordable(c, w, at)
			}
		})
	}
}

// affordable sends one request and checks what it takes.
func (a *api) affordable(c costly, w way, at string) {
	body := w.body(c.value(c.n))
	if w.method == "PUT" {
		var stored struct {
			Metadata struct{ ResourceVersion string }
		}
		if err := json.Unmarshal([]byte(a.do("GET", at+"/first", "").body), &stored); err != nil {
			a.t.Fatal(err)
		}
		body = strings.Replace(body, `"name":"first"`, `"name":"first","resourceVersion":"`+stored.Metadata.ResourceVersion+`"`, 1)
	}
	send := func() answer { return a.do(w.method, at+w.at, body, "Content-Type: "+w.media) }
	before := used.Processor()
	got := send()
	took := used.Processor() - before
	codes := c.codes
	switch w.media {
	case jsonPatch:
		codes = append(slices.Clone(codes), 422) // the result cannot be read
	case mergePatch:
		codes = append(slices.Clone(codes), 200, 422) // null removes what it stands for
	case applyPatch:
		codes = append(slices.Clone(codes), 400) // YAML with too many values
	}
	if c.codes != nil && !slices.Contains(codes, got.code) || got.code >= 500 {
		a.t.Errorf("%s: answered %d %.300s, want one of %d", w.name, got.code, got.body, codes)
	}
	if took > time.Second*slowdown {
		a.t.Errorf("%s: %d bytes take %v of processor time, at most %v are due", w.name, len(body), took, time.Second*slowdown)
	}
	if slowdown > 1 {
		return // memory is another under the race detector
	}
	peak := used.Peak(func() { send() })
	if *costs || took > 300*time.Millisecond {
		a.t.Logf("%s: %d: %d bytes take %v and %d MB: %.200s", w.name, got.code, len(body), took, peak>>20, got.message())
	}
	if most := 20*len(body) + 48<<20; peak > most {
		a.t.Errorf("%s: %d bytes take %d MB of memory, at most %d MB are due", w.name, len(body), peak>>20, most>>20)
	}
}
