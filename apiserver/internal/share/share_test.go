package share_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/planekit/planekit/apiserver/internal/share"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func Example() {
	labels := share.NewTable[map[string]string](100)
	a, b := map[string]string{"app": "web"}, map[string]string{"app": "web"}
	share.Map(labels, &a)
	share.Map(labels, &b)
	a["app"] = "which one must not do"
	fmt.Println(b["app"])
	// Output: which one must not do
}

// TestTableForgets asks for more parts than a table holds: those asked for again
// and again stay.
func TestTableForgets(t *testing.T) {
	table := share.NewTable[*int](10)
	key := func(n int) []byte { return fmt.Append(nil, n) }
	first := table.One(key(0), new(int))
	second := table.One(key(1), new(int))
	for n := 2; n < 1000; n++ {
		table.One(key(n), new(int))
		if table.One(key(0), new(int)) != first {
			t.Fatalf("part 0 was forgotten after %d others", n)
		}
	}
	if table.One(key(1), new(int)) == second {
		t.Error("part 1 was not forgotten")
	}
}

func TestTableIsForMany(t *testing.T) {
	table := share.NewTable[int](8)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 2000 {
				n := rand.IntN(20)
				if got := table.One(fmt.Append(nil, n), n); got != n {
					t.Errorf("got %d for %d", got, n)
				}
			}
		})
	}
	group.Wait()
}

// TestKeysTellPartsApart has parts that differ and must not have one key.
func TestKeysTellPartsApart(t *testing.T) {
	lists := [][]string{nil, {""}, {"", ""}, {"a"}, {"a", ""}, {"", "a"}, {"ab"}, {"a", "b"}, {"b", "a"}}
	seen := map[string]string{}
	for _, list := range lists {
		key := string(share.AppendStrings(nil, list))
		if other, ok := seen[key]; ok {
			t.Errorf("%q has the key of %s", list, other)
		}
		seen[key] = fmt.Sprintf("%q", list)
	}
	maps := []map[string]string{nil, {"a": ""}, {"a": "b"}, {"ab": ""}, {"": "ab"}, {"a": "1", "b": "2"}, {"a": "2", "b": "1"}, {"a": "1b2"}}
	seen = map[string]string{}
	for _, m := range maps {
		key := string(share.AppendMap(nil, m))
		if other, ok := seen[key]; ok {
			t.Errorf("%q has the key of %s", m, other)
		}
		seen[key] = fmt.Sprintf("%q", m)
	}
}

func TestEqualPartsHaveOneKey(t *testing.T) {
	many := map[string]string{}
	for i := range 40 {
		many[fmt.Sprint("k", i)] = fmt.Sprint(i)
	}
	again := map[string]string{}
	for i := range 40 {
		again[fmt.Sprint("k", 39-i)] = fmt.Sprint(39 - i)
	}
	if string(share.AppendMap(nil, many)) != string(share.AppendMap(nil, again)) {
		t.Error("equal maps, different keys")
	}
	limits := func(cpu string) *corev1.ResourceRequirements {
		return &corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse("1Gi")}}
	}
	a, ok1 := share.AppendMessage(nil, limits("1"))
	b, ok2 := share.AppendMessage(nil, limits("1"))
	c, ok3 := share.AppendMessage(nil, limits("2"))
	if !ok1 || !ok2 || !ok3 || string(a) != string(b) || string(a) == string(c) {
		t.Errorf("AppendMessage of limits 1, 1 and 2 = %x, %v; %x, %v; %x, %v, want true each, equal keys of 1 and another of 2",
			a, ok1, b, ok2, c, ok3)
	}
}

// TestLargePartsAreLeftAlone has equal parts that are too large to be worth it.
func TestLargePartsAreLeftAlone(t *testing.T) {
	table := share.NewTable[[]string](10)
	for size, shared := range map[int]bool{1000: true, 10_000: false} {
		a, b := []string{strings.Repeat("x", size)}, []string{strings.Repeat("x", size)}
		share.Strings(table, &a)
		share.Strings(table, &b)
		if (&a[0] == &b[0]) != shared {
			t.Errorf("%d bytes: shared %v, want %v", size, !shared, shared)
		}
	}
}

func BenchmarkMap(b *testing.B) {
	table := share.NewTable[map[string]string](4096)
	labels := map[string]string{"app": "web", "tier": "front", "pod-template-hash": "5d4f8c7b9"}
	b.ReportAllocs()
	for b.Loop() {
		share.Map(table, &labels)
	}
}
