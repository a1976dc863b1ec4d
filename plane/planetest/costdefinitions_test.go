package planetest_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/internal/used"
	"github.com/planekit/planekit/plane/planetest"
)

// TestManyDefinitions: documents about many definitions cost no more than their size, and other requests are answered
// while definitions come and go. It takes 1,000 definitions with -costs.
func TestManyDefinitions(t *testing.T) {
	n := 60
	if *costs {
		n = 1000
	}
	b := newBench(t, planetest.CustomResources())
	var fields strings.Builder
	for i := range 150 {
		fmt.Fprintf(&fields, `"f%d":{"type":"string","description":"what this field of the object is for","maxLength":100},`, i)
	}
	const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	definition := func(i int) string {
		return fmt.Sprintf(`{"metadata":{"name":"d%[1]ds.g%[2]d.example.com"},"spec":{"group":"g%[2]d.example.com","scope":"Namespaced","names":{"plural":"d%[1]ds","kind":"D%[1]d"},"versions":[
			{"name":"v1","served":true,"storage":true,"selectableFields":[{"jsonPath":".spec.f1"}],"additionalPrinterColumns":[{"name":"F","type":"string","jsonPath":"..f1"},{"name":"G","type":"string","jsonPath":".spec[?(@.f1==\"x\")].f2"}],
			"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{%[3]s"z":{"type":"string"}}}}}}}]}}`, i, i%20, fields.String())
	}
	began, before := time.Now(), used.Processor()
	heap := used.Peak(func() {
		for i := range n {
			if _, err := b.root.Do(t.Context(), client.Request{Method: "POST", Path: path, Body: []byte(definition(i))}); err != nil {
				t.Fatalf("creating the definition %d: %v", i, err)
			}
		}
		last := fmt.Sprintf("/apis/g%d.example.com/v1/namespaces/shop/d%ds", (n-1)%20, n-1)
		planetest.Eventually(t, func() error {
			_, err := b.root.Do(t.Context(), client.Request{Path: last})
			return err
		})
	})
	t.Logf("%d definitions of %d kB are served after %v, %v of processor time, and the heap grows by %d MB", n, len(definition(0))>>10, time.Since(began), used.Processor()-before, heap>>20)
	for _, document := range []string{"/openapi/v2", "/openapi/v3", "/openapi/v3/apis/g1.example.com/v1", "/apis", "/apis/g1.example.com/v1", path} {
		for _, again := range []string{"first", "second"} {
			size, before := 0, used.Processor()
			peak := used.Peak(func() {
				answer, err := b.root.Do(t.Context(), client.Request{Path: document})
				if err != nil {
					t.Errorf("GET %s = %v, want nil", document, err)
				}
				size = len(answer.Body)
			})
			took := used.Processor() - before
			t.Logf("%s GET %s: %d kB after %v and %d MB", again, document, size>>10, took, peak>>20)
			most := time.Second*used.Slowdown + time.Duration(size)*200*used.Slowdown
			if again == "first" {
				most += time.Duration(n) * 3 * time.Millisecond * used.Slowdown // it compiles the schemas of all
			}
			if took > most || used.Slowdown == 1 && peak > 20*size+smallBody {
				t.Errorf("GET %s = %d kB after %v and %d MB, want at most %v and %d MB", document, size>>10, took, peak>>20, most, (20*size+smallBody)>>20)
			}
		}
	}
	// Readers of documents while definitions change.
	changing, done := 10, make(chan error, 1)
	go func() {
		var failed error
		for i := range changing {
			_, err := b.root.Do(t.Context(), client.Request{Method: "DELETE", Path: fmt.Sprintf("%s/d%ds.g%d.example.com", path, i, i%20)})
			failed = errors.Join(failed, err)
		}
		done <- failed
	}()
	var slowest time.Duration
	for waiting := true; waiting; {
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("deleting definitions: %v", err)
			}
			waiting = false
		default:
		}
		for _, document := range []string{"/openapi/v2", "/api/v1/namespaces/default"} {
			began := time.Now()
			if _, err := b.root.Do(t.Context(), client.Request{Path: document}); err != nil {
				t.Errorf("GET %s while definitions change = %v, want nil", document, err)
			}
			if document != "/openapi/v2" {
				slowest = max(slowest, time.Since(began))
			}
		}
	}
	t.Logf("the slowest request of another user takes %v", slowest)
	if slowest > 2*time.Second*used.Slowdown {
		t.Errorf("a request of another user takes %v while definitions change, want at most 2s", slowest)
	}
}
