package planetest_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/internal/used"
)

// TestCostlySelectors: a selector in a URL costs what the objects and the selector cost, and not their product.
func TestCostlySelectors(t *testing.T) {
	b := newBench(t)
	objects, size := 2000, 600_000
	if used.Slowdown > 1 {
		objects, size = 200, 100_000
	}
	const path = "/api/v1/namespaces/shop/configmaps"
	for i := range objects {
		body := fmt.Sprintf(`{"metadata":{"name":"c%d","labels":{"app":"a%d"}}}`, i, i)
		if _, err := b.root.Do(t.Context(), client.Request{Method: "POST", Path: path, Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
	}
	many := func(unit string) string {
		var out strings.Builder
		for i := 0; out.Len() < size; i++ {
			fmt.Fprintf(&out, unit, i)
		}
		return strings.TrimSuffix(out.String(), ",")
	}
	for _, c := range []struct{ name, parameter, value string }{
		{"absent", "labelSelector", many("!k%d,")},
		{"unequal", "labelSelector", many("app!=v%d,")},
		{"values", "labelSelector", "app in (" + many("v%d,") + ")"},
		{"not values", "labelSelector", "app notin (" + many("v%d,") + ")"},
		{"equal", "labelSelector", strings.TrimSuffix(strings.Repeat("app=a1,", size/7), ",")},
		{"numbers", "labelSelector", many("app>%d,")},
		{"wrong", "labelSelector", many("app=(%d,")},
		{"names", "fieldSelector", many("metadata.name!=v%d,")},
		{"unknown fields", "fieldSelector", many("spec.x%d!=v,")},
		{"brackets", "labelSelector", strings.Repeat("(", size)},
	} {
		for _, method := range []string{"GET", "DELETE"} {
			t.Run(c.name+" "+method, func(t *testing.T) {
				b := *b
				b.t = t
				query := url.Values{c.parameter: {c.value}}
				if method == "DELETE" {
					query.Set("dryRun", "All")
				}
				var code int
				before := used.Processor()
				peak := used.Peak(func() { _, _, code = b.send(b.root, method, path, query, "", "") })
				took := used.Processor() - before
				t.Logf("%d after %v and %d MB", code, took, peak>>20)
				most := 2 * time.Second * used.Slowdown // it deletes 2,000 objects in the attempt
				if took > most || code >= 500 || used.Slowdown == 1 && peak > 20*size+smallBody {
					t.Errorf("%s %s?%s=%.20s... takes %v, %d MB and is answered %d, want at most %v and %d MB", method, path, c.parameter, c.value, took, peak>>20, code, most, (20*size+smallBody)>>20)
				}
			})
		}
	}
}
