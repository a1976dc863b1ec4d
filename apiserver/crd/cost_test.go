package crd_test

import (
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/planekit/planekit/apiserver/crd/rules"
)

// costs makes TestCosts try all requests, also with fewer and with more parts.
var costs = flag.Bool("costs", false, "try all requests in several sizes")

// fixed are the requests that are always tried.
var fixed = []string{"default", "defaults in defaults", "enum", "small enum", "pattern", "anyOf", "wrong under a long key", "quantity"}

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

// TestCosts: no object costs more than a second of processor time, or twenty times its size in memory, whatever its
// schema is.
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
			plural := fmt.Sprintf("things%d", i)
			a.install(define(plural, fmt.Sprint("Thing", i), `{"type":"object","properties":{"spec":`+c.spec(c.n)+`}}`, ""))
			at := "/apis/example.com/v1/namespaces/default/" + plural
			if got := a.do("POST", at, strings.Replace(widget("first", "null"), "Widget", fmt.Sprint("Thing", i), 1)); got.code != created {
				t.Fatalf("the first object is answered with %d %s", got.code, got.body) // which also compiles the schema
			}
			body := strings.Replace(widget("a", c.value(c.n)), "Widget", fmt.Sprint("Thing", i), 1)
			send := func() answer { return a.do("POST", at+"?dryRun=All", body) }
			before := processorTime(t)
			got := send()
			took := processorTime(t) - before
			if c.codes != nil && !slices.Contains(c.codes, got.code) || got.code >= 500 {
				t.Errorf("answered %d %.300s, want one of %d", got.code, got.body, c.codes)
			}
			if took > time.Second*slowdown {
				t.Errorf("%d bytes take %v of processor time, at most %v are due", len(body), took, time.Second*slowdown)
			}
			if slowdown > 1 {
				return // memory is another under the race detector
			}
			peak := peakMemory(func() { send() })
			t.Logf("%d: %d bytes take %v and %d MB: %.200s", got.code, len(body), took, peak>>20, got.message())
			if most := 20*len(body) + 48<<20; peak > most {
				t.Errorf("%d bytes take %d MB of memory, at most %d MB are due", len(body), peak>>20, most>>20)
			}
		})
	}
}

func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// peakMemory estimates by how much the memory in use grows while do runs.
func peakMemory(do func()) int {
	defer debug.SetGCPercent(debug.SetGCPercent(25))
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	peak, done := before.HeapAlloc, make(chan struct{})
	var sampling sync.WaitGroup
	sampling.Go(func() {
		for {
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			peak = max(peak, now.HeapAlloc)
			select {
			case <-done:
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	})
	do()
	close(done)
	sampling.Wait()
	return int(peak - before.HeapAlloc)
}
