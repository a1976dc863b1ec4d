package crd_test

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/planekit/planekit/internal/used"
)

// TestListsOfLongDefaults: a list of objects that were stored before their definition got a long default takes
// memory for a few of them at a time, and none afterwards.
func TestListsOfLongDefaults(t *testing.T) {
	const n, long = 2000, 50_000
	a := start(t, nil)
	a.install(define("things", "Thing", `{"type":"object","properties":{"spec":{"type":"object"}}}`, ""))
	const at = "/apis/example.com/v1/namespaces/default/things"
	for i := range n {
		a.do("POST", at, strings.Replace(widget(fmt.Sprint("t", i), "{}"), "Widget", "Thing", 1))
	}
	got := a.do("PATCH", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.com", `{"spec":{"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":
		{"type":"object","properties":{"spec":{"type":"object","properties":{"a":{"type":"string","default":"`+strings.Repeat("x", long)+`"}}}}}}}]}}`, "Content-Type: application/merge-patch+json")
	a.want(got, 200, "")
	list := func() int {
		response, err := a.server.Client().Get(a.server.URL + at) // a client through memory has all of a response in it
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		size, err := io.Copy(io.Discard, response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return int(size)
	}
	a.until(at+"/t0", fmt.Sprintf("the new default of %d bytes", long), func(got answer) bool { return len(got.body) >= long })
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	size := 0
	peak := used.Peak(func() { size = list() })
	runtime.GC()
	runtime.ReadMemStats(&after)
	t.Logf("%d MB take %d MB", size>>20, peak>>20)
	if kept := int(after.HeapAlloc) - int(before.HeapAlloc); peak > 48<<20 || kept > 8<<20 {
		t.Errorf("a list of %d MB takes %d MB and keeps %d MB, want at most 48 and 8", size>>20, peak>>20, kept>>20)
	}
}
